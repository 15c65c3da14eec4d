"""Compares DAMON's files in two states of a kernel. Pure.

A tree is the text of each file by its path below the folder of the kdamonds.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

Tree = Mapping[str, str | None]

# What the kernel says by itself: nobody writes it.
_TOLD = re.compile(r"(^|/)(pid|stats/.*|tried_regions/.*|effective_bytes|avail_\w+)$")

_IN_CONTEXT = re.compile(r"(\d+)/contexts/0/(.*)")
_IN_SCHEME = re.compile(r"schemes/(\d+)/(.*)")
_IN_FILTER = re.compile(r"(?:ops_|core_)?filters/(\d+)/(.*)")
_RANGE = re.compile(r"targets/0/regions/(\d+)/(start|end)")


@dataclass(frozen=True, slots=True)
class Way:
    """A scheme with its context: which memory, what is done with it, and all files of both."""

    source: int
    """The first address of the node."""
    action: str
    files: dict[str, str] = field(default_factory=dict)


def settings(tree: Tree) -> dict[str, str]:
    """Return the files that somebody writes."""
    return {path: text or "" for path, text in tree.items() if not _TOLD.search(path)}


def differing(ours: Tree, theirs: Tree) -> dict[str, tuple[str | None, str | None]]:
    """Return the files that differ, with both texts; None if there is no such file."""
    mine, other = settings(ours), settings(theirs)
    return {
        path: (mine.get(path), other.get(path))
        for path in sorted({*mine, *other})
        if mine.get(path) != other.get(path)
    }


def starts(tree: Tree) -> tuple[int, ...]:
    """Return the first address of each kdamond's memory."""
    return tuple(
        int(text or 0)
        for path, text in sorted(tree.items())
        if path.endswith("/contexts/0/targets/0/regions/0/start")
    )


def ways(tree: Tree, nodes: tuple[int, ...]) -> list[Way]:
    """Return all schemes; `nodes` are the first addresses of the nodes."""
    return [way for kdamond in range(int(tree["nr_kdamonds"] or 0))
            for way in _ways(settings(tree), str(kdamond), nodes)]  # fmt: skip


def _ways(files: Mapping[str, str], kdamond: str, nodes: tuple[int, ...]) -> Iterator[Way]:
    inside = {}
    for path, text in files.items():
        match = _IN_CONTEXT.fullmatch(path)
        if match is not None and match[1] == kdamond:
            inside[match[2]] = text
    ranges: dict[int, dict[str, int]] = {}
    common: dict[str, str] = {}
    schemes: dict[int, dict[str, str]] = {}
    for path, text in inside.items():
        if (match := _RANGE.fullmatch(path)) is not None:
            ranges.setdefault(int(match[1]), {})[match[2]] = int(text)
        elif (match := _IN_SCHEME.fullmatch(path)) is not None:
            schemes.setdefault(int(match[1]), {})[match[2]] = text
        elif not path.startswith(("schemes/", "targets/")):
            common[path] = text
    common["refresh_ms"] = files.get(f"{kdamond}/refresh_ms", "0")
    listed = [(one["start"], one["end"]) for _, one in sorted(ranges.items())]
    common["ranges"] = " ".join(f"{start}-{end}" for start, end in listed)
    last = max(end for _, end in listed)
    source = max(node for node in nodes if node < last)
    for _, scheme in sorted(schemes.items()):
        yield Way(source, scheme["action"], {**common, **_folded(scheme)})


def _folded(scheme: Mapping[str, str]) -> dict[str, str]:
    """Return a scheme's files. Its goals, targets by weight and filters of a type are one text."""
    found: dict[str, str] = {}
    filters: dict[int, dict[str, str]] = {}
    goals: dict[str, str] = {}
    weighed: dict[str, str] = {}
    for path, text in scheme.items():
        match = _IN_FILTER.fullmatch(path)
        if match is not None:
            filters.setdefault(int(match[1]), {})[match[2]] = text
        elif path.startswith("quotas/goals/"):
            goals[path] = text
        elif path.startswith("dests/"):
            weighed[path] = text
        elif not path.endswith("nr_filters"):
            found[path] = text
    for _, one in sorted(filters.items()):
        name = f"filters/{one['type']}"
        found[name] = f"{found[name]}; {_of_filter(one)}" if name in found else _of_filter(one)
    found["quotas/goals"] = " ".join(
        f"{path.rpartition('/')[2]}={text}" for path, text in sorted(goals.items())
    )
    found["dests"] = " ".join(
        f"{path.rpartition('/')[2]}={text}" for path, text in sorted(weighed.items())
    )
    return found


def _of_filter(one: Mapping[str, str]) -> str:
    words = (
        "allow" if one.get("allow") == "Y" else "reject",
        "" if one["matching"] == "Y" else "none",
        one["type"],
        one.get("memcg_path", ""),
    )
    return " ".join(word for word in words if word)
