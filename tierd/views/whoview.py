"""Who has memory on slow nodes: cgroups as a table and as JSON; one cgroup and its processes."""

from collections.abc import Iterable, Sequence
from typing import TypedDict

from tierd.machine.residents import Bytes, Resident, Residents
from tierd.topology import Topology
from tierd.units import format_size
from tierd.views import processview
from tierd.views.render import table
from tierd.views.statusview import wrapped

SCHEMA = "tierd.top/1"

# Cgroups that `tierd top` prints where the output is no terminal; --json has all of them.
SHOWN_MAX = 20

# The least columns for the path of a cgroup.
PATH_COLUMNS_MIN = 20


class Entry(TypedDict):
    """A cgroup, without the cgroups below it. Bytes are memory of programs and of files."""

    cgroup: str
    slow_bytes: int
    """On all tiers but the fastest."""
    slow_active_bytes: int | None
    """The part of it that the kernel's own lists call active; None if the kernel does not say."""
    fast_bytes: int
    bytes_by_node: dict[str, int]


class Document(TypedDict):
    """Who has memory where."""

    schema: str
    cgroups: list[Entry]
    """First the one with the most bytes on slow nodes."""
    cgroups_trouble: str
    """Why no cgroup is known; empty if they are known."""
    left_out: list[str]
    """Which cgroups were not read, and why."""
    processes: processview.Document | None
    """None without --processes: to read them costs time."""


def entries(found: Residents, topology: Topology) -> list[Entry]:
    """Return a JSON object for each cgroup: first the one with the most bytes on slow nodes."""
    listed = [_entry(one, topology) for one in found.cgroups]
    return sorted(listed, key=lambda one: (-one["slow_bytes"], -one["fast_bytes"], one["cgroup"]))


def _entry(one: Resident, topology: Topology) -> Entry:
    active = one.active_by_node
    return {
        "cgroup": one.path,
        "slow_bytes": _slow(one.bytes_by_node, topology),
        "slow_active_bytes": None if active is None else _slow(active, topology),
        "fast_bytes": sum(one.bytes_by_node.values()) - _slow(one.bytes_by_node, topology),
        "bytes_by_node": {str(node): size for node, size in sorted(one.bytes_by_node.items())},
    }


def _slow(sizes: Bytes, topology: Topology) -> int:
    """Return the bytes on nodes of all tiers but the fastest."""
    slow = topology.slow_nodes()
    return sum(size for node, size in sizes.items() if node in slow)


def lines(listed: Sequence[Entry], columns: int, most: int) -> list[str]:
    """Return the first `most` cgroups as a table."""
    rows = [
        (
            format_size(one["slow_bytes"]),
            "?" if one["slow_active_bytes"] is None else format_size(one["slow_active_bytes"]),
            format_size(one["fast_bytes"]),
            one["cgroup"],
        )
        for one in listed[:most]
    ]
    drawn = table([("ON SLOW", "IN USE", "ON FAST", "CGROUP"), *rows])
    # A path is cut at its beginning: its end says more.
    return [line if len(line) <= columns else _cut(line, columns) for line in drawn]


def _cut(line: str, columns: int) -> str:
    head, _, path = line.rpartition("  ")
    room = max(PATH_COLUMNS_MIN, columns - len(head) - 5)
    return f"{head}  ...{path[-room:]}"


def text(found: Document, columns: int) -> str:
    """Return the processes, or else the cgroups with the most bytes on slow nodes, in words."""
    if found["processes"] is not None:
        return "\n".join(_processes(found["processes"], columns))
    listed = found["cgroups"]
    if found["cgroups_trouble"]:
        return "\n".join(wrapped(found["cgroups_trouble"], columns))
    if not listed:
        return "no cgroup below the root has memory"
    shown = lines(listed, columns, SHOWN_MAX)
    more = len(listed) - SHOWN_MAX
    if more > 0:
        shown.append(f"  and {more} more; --json lists all")
    shown += [f"  left out: {one}" for one in found["left_out"]]
    return "\n".join(shown)


def one_text(
    one: Resident,
    processes: processview.Document,
    topology: Topology,
    said: Iterable[str],
    columns: int,
) -> str:
    """Return where the memory of a cgroup is, what may move it, and whose it is."""
    total = sum(one.bytes_by_node.values())
    rows = []
    for tier in topology.tiers:
        size = sum(one.bytes_by_node.get(node, 0) for node in tier.nodes)
        active = one.active_by_node
        used = None if active is None else sum(active.get(node, 0) for node in tier.nodes)
        nodes = ", ".join(f"node{node}" for node in tier.nodes)
        share = f"{size / total:.0%}" if total else "-"
        rows.append(
            (tier.name, nodes, format_size(size), share, "?" if used is None else format_size(used))
        )
    parts = [
        f"{one.path or '/'}: {format_size(total)} of programs and files, fastest tier first",
        "",
    ]
    parts += table([("TIER", "NODES", "MEMORY", "SHARE", "IN USE"), *rows])
    parts += ["", *(line for each in said for line in wrapped(each, columns))]
    if processes["found"] or processes["left_out"]:
        parts += ["", *_processes(processes, columns)]
    return "\n".join(parts)


IN_USE = (
    "IN USE is what the kernel's own lists call active (active_anon, active_file). These lists are "
    "coarse, and may be minutes old. How hot memory is for DAMON is not known by cgroup or process."
)


def _processes(found: processview.Document, columns: int) -> list[str]:
    drawn = processview.lines(found, columns, SHOWN_MAX)
    notes = [line for note in processview.notes(found) for line in wrapped(note, columns)]
    return [*drawn, "", *notes] if notes else drawn
