"""Tells on which node each page of a process lies, and puts pages back to where they were.

It asks move_pages(2), page by page, so it also knows which pages changed their node.
"""

import ctypes
import errno
import platform
from array import array
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.errors import BenchError

PAGE = 4096
# The number of move_pages on x86-64 and, as bench.inside is run on machines too, on arm64.
SYSCALLS = {"x86_64": 279, "aarch64": 239}
MPOL_MF_MOVE_ALL = 4
# For a page that is not there the kernel answers a negative number. Its last byte is above this.
NODE_MAX = 127

# The pages that go to one node before others go to the next one: 16 MiB, which fits into what a
# guest keeps free.
BATCH_PAGES = 4096

Move = Callable[[int, "array[int]", int], object]
"""Moves pages of a process, by their addresses, to a node."""


class NoRoom(BenchError):
    """A node has no room for the pages that should go there."""


@dataclass(frozen=True, slots=True)
class Placement:
    """The node of each page of a process, a byte for each page, by the first address of a range.

    A byte above NODE_MAX means that the page was not there.
    """

    nodes: dict[int, bytes]

    def on(self, node: int) -> int:
        """Return how many pages are on a node."""
        return sum(here.count(node) for here in self.nodes.values())

    def went(self, later: "Placement", source: int, target: int) -> int:
        """Return how many pages were on one node, and are on another node later."""
        return sum(
            sum(a == source and b == target for a, b in zip(here, there, strict=False))
            for here, there in self._both(later)
        )

    def astray(self, wanted: "Placement", node: int) -> "array[int]":
        """Return the addresses of pages that are wanted on a node, and are on another one."""
        found: array[int] = array("Q")
        for start, here in self.nodes.items():
            there = wanted.nodes.get(start, b"")
            if here == there:
                continue
            # A range may have grown. Pages that are new are left where they are.
            found.extend(
                start + PAGE * i
                for i, (a, b) in enumerate(zip(here, there, strict=False))
                if b == node and a != node and a <= NODE_MAX
            )
        return found

    def _both(self, later: "Placement") -> list[tuple[bytes, bytes]]:
        return [(here, later.nodes.get(start, b"")) for start, here in self.nodes.items()]


def parse_ranges(maps: str) -> tuple[tuple[int, int], ...]:
    """Return the ranges where a program keeps its data, from a `maps` file.

    That is private memory without a file, and all that is mapped as shared: memory that several
    processes share, and files that a program reads and writes as memory. The kernel's own ranges
    ([vvar], [vdso]) are left out.
    """
    found = []
    for line in maps.splitlines():
        words = line.split(maxsplit=5)
        name = words[5] if len(words) > 5 else ""
        own = words[1].startswith("rw") and words[4] == "0" and not name.startswith("[v")
        if own or words[1].endswith("s"):
            start, end = (int(part, 16) for part in words[0].split("-"))
            found.append((start, end))
    return tuple(found)


def of(pid: int) -> Placement:
    """Ask the kernel where the pages of a process are."""
    try:
        ranges = parse_ranges(Path(f"/proc/{pid}/maps").read_text())
    except OSError as error:
        raise BenchError(f"the program is gone: {error}") from error
    nodes = {}
    for start, end in ranges:
        answers = _move_pages(pid, array("Q", range(start, end, PAGE)), None)
        # The last byte of each number: this is much faster than a look at each, in an emulator.
        nodes[start] = answers.tobytes()[:: answers.itemsize]
    return Placement(nodes)


def _move_pages(pid: int, addresses: "array[int]", node: int | None) -> "array[int]":
    """Move pages to a node, or with None only ask. Return each node, or a negative errno."""
    count = len(addresses)
    if not count:
        return array("i")
    status = array("i", bytes(4 * count))
    targets = None if node is None else array("i", [node] * count)
    libc = ctypes.CDLL(None, use_errno=True)
    failed = libc.syscall(
        ctypes.c_long(SYSCALLS[platform.machine()]),
        ctypes.c_int(pid),
        ctypes.c_ulong(count),
        ctypes.c_void_p(addresses.buffer_info()[0]),
        ctypes.c_void_p(None if targets is None else targets.buffer_info()[0]),
        ctypes.c_void_p(status.buffer_info()[0]),
        ctypes.c_int(0 if node is None else MPOL_MF_MOVE_ALL),
    )
    # A positive number is how many pages were not moved, which their status tells too.
    if failed < 0:
        code = ctypes.get_errno()
        kind = NoRoom if code == errno.ENOMEM else BenchError
        raise kind(f"move_pages of process {pid}: errno {code}")
    return status


def put_back(
    wanted: Mapping[int, Placement],
    order: tuple[int, ...],
    where: Callable[[int], Placement] = of,
    move: Move = _move_pages,
) -> None:
    """Move the pages of processes to where they were. Keys are pids.

    If all nodes are nearly full, pages have to change places: a batch goes to each node in turn. A
    node that has room for more comes first in `order`. A batch for which there is no room waits
    until others have left.
    """
    now = {pid: where(pid) for pid in wanted}
    left = {
        (node, pid): now[pid].astray(one, node) for node in order for pid, one in wanted.items()
    }
    while left := {key: addresses for key, addresses in left.items() if addresses}:
        refused: list[NoRoom] = []
        for (node, pid), addresses in left.items():
            try:
                move(pid, addresses[:BATCH_PAGES], node)
            except NoRoom as error:
                refused.append(error)
            else:
                left[node, pid] = addresses[BATCH_PAGES:]
        if len(refused) == len(left):
            raise refused[0]
