"""Which cgroups a cpuset binds to some of the nodes."""

import errno
from collections.abc import Mapping

import pytest

from tests.fixtures.machines import TextSysfs
from tierd.machine import cpusets
from tierd.machine.cpusets import READS_MAX
from tierd.sysfs import SysfsError

ROOT = "sys/fs/cgroup"


def tree(mems: Mapping[str, str], *, controls: str = "cpuset memory") -> TextSysfs:
    """Return a tree of cgroups with the nodes that each may use, and a file beside them."""
    files: dict[str, str | bytes] = {}
    for path, nodes in mems.items():
        files[f"{ROOT}{path}/cpuset.mems.effective"] = f"{nodes}\n"
        files[f"{ROOT}{path}/cgroup.subtree_control"] = f"{controls}\n"
        files[f"{ROOT}{path}/memory.current"] = "1\n"
    return TextSysfs(files)


def test_the_topmost_cgroup_that_lacks_a_node_is_bound() -> None:
    made = tree({"": "0-2", "/a": "0-2", "/a/b": "0,2", "/a/b/c": "0", "/d": "1", "/e": "0-2"})
    assert cpusets.bound(made) == ("/a/b", "/d")


def test_a_cgroup_without_nodes_of_its_own_has_those_above_it() -> None:
    assert cpusets.bound(tree({"": "0-1", "/a": "", "/a/b": "0"})) == ()


@pytest.mark.parametrize("made", [TextSysfs({}), tree({"": "", "/a": "0"})])
def test_without_cpusets_nothing_is_bound(made: TextSysfs) -> None:
    assert cpusets.bound(made) == ()


def test_where_no_cgroup_below_may_have_a_cpuset_none_is_read() -> None:
    assert cpusets.bound(tree({"": "0-1", "/a": "0"}, controls="memory")) == ()


def test_any_number_of_cgroups_is_read_up_to_a_bound() -> None:
    many = {f"/{number:05}": "0" for number in range(READS_MAX + 10)}
    found = cpusets.bound(tree({"": "0-1", **many}))
    assert 0 < len(found) <= READS_MAX


def test_what_may_not_be_read_is_not_bound() -> None:
    made = tree({"": "0-1", "/a": "0", "/b": "1"})
    hidden = f"{ROOT}/a/cpuset.mems.effective"
    files = {path: text for path, text in made.files.items() if path != hidden}
    assert cpusets.bound(TextSysfs(files, refused=frozenset({hidden}))) == ("/b",)


def test_other_errors_are_told() -> None:
    class Broken(TextSysfs):
        def read_bytes(self, path: str) -> bytes:
            raise SysfsError("read", path, errno.EIO)

    with pytest.raises(SysfsError, match="EIO"):
        cpusets.bound(Broken({}))
