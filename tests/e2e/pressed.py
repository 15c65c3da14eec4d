"""In a guest: a hot set below, and a cgroup that nearly always has to wait for memory."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.contract.sets import PAGE
from tests.e2e import inside
from tests.e2e.inside import MIB

HOT_BYTES = 64 * MIB
HOT_HZ = 60.0
ARRIVED_SHARE = 0.9

CGROUPS = Path("/sys/fs/cgroup")
PRESSURE = Path("/proc/pressure/memory")
# Above the `memory.high` of its cgroup a program without swap has to wait at each allocation.
HIGH_BYTES = 8 * MIB
GREEDY = "while True: bytearray(64 << 20)"
WAITS_SHARE_MIN = 20.0


@contextmanager
def starved() -> Iterator[None]:
    """Run a program in a cgroup that has too little memory for it."""
    (CGROUPS / "cgroup.subtree_control").write_text("+memory")
    group = CGROUPS / "greedy"
    group.mkdir()
    (group / "memory.high").write_text(str(HIGH_BYTES))
    enter = f"open('{group}/cgroup.procs', 'w').write('0')"
    with subprocess.Popen([sys.executable, "-c", f"{enter}\n{GREEDY}"]) as program:
        try:
            inside.wait_for("pressure", lambda: waiting_share() > WAITS_SHARE_MIN)
            yield
        finally:
            program.kill()


def waiting_share() -> float:
    """Return the percentage of the last ten seconds in which some task waited for memory."""
    fields = PRESSURE.read_text().split()
    return float(fields[1].removeprefix("avg10="))


def main() -> int:
    sets = inside.begin()
    inside.configure("")
    sets.place("hot", 1, HOT_BYTES, only=True)
    daemon = inside.started()
    facts: dict[str, Any] = {}
    wanted = ARRIVED_SHARE * HOT_BYTES / PAGE
    with starved():
        sets.heat("hot", HOT_HZ)
        inside.within(lambda: sets.where("hot").get(0, 0) >= wanted, inside.PATIENCE_S)
        facts["pressed"] = {
            "why": inside.verb("why", "1").stdout,
            "waiting_share": waiting_share(),
            "where": sets.where("hot"),
        }
    facts["exit"] = daemon.stop()
    inside.tell(facts)
    return 0


if __name__ == "__main__":
    sys.exit(main())
