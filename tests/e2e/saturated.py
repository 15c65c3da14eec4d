"""In a guest: programs that use all of the fast node's bandwidth, with and without tierd.

First the memory of the readers is split between both nodes in fixed parts, and nobody moves it.
Then tierd starts. Some time later the readers do, and all of their memory is on the slow node.
"""

import subprocess
import sys
import time
from dataclasses import dataclass
from typing import Any

from tests.e2e import inside
from tests.e2e.inside import MIB, note

FAST, SLOW = 0, 1
READERS = 4
BYTES = 96 * MIB

# Of 1000 pages so many are on the fast node: all, and about the best split. More of them are in
# docs/benchmarks/history.md.
SPLITS = (1000, 750)
STATIC_S = 8
# Seconds at the beginning that do not count: memory is filled, and processes start.
STARTS_S = 3

# At this rate all of it could come up in ten seconds, before latencies are known.
RATE = "rate_limit: 10MB/s\n"
TIERD_S = 190
MEASURED_S = 20
# Seconds that tierd runs before the readers begin, as on most machines.
ALONE_S = 40


@dataclass(frozen=True, slots=True)
class Run:
    """What the readers said, second by second."""

    rates: tuple[float, ...]
    """Lines that were read in each second."""
    fast: tuple[int, ...]
    """Of 1000 pages, how many were on the fast node at its end."""


class Readers:
    def __init__(self, permille: int, seconds: int) -> None:
        words = (READERS, BYTES, FAST, SLOW, permille, seconds)
        argv = ["/job/readers", *map(str, words)]
        self.process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)

    def ended(self) -> Run:
        said, _ = self.process.communicate()
        assert self.process.returncode == 0
        rows = [line.split() for line in said.splitlines()]
        return Run(tuple(float(row[0]) for row in rows), tuple(int(row[1]) for row in rows))


def static() -> dict[int, tuple[float, ...]]:
    found = {}
    for permille in SPLITS:
        found[permille] = Readers(permille, STATIC_S).ended().rates[STARTS_S:]
        note(f"{permille}: {found[permille]}")
    return found


def steered(config: str) -> dict[str, Any]:
    inside.configure(config)
    daemon = inside.started()
    time.sleep(ALONE_S)
    readers = Readers(0, TIERD_S)
    seen = readers.ended()
    why = inside.verb("why", str(FAST)).stdout
    assert daemon.stop() == 0
    note(f"{config!r}: {seen}\n{why}")
    return {"rates": seen.rates[-MEASURED_S:], "fast": seen.fast, "why": why}


def main() -> int:
    inside.begin()
    before, after_tierd = static(), steered(RATE)
    # Once more, because a host may become busier meanwhile.
    inside.tell({"static": [before, static()], "tierd": after_tierd})
    return 0


if __name__ == "__main__":
    sys.exit(main())
