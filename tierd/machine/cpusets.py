"""Finds cgroups whose memory a cpuset binds to some of the nodes.

DAMON moves physical pages, and does not ask the cpuset of their owner. Only the unified tree is
read. A cgroup that goes meanwhile, or that tierd may not read, counts as not bound.
"""

import errno
from collections import deque

from tierd import figures
from tierd.sysfs import Sysfs, SysfsError

ROOT = "sys/fs/cgroup"
CONTROLLERS = "cgroup.subtree_control"
MEMS = "cpuset.mems.effective"

# Files that may be read in one look. A user may create any number of cgroups.
READS_MAX = 4000

# The cgroup is gone, its path is too long, it is a file, or its owner forbids others to read it.
_NOT_READ = (
    errno.ENOENT,
    errno.ENODEV,
    errno.ENAMETOOLONG,
    errno.ENOTDIR,
    errno.EACCES,
    errno.EPERM,
)


def bound(sysfs: Sysfs) -> tuple[str, ...]:
    """Return the paths of cgroups that may not use all nodes that the root may use.

    A cgroup below such a one is not listed.
    """
    everywhere = _nodes(sysfs, "")
    found: list[str] = []
    # Names of files that each cgroup has. No cgroup can have the name of a file beside it.
    files: set[str] = set()
    reads = 0
    waiting = deque([""])
    while waiting and everywhere and reads < READS_MAX:
        parent = waiting.popleft()
        if "cpuset" not in (_text(sysfs, f"{ROOT}{parent}/{CONTROLLERS}") or "").split():
            # The cgroups below have the nodes of this one.
            continue
        for name in _names(sysfs, f"{ROOT}{parent}"):
            child = f"{parent}/{name}"
            if name in files or reads >= READS_MAX:
                continue
            reads += 1
            try:
                nodes = _nodes(sysfs, child)
            except NotADirectoryError:
                files.add(name)
                continue
            if nodes and not nodes >= everywhere:
                found.append(child)
            elif nodes:
                waiting.append(child)
    return tuple(sorted(found))


def _nodes(sysfs: Sysfs, cgroup: str) -> frozenset[int]:
    """Return the nodes whose memory a cgroup may use; none if they are not known."""
    path = f"{ROOT}{cgroup}/{MEMS}"
    text = _text(sysfs, path)
    return frozenset(figures.ids(path, text)) if text else frozenset()


def _text(sysfs: Sysfs, path: str) -> str | None:
    try:
        return sysfs.read(path).strip()
    except SysfsError as error:
        if error.errno == errno.ENOTDIR:
            raise NotADirectoryError(path) from error
        if error.errno not in _NOT_READ:
            raise
        return None


def _names(sysfs: Sysfs, folder: str) -> tuple[str, ...]:
    try:
        return tuple(sysfs.listdir(folder))
    except SysfsError as error:
        if error.errno not in _NOT_READ:
            raise
        return ()
