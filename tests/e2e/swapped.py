"""In a guest: three tiers and swap. What is swapped out of which node, and how fast hot sets come.

First the kernel alone reclaims, and swaps out of a fast node. Then tierd runs with
`neighbours.demotion_enabled: on`, and the same is done again. At last the slowest node is filled,
and the heat moves on as before.
"""

import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

from tests.contract.sets import PAGE, WorkloadSets
from tests.e2e import inside
from tests.e2e.inside import MIB, note
from tierd.configuration.config import Config
from tierd.machine.zoneinfo import parse_zones
from tierd.tuner.demotion import AHEAD_SHARE_MAX
from tierd.units import BP_MAX

# The nodes of the machine `three-tier`, fastest first.
FASTEST, MIDDLE, SLOWEST = 1, 0, 2

SWAP = Path("/var/tmp/swap")
SWAP_BYTES = 640 * MIB

HOT_BYTES = 32 * MIB
HOT_HZ = 60.0
ARRIVED_SHARE = 0.9
ARRIVAL_S_MAX = 120.0
# How often the heat moves on, with room below and without.
TURNS = 7
# With every tier full, sets should come at 80 % of the speed with room: a ratio of 1.25. Single
# sets of one boot took 0.5 to 13.7 s, so the medians of seven differ by half to twice by chance.
# This is what chance alone does not do.
SLOWER_MAX = 3.0
# Of what is demoted with every tier full, so much may be swapped out.
SWAPPED_SHARE_MAX = 0.01

# What a program takes at once on the middle node, several times its headroom. It is bound to the
# node, so the kernel has to reclaim there.
BURST_BYTES = 48 * MIB
# What is left free above what eviction keeps on the slowest node, when it is full.
ABOVE_BYTES = 16 * MIB

# With more headroom on a full machine, eviction has to make it.
DEMOTES = "neighbours:\n  demotion_enabled: on\n"
EVICTED_BYTES = 4 * MIB

# Seconds in which tierd makes its headroom.
SETTLE_S = 20.0


