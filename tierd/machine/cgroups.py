"""Lists the cgroups of a subtree, because DAMON can filter single cgroups only.

Other users choose the names of cgroups and their depth, and may remove them at any time. None of
this may stop a plan. So a cgroup is left out if it is gone, is nested too deep, exceeds the limit
on their number, or may not be read. Except for cgroups that are gone, `left_out` says so.
"""

import errno
from collections import deque
from collections.abc import Iterable, Mapping

from tierd import figures
from tierd.errors import TierdError
from tierd.frozen import dataclass
from tierd.sysfs import Sysfs, SysfsError

MEMBERS = "cgroup.procs"

# The folder of the memory controller, and the file that each of its cgroups has: first the unified
# tree, then the old hierarchy. A cgroup without the controller does not have the file, and DAMON
# refuses its path.
TREES = (
    ("sys/fs/cgroup", "memory.current"),
    ("sys/fs/cgroup/memory", "memory.usage_in_bytes"),
)

# 4000 cgroups: each takes 50 microseconds, so all take 0.2 s. In a cgroup without siblings each of
# its 50 files is tried as a cgroup.
CGROUPS_MAX = 4000

# Bytes: the kernel takes a path of less than 4096 (PATH_MAX). A name below it has at most 255
# (NAME_MAX), and the mount point and the attribute have 43.
PARENT_BYTES_MAX = 3700

# Errors that mean: the cgroup is gone, its path is too long, or it is a file and not a cgroup.
_NO_CGROUP = (errno.ENOENT, errno.ENODEV, errno.ENAMETOOLONG, errno.ENOTDIR)
# Errors that a service without capabilities gets if the owner of a cgroup forbids others to read.
_NOT_PERMITTED = (errno.EACCES, errno.EPERM)


@dataclass(frozen=True, slots=True)
class Cgroups:
    """The cgroups of some subtrees, with their memory."""

    own_bytes: Mapping[str, int]
    """The memory of each cgroup without that of the cgroups below it, by path from the root."""
    left_out: tuple[str, ...] = ()
    """Which cgroups were not read, and why."""


NO_CGROUPS = Cgroups({})


def among(found: Cgroups, paths: frozenset[str]) -> Cgroups:
    """Return only the cgroups that have one of these paths."""
    own = {path: size for path, size in found.own_bytes.items() if path in paths}
    return Cgroups(own, found.left_out)


def gone(sysfs: Sysfs, paths: Iterable[str]) -> tuple[str, ...]:
    """Return the paths that are not a cgroup with the memory controller any more."""
    tree = _tree(sysfs)
    return tuple(
        path for path in paths if tree is None or not sysfs.exists(f"{tree[0]}{path}/{tree[1]}")
    )


def _tree(sysfs: Sysfs) -> tuple[str, str] | None:
    return next((tree for tree in TREES if sysfs.exists(f"{tree[0]}/{MEMBERS}")), None)


def read(sysfs: Sysfs, tops: Iterable[str]) -> Cgroups:
    """Return the cgroups at and below these paths; a path that does not exist has none."""
    wanted = sorted({top.rstrip("/") for top in tops})
    if not wanted:
        return NO_CGROUPS
    tree = _tree(sysfs)
    if tree is None:
        raise TierdError(
            "no cgroup tree is mounted at /sys/fs/cgroup",
            "mount it, or remove `cgroups` from the config",
        )
    found: dict[str, int] = {}
    left_out: list[str] = []
    for top in wanted:
        # Each top has the same share of the limit, so that many cgroups below one do not hide
        # others.
        part, why = _subtree(sysfs, tree, top, max(1, CGROUPS_MAX // len(wanted)))
        found |= part
        left_out += why
    return Cgroups(_own(found), tuple(left_out))


def _subtree(
    sysfs: Sysfs, tree: tuple[str, str], top: str, most: int
) -> tuple[dict[str, int], tuple[str, ...]]:
    """Return the memory of `top` and of each cgroup below it, nearest first, and what is left out.

    What is left out is described in sentences.
    """
    root, usage = tree
    found: dict[str, int] = {}
    left_out: dict[str, None] = {}
    # The names of files in cgroups that have the same parent, by that parent. Such cgroups have the
    # same controllers, and no cgroup can have the name of a file beside it.
    files: dict[str, set[str]] = {}
    waiting = deque([""])
    while waiting:
        parent = waiting.popleft()
        if len(parent.encode("utf-8", "surrogateescape")) > PARENT_BYTES_MAX:
            left_out[f"cgroups with a path longer than {PARENT_BYTES_MAX} bytes"] = None
            continue
        known = files.setdefault(parent.rpartition("/")[0], set())
        for child in _children(sysfs, root, top, parent):
            name = child.rpartition("/")[2]
            if parent and name in known:
                continue
            path = f"{root}{child}/{usage}"
            try:
                memory = figures.number(path, sysfs.read(path))
            except SysfsError as error:
                # The kernel gives this error only below a folder, so this is a cgroup.
                if error.errno == errno.ENOTDIR:
                    known.add(name)
                elif error.errno in _NOT_PERMITTED:
                    left_out["cgroups that tierd is not permitted to read"] = None
                elif error.errno not in _NO_CGROUP:
                    raise
                continue
            if len(found) >= most:
                left_out[f"all cgroups after the first {most}"] = None
                waiting.clear()
                break
            found[child] = memory
            waiting.append(child)
    return found, tuple(f"{top}: {what}" for what in left_out)


def _children(sysfs: Sysfs, root: str, top: str, parent: str) -> list[str]:
    """Return the paths in `parent` that may be cgroups; none if `parent` is gone.

    The parent "" has only the top.
    """
    if not parent:
        return [top]
    try:
        return [f"{parent}/{name}" for name in sysfs.listdir(f"{root}{parent}")]
    except SysfsError as error:
        if error.errno not in (*_NO_CGROUP, *_NOT_PERMITTED):
            raise
        return []


def _own(memory: Mapping[str, int]) -> dict[str, int]:
    """Return the memory of each cgroup without that of the cgroups in it."""
    own = dict(memory)
    for path, size in memory.items():
        above = path.rpartition("/")[0]
        if above in own:
            own[above] -= size
    return {path: max(0, size) for path, size in own.items()}
