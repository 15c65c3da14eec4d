"""In a guest without swap: page cache fills the slow node, and a hot set there has to come up.

The fast node is full of cold memory. A file is read that is larger than all that is free, as a
backup or a log reader would. So both nodes are as full as the kernel lets them become.
"""

import sys
from pathlib import Path
from typing import Any

from tests.contract.sets import PAGE
from tests.e2e import inside, swapped
from tests.e2e.inside import MIB, note

FAST, SLOW = 0, 1
HOT_BYTES = 96 * MIB
HOT_HZ = 60.0
ARRIVED_SHARE = 0.9
ARRIVAL_S_MAX = 120.0
# What another program leaves free on the fast node.
LEAVES_BYTES = 48 * MIB

# A file without blocks. Its pages are read as zeros, and are page cache like any other.
FILE = Path("/var/tmp/read")
FILE_BYTES = 2048 * MIB


def read_file() -> None:
    with FILE.open("wb") as file:
        file.truncate(FILE_BYTES)
    with FILE.open("rb", buffering=0) as file:
        while file.read(MIB):
            pass


def counts() -> dict[str, int]:
    """Return the bytes that were meant for the slow node and went elsewhere, and those on it."""
    lines = Path(f"/sys/devices/system/node/node{SLOW}/vmstat").read_text().splitlines()
    found = dict(line.split() for line in lines)
    return {
        "missed": int(found["numa_foreign"]) * PAGE,
        "files": int(found["nr_file_pages"]) * PAGE,
        "free": inside.free_bytes(SLOW),
        "migrated": inside.migrated_bytes(),
    }


def main() -> int:
    sets = inside.begin()
    swapped.fill(sets, "cold", FAST, LEAVES_BYTES)
    sets.place("hot", SLOW, HOT_BYTES, only=True)
    read_file()
    facts: dict[str, Any] = {"before": counts()}
    note(f"before {facts['before']}")
    sets.heat("hot", HOT_HZ)
    inside.configure("")
    daemon = inside.started()
    wanted = ARRIVED_SHARE * HOT_BYTES / PAGE
    facts["arrived"] = inside.within(
        lambda: sets.where("hot").get(FAST, 0) >= wanted, ARRIVAL_S_MAX
    )
    facts["after"] = counts()
    facts["moved"] = {
        action: swapped.moved_bytes(action) for action in ("promote", "demote", "evict")
    }
    facts["cold"] = sets.where("cold")
    note(f"with tierd {facts}")
    facts["exit"] = daemon.stop()
    inside.tell(facts)
    return 0


if __name__ == "__main__":
    sys.exit(main())
