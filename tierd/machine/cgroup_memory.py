"""Reads how much memory groups of cgroups have on each node, and what protects or limits it.

A cgroup may go at any moment. It then has no memory, which is no error.
"""

import errno
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Set

from tierd import figures
from tierd.machine.sample import GroupSample
from tierd.sysfs import Sysfs, SysfsError

CGROUPS = "sys/fs/cgroup"

# The memory on LRU lists, which is what DAMON can move. The figures have those of cgroups below.
_ROW = re.compile(r"^(?:anon|file)((?: N[0-9]{1,9}=[0-9]{1,20})+)$", re.MULTILINE)
_NODE = re.compile(r" N([0-9]+)=([0-9]+)")

# The errors of a cgroup that has gone, or that belongs to somebody who lets nobody read it.
_GONE = (errno.ENOENT, errno.ENODEV, errno.ENOTDIR, errno.EACCES, errno.EPERM)

# What the kernel writes for no limit.
NO_LIMIT = "max"

# The name of all cgroups together.
ALL = "all"


def read(
    sysfs: Sysfs, groups: Mapping[str, tuple[str, ...]], limited: Set[str]
) -> tuple[GroupSample, ...]:
    """Return the memory of each group, and then of all cgroups together.

    A group is some subtrees; a subtree of another group may be inside. What protects and limits its
    memory is read for the groups in `limited`.
    """
    owners = {top: name for name, tops in groups.items() for top in tops}
    sizes: dict[str, Counter[int]] = {name: Counter() for name in groups}
    for top, name in owners.items():
        nodes = _nodes(sysfs, top)
        sizes[name].update(nodes)
        above = _above(top, owners)
        if above is not None:
            sizes[owners[above]].subtract(nodes)
    found = [
        GroupSample(
            name,
            {node: max(0, size) for node, size in sizes[name].items()},
            *(_limits(sysfs, tops) if name in limited else (0, None)),
        )
        for name, tops in groups.items()
    ]
    return (*found, GroupSample(ALL, dict(_nodes(sysfs, ""))))


def _above(top: str, owners: Mapping[str, str]) -> str | None:
    """Return the nearest subtree that this one is inside of; None if there is none."""
    parent = top.rpartition("/")[0]
    while parent:
        if parent in owners:
            return parent
        parent = parent.rpartition("/")[0]
    return None


def _nodes(sysfs: Sysfs, path: str) -> Counter[int]:
    found: Counter[int] = Counter()
    text = _text(sysfs, f"{CGROUPS}{path}/memory.numa_stat") or ""
    for row in _ROW.findall(text):
        for node, size in _NODE.findall(row):
            found[int(node)] += int(size)
    return found


def _limits(sysfs: Sysfs, tops: Iterable[str]) -> tuple[int, int | None]:
    """Return how many bytes are protected, and how many are allowed: None if one has no limit."""
    low = 0
    high: int | None = 0
    for top in tops:
        folder = f"{CGROUPS}{top}"
        low += max(_bytes(sysfs, f"{folder}/memory.{name}") or 0 for name in ("min", "low"))
        limits = [_bytes(sysfs, f"{folder}/memory.{name}") for name in ("high", "max")]
        least = min((one for one in limits if one is not None), default=None)
        high = None if high is None or least is None else high + least
    return low, high or None


def _bytes(sysfs: Sysfs, path: str) -> int | None:
    text = _text(sysfs, path)
    return None if text is None or text == NO_LIMIT else figures.number(path, text)


def _text(sysfs: Sysfs, path: str) -> str | None:
    try:
        return sysfs.read(path)
    except SysfsError as error:
        if error.errno not in _GONE:
            raise
        return None
