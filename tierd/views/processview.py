"""Which processes have memory on slow nodes, as a table and as JSON, and what is left out."""

from collections.abc import Sequence
from typing import TypedDict

from tierd.machine.process_memory import Active, Mapped, Processes, Why
from tierd.machine.processes import RSS_BYTES_MAX
from tierd.topology import Topology
from tierd.units import format_size
from tierd.views.render import table
from tierd.views.statusview import wrapped


class ActiveMemory(TypedDict):
    """The memory of a process that the kernel takes for in use, by its lists."""

    size_bytes: int
    slow_bytes: int
    """About how much of it is on all tiers but the fastest."""
    slow_bytes_least: int
    slow_bytes_most: int


class Memory(TypedDict):
    """The memory of a process. What several processes share is counted for each of them."""

    slow_bytes: int
    """On all tiers but the fastest."""
    fast_bytes: int
    bytes_by_node: dict[str, int]
    hugetlb_bytes: int
    """The part in huge pages of hugetlbfs: they do not move, and may be in use or not."""
    active: ActiveMemory | None
    """None if this kernel does not tell."""


class Entry(TypedDict):
    """A process."""

    pid: int
    process: str
    rss_bytes: int
    memory: Memory | None
    """None if the process is too large to be read."""


class LeftOutEntry(TypedDict):
    """Processes of which it is not known on which nodes their memory is."""

    why: Why
    processes: int
    rss_bytes: int | None
    """None if it is not known of each of them."""


class Document(TypedDict):
    """The largest processes."""

    found: list[Entry]
    """First the one with the most memory in use on slow nodes."""
    left_out: list[LeftOutEntry]
    knows_active: bool
    """False if this kernel does not tell which memory of a process is in use."""


def as_document(read: Processes, topology: Topology) -> Document:
    """Return the JSON object of some processes."""
    slow = topology.slow_nodes()
    found: list[Entry] = [
        {
            "pid": one.pid,
            "process": one.name,
            "rss_bytes": one.rss_bytes,
            "memory": None if one.mapped is None else _memory(one.mapped, slow),
        }
        for one in read.found
    ]
    return {
        "found": sorted(found, key=_order),
        "left_out": [
            {"why": one.why, "processes": one.processes, "rss_bytes": one.rss_bytes}
            for one in read.left_out
        ],
        "knows_active": read.knows_active,
    }


def _order(one: Entry) -> tuple[int, int, int, int]:
    memory = one["memory"]
    active = None if memory is None else memory["active"]
    return (
        0 if active is None else -active["slow_bytes"],
        0 if memory is None else -memory["slow_bytes"],
        -one["rss_bytes"],
        one["pid"],
    )


def _memory(mapped: Mapped, slow: frozenset[int]) -> Memory:
    sizes = mapped.bytes_by_node
    slow_bytes = sum(size for node, size in sizes.items() if node in slow)
    return {
        "slow_bytes": slow_bytes,
        "fast_bytes": sum(sizes.values()) - slow_bytes,
        "bytes_by_node": {str(node): size for node, size in sorted(sizes.items())},
        "hugetlb_bytes": mapped.hugetlb_bytes,
        "active": None if mapped.active is None else _active(mapped.active, slow),
    }


def _active(active: Active, slow: frozenset[int]) -> ActiveMemory:
    below = [one for node, one in active.by_node.items() if node in slow]
    return {
        "size_bytes": active.size_bytes,
        "slow_bytes": sum(one.about for one in below),
        "slow_bytes_least": sum(one.least for one in below),
        "slow_bytes_most": sum(one.most for one in below),
    }


HEADINGS = ("ON SLOW", "IN USE", "ON FAST", "IN USE", "RSS", "PID", "PROCESS")

ABOUT = (
    "~ is about: the kernel says how much of a mapping is in use, and not on which node. It is "
    "taken to be spread evenly."
)
UNKNOWN = (
    "? is not known: this kernel sorts pages into generations (MGLRU), and does not tell which "
    "memory of a process is in use."
)
_WHY = {
    Why.unreadable: " that this user may not read",
    Why.too_large: f", too large to be read: the limit is {format_size(RSS_BYTES_MAX)}",
    Why.smaller: " that have less memory",
    Why.late: " for which there was no time",
    Why.not_sized: " that were not looked at: there are too many",
}


def lines(found: Document, columns: int, most: int) -> list[str]:
    """Return the first `most` processes as a table, and what is left out."""
    shown = [_row(one) for one in found["found"][:most]]
    drawn = table([HEADINGS, *shown]) if shown else ["  no process with memory was read"]
    more = len(found["found"]) - most
    if more > 0:
        drawn.append(f"  and {more} more; --json lists all")
    for one in found["left_out"]:
        drawn += wrapped(f"left out: {_left_out(one)}", columns, "  ")
    return drawn


def _left_out(one: LeftOutEntry) -> str:
    number, size = one["processes"], one["rss_bytes"]
    counted = f"{number} process" if number == 1 else f"{number} processes"
    told = "" if size is None else f" with {format_size(size)}"
    return f"{counted}{told}{_WHY[one['why']]}"


def notes(found: Document) -> list[str]:
    """Return what the signs in the table mean, if they are there."""
    rows = [_row(one) for one in found["found"]]
    about = any(cell.startswith("~") for row in rows for cell in row[:4])
    unknown = not found["knows_active"] and bool(rows)
    return [*([ABOUT] if about else []), *([UNKNOWN] if unknown else [])]


def _row(one: Entry) -> Sequence[str]:
    who = (format_size(one["rss_bytes"]), str(one["pid"]), one["process"])
    memory = one["memory"]
    if memory is None:
        return ("-", "-", "-", "-", *who)
    slow, fast = format_size(memory["slow_bytes"]), format_size(memory["fast_bytes"])
    active = memory["active"]
    if active is None:
        return (slow, "?", fast, "?", *who)
    sign = "" if active["slow_bytes_least"] == active["slow_bytes_most"] else "~"
    below, above = active["slow_bytes"], active["size_bytes"] - active["slow_bytes"]
    return (slow, f"{sign}{format_size(below)}", fast, f"{sign}{format_size(above)}", *who)
