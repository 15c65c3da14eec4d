"""In a guest: idle memory goes to the slow node although it is protected, but not if it is bound.

A program in a cgroup of its own fills most of the fast node and is idle. All of its memory is under
`memory.min`: it moves, and nothing of it is reclaimed. A cpuset binds another idle one to the fast
node: it stays. First another program takes memory on the fast node, with the kernel alone. Then
tierd runs while a hot set waits on the slow node. The machine has swap, so that pages could be
reclaimed.
"""

import sys
import time
from pathlib import Path
from typing import Any

from tests.contract.sets import PAGE, WorkloadSets
from tests.e2e import inside, swapped
from tests.e2e.inside import MIB, note

FAST, SLOW = 0, 1
CGROUPS = Path("/sys/fs/cgroup")
GROUP = "guaranteed"

# Its cpuset has the fast node only.
BOUND = "bound"
BOUND_BYTES = 32 * MIB

IDLE_BYTES = 256 * MIB
MIN_BYTES = 320 * MIB
HOT_BYTES = 96 * MIB
HOT_HZ = 60.0
ARRIVED_SHARE = 0.9
ARRIVAL_S_MAX = 120.0
# What another program takes at once on the fast node, so that the kernel has to reclaim there.
BURST_BYTES = 64 * MIB
LEAVES_BYTES = 24 * MIB
SETTLE_S = 20.0

# The counts of a cgroup that say what became of its pages.
COUNTS = ("pswpout", "pgsteal", "pgdemote_kswapd", "pgdemote_direct", "pgmajfault")


def enter(sets: WorkloadSets) -> None:
    """Put a workload into the cgroup. Its memory is then counted there."""
    sets.ask("flush 2000")
    folder = CGROUPS / GROUP
    folder.mkdir()
    (folder / "memory.min").write_text(str(MIN_BYTES))
    (folder / "cgroup.procs").write_text(str(sets.pid))


def bind(sets: WorkloadSets) -> None:
    """Put a workload into a cgroup that may use the memory of the fast node only.

    It is protected as well: the kernel swaps out what it may not demote, and 6.12 demotes it.
    """
    sets.ask("flush 2000")
    folder = CGROUPS / BOUND
    folder.mkdir()
    (folder / "cpuset.mems").write_text(str(FAST))
    (folder / "memory.min").write_text(str(MIN_BYTES))
    (folder / "cgroup.procs").write_text(str(sets.pid))


def protected() -> dict[str, Any]:
    """Return what the kernel says of the cgroup: its size, its place, and what was reclaimed."""
    folder = CGROUPS / GROUP
    stat = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
    rows = (folder / "memory.numa_stat").read_text().splitlines()
    anon = next(line.split()[1:] for line in rows if line.startswith("anon "))
    return {
        "current": int((folder / "memory.current").read_text()),
        "swap": int((folder / "memory.swap.current").read_text()),
        "anon": {word.partition("=")[0]: int(word.partition("=")[2]) for word in anon},
        "counts": {name: int(stat[name]) for name in COUNTS if name in stat},
    }


def main() -> int:
    sets = inside.begin()
    (CGROUPS / "cgroup.subtree_control").write_text("+memory +cpuset")
    swapped.swap_on()
    tenant = WorkloadSets(sets.program, sets.folder)
    enter(tenant)
    tenant.place("idle", FAST, IDLE_BYTES, only=True)
    resident = WorkloadSets(sets.program, sets.folder)
    bind(resident)
    resident.place("idle", FAST, BOUND_BYTES, only=True)
    facts: dict[str, Any] = {"before": protected()}

    inside.put(inside.DEMOTION_ENABLED, "1")
    swapped.fill(sets, "other", FAST, LEAVES_BYTES)
    sets.place("burst", FAST, BURST_BYTES, only=True)
    # Where the kernel took what it needed.
    facts["kernel"] = {**protected(), "other": sets.where("other")}
    facts["bound_before"] = resident.where("idle")
    sets.free("burst")
    note(f"kernel alone {facts['kernel']}")

    sets.place("hot", SLOW, HOT_BYTES, only=True)
    sets.heat("other", 2.0)
    sets.heat("hot", HOT_HZ)
    inside.configure("")
    daemon = inside.started()
    wanted = ARRIVED_SHARE * HOT_BYTES / PAGE
    inside.within(lambda: sets.where("hot").get(FAST, 0) >= wanted, ARRIVAL_S_MAX)
    time.sleep(SETTLE_S)
    facts["after"] = {**protected(), "hot": sets.where("hot"), "idle": tenant.where("idle")}
    facts["bound"] = resident.where("idle")
    note(f"bound {facts['bound']}")
    note(f"with tierd {facts['after']}")
    facts["checked"] = tenant.ask("check idle")
    facts["exit"] = daemon.stop()
    inside.tell(facts)
    return 0


if __name__ == "__main__":
    sys.exit(main())