def swap_on() -> None:
    with SWAP.open("wb") as file:
        for _ in range(SWAP_BYTES // MIB):
            file.write(bytes(MIB))
    SWAP.chmod(0o600)
    subprocess.run(["mkswap", SWAP], check=True, capture_output=True)
    subprocess.run(["swapon", SWAP], check=True, capture_output=True)
    # The file has left its pages in the page cache.
    Path("/proc/sys/vm/drop_caches").write_text("3")


def swapped_bytes() -> dict[int, int]:
    """Return what was swapped out of each node since the boot, by the kernel's own count."""
    found = {}
    for node in (FASTEST, MIDDLE, SLOWEST):
        lines = Path(f"/sys/devices/system/node/node{node}/vmstat").read_text().splitlines()
        counts = dict(line.split() for line in lines)
        found[node] = int(counts["nr_vmscan_write"]) * PAGE
    return found


def swapped_out_bytes() -> int:
    """Return the same for the whole machine, by another count."""
    lines = Path("/proc/vmstat").read_text().splitlines()
    return int(dict(line.split() for line in lines)["pswpout"]) * PAGE


def moved_bytes(action: str) -> int:
    schemes = inside.status()["schemes"]
    return sum(int(one["applied_bytes_total"]) for one in schemes if one["action"] == action)


def counts() -> dict[str, Any]:
    return {
        "swapped": swapped_bytes(),
        "pswpout": swapped_out_bytes(),
        "demoted": moved_bytes("demote"),
        "evicted": moved_bytes("evict"),
        "free": {node: inside.free_bytes(node) for node in (FASTEST, MIDDLE, SLOWEST)},
    }


def slowdown(facts: Mapping[str, Any]) -> float:
    """Return how many times longer sets took with every tier full than with room below."""
    return float(median(facts["full_s"]) / median(facts["roomy_s"]))


def swapped_share(before: Mapping[str, int], after: Mapping[str, int]) -> float:
    """Return how much was swapped out between two counts, per byte that was demoted."""
    return (after["pswpout"] - before["pswpout"]) / (after["demoted"] - before["demoted"])


def fill(sets: WorkloadSets, name: str, node: int, leave_bytes: int) -> None:
    """Fill a node with cold memory until so much is free."""
    size = inside.free_bytes(node) - leave_bytes
    if size >= MIB:
        sets.place(name, node, size // PAGE * PAGE, only=True)


def burst(sets: WorkloadSets, name: str) -> dict[str, Any]:
    """Take memory on the middle node at once, and see what was swapped for it."""
    before = swapped_bytes()
    free = {node: inside.free_bytes(node) for node in (MIDDLE, SLOWEST)}
    sets.place(name, MIDDLE, BURST_BYTES, only=True)
    after = swapped_bytes()
    sets.free(name)
    return {"free": free, "swapped": {node: after[node] - before[node] for node in after}}


def turn(sets: WorkloadSets, name: str) -> float:
    """Heat a set on the slowest node, and return how long it takes to leave it."""
    began_s = time.monotonic()
    sets.heat(name, HOT_HZ)
    wanted = ARRIVED_SHARE * HOT_BYTES / PAGE

    def arrived() -> bool:
        where = sets.where(name)
        return where.get(FASTEST, 0) + where.get(MIDDLE, 0) >= wanted

    inside.within(arrived, ARRIVAL_S_MAX)
    took_s = time.monotonic() - began_s
    note(f"{name}: {took_s:.1f} s, {counts()}")
    # It cools, and goes down when the next one comes.
    sets.heat(name, 0.0)
    return round(took_s, 1)


def kept_bytes() -> int:
    """Return how much eviction may keep free on the slowest node, at most.

    It is the mark of the kernel, the headroom, and a share of the faster nodes.
    """
    zones = parse_zones(Path("/proc/zoneinfo").read_text())
    mark = PAGE * sum(zone.high_pages for zone in zones if zone.node == SLOWEST)
    headroom = inside.total_bytes(SLOWEST) * Config().headroom_bp // BP_MAX
    faster = inside.total_bytes(FASTEST) + inside.total_bytes(MIDDLE)
    return mark + headroom + int(AHEAD_SHARE_MAX * faster)


def main() -> int:
    sets = inside.begin()
    swap_on()
    facts: dict[str, Any] = {}
    names = [f"set-{index}" for index in range(2 * TURNS)]
    for name in names:
        sets.place(name, SLOWEST, HOT_BYTES, only=True)
    fill(sets, "cold-middle", MIDDLE, 24 * MIB)
    facts["kernel_alone"] = burst(sets, "burst-0")
    note(f"alone {facts['kernel_alone']}")

    inside.configure("")
    daemon = inside.started()
    facts["doctor"] = inside.verb("doctor", "--json").stdout
    fill(sets, "cold-middle-1", MIDDLE, 20 * MIB)
    facts["not_told"] = burst(sets, "burst-1")
    note(f"not told {facts['not_told']}")
    inside.within(lambda: "inversion" in inside.verb("events").stdout, 30)
    facts["events"] = inside.verb("events").stdout
    assert daemon.stop() == 0

    inside.configure(DEMOTES)
    daemon = inside.started()
    fill(sets, "cold-fastest", FASTEST, 30 * MIB)
    fill(sets, "cold-middle-2", MIDDLE, 44 * MIB)
    time.sleep(SETTLE_S)
    before = counts()
    facts["with_demotion"] = burst(sets, "burst-2")
    note(f"with demotion {facts['with_demotion']}")
    facts["roomy_s"] = [turn(sets, name) for name in names[:TURNS]]
    facts["roomy"] = [before, counts()]

    # Less would wake kswapd, and it swaps out much more than is lacking.
    fill(sets, "cold-slowest", SLOWEST, kept_bytes() + ABOVE_BYTES)
    time.sleep(SETTLE_S)
    before = counts()
    facts["full_s"] = [turn(sets, name) for name in names[TURNS:]]
    facts["full"] = [before, counts()]
    # Pages that were swapped out are on no node.
    facts["sets"] = {name: sets.where(name) for name in names}

    inside.configure(DEMOTES + "headroom: 20%\n")
    assert inside.verb("reload").returncode == 0
    wanted = facts["full"][1]["evicted"] + EVICTED_BYTES
    inside.within(lambda: moved_bytes("evict") >= wanted, ARRIVAL_S_MAX)
    facts["evicted"] = {**counts(), "why": inside.verb("why", str(SLOWEST)).stdout}
    facts["exit"] = daemon.stop()
    inside.tell(facts)
    return 0


if __name__ == "__main__":
    sys.exit(main())
