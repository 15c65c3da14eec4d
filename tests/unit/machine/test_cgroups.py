"""Users choose the name, depth and end of their cgroups. None of this stops a plan."""

import errno
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.fixtures.machines import TextSysfs
from tierd.errors import TierdError
from tierd.machine import cgroups
from tierd.machine.cgroups import CGROUPS_MAX, PARENT_BYTES_MAX
from tierd.sysfs import RealSysfs, SysfsError

ROOT = "sys/fs/cgroup"


def tree(sizes: Mapping[str, int], root: str = ROOT, usage: str = "memory.current") -> TextSysfs:
    """Return a tree of cgroups. As in the kernel, a size includes what is below."""
    files: dict[str, str | bytes] = {f"{root}/cgroup.procs": ""}
    for path, size in sizes.items():
        files[f"{root}{path}/cgroup.procs"] = ""
        files[f"{root}{path}/{usage}"] = f"{size}\n"
    return TextSysfs(files)


def test_subtrees_are_spelled_out_with_what_each_cgroup_has_itself() -> None:
    made = tree({"/a": 100, "/a/b": 60, "/a/b/c": 10, "/ab": 5, "/x": 1})
    found = cgroups.read(made, ("/a/", "/x", "/nowhere"))
    assert found.own_bytes == {"/a": 40, "/a/b": 50, "/a/b/c": 10, "/x": 1}
    assert found.left_out == ()


def test_the_old_hierarchy_has_a_tree_and_a_file_of_its_own() -> None:
    made = tree({"/a": 7}, "sys/fs/cgroup/memory", "memory.usage_in_bytes")
    assert cgroups.read(made, ("/a",)).own_bytes == {"/a": 7}


def test_without_a_tree_there_is_a_sentence() -> None:
    with pytest.raises(TierdError, match="no cgroup tree is mounted"):
        cgroups.read(TextSysfs({}), ("/a",))
    assert cgroups.read(TextSysfs({}), ()) == cgroups.NO_CGROUPS


def test_a_cgroup_without_the_memory_controller_is_none_for_damon() -> None:
    made = tree({"/a": 1})
    files = {**made.files, f"{ROOT}/a/bare/cgroup.procs": ""}
    assert cgroups.read(TextSysfs(files), ("/a",)).own_bytes == {"/a": 1}


def test_names_are_bytes(tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path / ROOT / "a") + b"/\xff\xfe"
    os.makedirs(folder)  # noqa: PTH103 - a path of bytes
    for path in (tmp_path / ROOT, tmp_path / ROOT / "a"):
        (path / "cgroup.procs").touch()
        (path / "memory.current").write_text("4096\n")
    with open(folder + b"/memory.current", "w") as file:  # noqa: PTH123 - a path of bytes
        file.write("0\n")
    (tmp_path / "sys/path").touch()
    sysfs = RealSysfs(tmp_path)
    found = cgroups.read(sysfs, ("/a",))
    assert list(found.own_bytes) == ["/a", "/a/\udcff\udcfe"]
    # The kernel gets back the same bytes.
    sysfs.write("sys/path", "/a/\udcff\udcfe")
    assert (tmp_path / "sys/path").read_bytes() == b"/a/\xff\xfe"
    assert sysfs.read("sys/path") == "/a/\udcff\udcfe"


def test_what_lies_too_deep_is_left_out_and_told() -> None:
    sizes = {"/a": 1}
    path = "/a"
    while len(path) < 2 * PARENT_BYTES_MAX:
        path += "/" + "d" * 200
        sizes[path] = 1
    found = cgroups.read(tree(sizes), ("/a",))
    assert max(map(len, found.own_bytes)) <= PARENT_BYTES_MAX + 256
    assert found.left_out == ("/a: cgroups with a path longer than 3700 bytes",)


def test_a_crowd_is_left_out_and_told_and_hides_nobody_else() -> None:
    crowd = {"/a": 0, **{f"/a/{number}": 0 for number in range(CGROUPS_MAX)}, "/b": 1, "/b/c": 1}
    found = cgroups.read(Crowd(crowd), ("/a", "/b"))
    assert len(found.own_bytes) == CGROUPS_MAX // 2 + 2
    assert "/b/c" in found.own_bytes
    assert found.left_out == ("/a: all cgroups after the first 2000",)


def test_files_are_tried_in_one_cgroup_and_not_in_its_siblings() -> None:
    counted = Counted({"/a": 0, **{f"/a/{number}": 0 for number in range(100)}, "/a/0/below": 0})
    found = cgroups.read(counted, ("/a",))
    assert len(found.own_bytes) == 102
    # The file is tried in the first of the hundred, and in two others that have no siblings.
    assert counted.files_tried == 3


@dataclass
class Crowd:
    """A tree of many cgroups, made without files. Some cannot be read."""

    sizes: Mapping[str, int]
    refused: Mapping[str, int] = field(default_factory=dict)

    def read(self, path: str) -> str:
        cgroup = path.removeprefix(ROOT).removesuffix("/memory.current")
        for above, code in self.refused.items():
            if cgroup == above or cgroup.startswith(f"{above}/"):
                raise SysfsError("read", path, code)
        if cgroup not in self.sizes:
            raise SysfsError("read", path, errno.ENOTDIR)
        return str(self.sizes[cgroup])

    reread = read

    def read_bytes(self, path: str) -> bytes:
        return self.read(path).encode()

    def write(self, path: str, value: str) -> None:
        raise SysfsError("write", path, errno.EROFS, value)

    def exists(self, path: str) -> bool:
        return path == f"{ROOT}/cgroup.procs"

    def listdir(self, path: str) -> tuple[str, ...]:
        above = path.removeprefix(ROOT)
        if self.refused.get(f"{above}/") is not None:
            raise SysfsError("list", path, self.refused[f"{above}/"])
        names = (p.rpartition("/") for p in self.sizes)
        return ("cgroup.procs", *(name for parent, _, name in names if parent == above))


@pytest.mark.parametrize("code", [errno.ENOENT, errno.ENODEV, errno.ENAMETOOLONG])
def test_what_vanishes_between_two_looks_is_left_out(code: int) -> None:
    sizes = {"/a": 3, "/a/gone": 1, "/a/gone/too": 1, "/a/here": 1}
    assert cgroups.read(Crowd(sizes, {"/a/gone": code}), ("/a",)).own_bytes == {
        "/a": 2,
        "/a/here": 1,
    }
    # This cgroup was read, and has gone when its children are read.
    found = cgroups.read(Crowd(sizes, {"/a/gone/": code}), ("/a",))
    assert found.own_bytes == {"/a": 1, "/a/gone": 1, "/a/here": 1}
    assert found.left_out == ()


def test_what_its_owner_hides_is_left_out_and_told() -> None:
    sizes = {"/a": 3, "/a/hidden": 1, "/a/here": 1}
    found = cgroups.read(Crowd(sizes, {"/a/hidden": errno.EACCES}), ("/a",))
    assert set(found.own_bytes) == {"/a", "/a/here"}
    assert found.left_out == ("/a: cgroups that tierd is not permitted to read",)


def test_a_tree_that_cannot_be_read_is_an_error() -> None:
    with pytest.raises(SysfsError):
        cgroups.read(Crowd({"/a": 1}, {"/a": errno.EIO}), ("/a",))


@dataclass
class Counted(Crowd):
    """Counts how often a file is read as if it was a cgroup."""

    files_tried: int = 0

    def read(self, path: str) -> str:
        self.files_tried += "/cgroup.procs/" in path
        return super().read(path)
