"""Which cgroups there are: DAMON's filter knows single cgroups, so subtrees are spelled out."""

from collections.abc import Iterator

from tierd.errors import TierdError
from tierd.sysfs import Sysfs

# The memory controller is the unified tree, or one of its own on machines with the old hierarchy.
ROOTS = ("sys/fs/cgroup", "sys/fs/cgroup/memory")

# A machine with more than this many cgroups cannot be described by single filters in any case.
CGROUPS_MAX = 10_000

MEMBERS = "cgroup.procs"


def paths(sysfs: Sysfs) -> tuple[str, ...]:
    """Every cgroup but the root, as DAMON wants them: from the root of the hierarchy."""
    root = next((root for root in ROOTS if sysfs.exists(f"{root}/{MEMBERS}")), None)
    if root is None:
        raise TierdError(
            "no cgroup tree is mounted at /sys/fs/cgroup",
            "mount it, or remove `cgroups` from the config",
        )
    return tuple(sorted(_below(sysfs, root)))


def _below(sysfs: Sysfs, root: str) -> Iterator[str]:
    waiting = [""]
    found = 0
    while waiting:
        parent = waiting.pop()
        for name in sysfs.listdir(f"{root}{parent}"):
            path = f"{parent}/{name}"
            # Only a cgroup's directory has this file; everything else is an attribute.
            if not sysfs.exists(f"{root}{path}/{MEMBERS}"):
                continue
            found += 1
            if found > CGROUPS_MAX:
                raise TierdError(f"more than {CGROUPS_MAX} cgroups below /{root}")
            waiting.append(path)
            yield path
