"""Who has memory where, on machines with the files that a kernel has."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierd.figures import Garbled
from tierd.machine import residents
from tierd.machine.residents import NoCgroup, parse
from tierd.sysfs import RealSysfs

# As a kernel 7.2 prints it, shortened.
STAT = """\
anon N0=4096 N1=8192
file N0=100 N1=0
kernel_stack N0=16384 N1=0
active_anon N0=0 N1=4096
inactive_anon N0=4096 N1=4096
active_file N0=100 N1=0
workingset_refault_anon N0=3 N1=0
"""


def group(root: Path, path: str, text: str, size: int, pids: str = "") -> None:
    folder = root / f"sys/fs/cgroup{path}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "memory.numa_stat").write_text(text)
    (folder / "memory.current").write_text(f"{size}\n")
    (folder / "cgroup.procs").write_text(pids)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    group(tmp_path, "", STAT, 0)
    (tmp_path / "sys/fs/cgroup/cgroup.controllers").write_text("memory\n")
    group(tmp_path, "/a.slice", "anon N0=10 N1=30\nfile N0=0 N1=5\n", 45, "7\n")
    group(tmp_path, "/a.slice/b", "anon N0=9 N1=10\nfile N0=1 N1=5\n", 25, "8\n9\n")
    group(tmp_path, "/empty", "anon N0=0 N1=0\n", 0)
    group(tmp_path, "/named", STAT, 12_388)
    return tmp_path


def test_each_cgroup_has_its_own_memory_only(root: Path) -> None:
    found = {one.path: one for one in residents.read(RealSysfs(root)).cgroups}
    assert set(found) == {"/a.slice", "/a.slice/b", "/named"}
    assert found["/a.slice"].bytes_by_node == {0: 0, 1: 20}
    assert found["/a.slice/b"].bytes_by_node == {0: 10, 1: 15}
    assert found["/named"].bytes_by_node == {0: 4196, 1: 8192}


def test_what_is_in_use_is_known_where_the_kernel_says_it(root: Path) -> None:
    found = {one.path: one for one in residents.read(RealSysfs(root)).cgroups}
    assert found["/named"].active_by_node == {0: 100, 1: 4096}
    assert found["/a.slice"].active_by_node is None


def test_one_cgroup_has_the_memory_below_it_too(root: Path) -> None:
    assert residents.one(RealSysfs(root), "/a.slice").bytes_by_node == {0: 10, 1: 35}
    with pytest.raises(NoCgroup, match="/nope/memory"):
        residents.one(RealSysfs(root), "/nope")


def test_a_cgroup_that_goes_away_is_left_out(root: Path) -> None:
    (root / "sys/fs/cgroup/a.slice/b/memory.numa_stat").unlink()
    found = {one.path: one for one in residents.read(RealSysfs(root)).cgroups}
    # What was below is now counted above.
    assert found["/a.slice"].bytes_by_node == {0: 10, 1: 35}
    assert "/a.slice/b" not in found


def test_the_old_hierarchy_is_said(tmp_path: Path) -> None:
    (tmp_path / "sys/fs/cgroup/memory").mkdir(parents=True)
    with pytest.raises(NoCgroup, match="no unified cgroup tree"):
        residents.read(RealSysfs(tmp_path))


def test_members_are_the_processes_of_a_cgroup_and_below(root: Path) -> None:
    assert residents.members(RealSysfs(root), "/a.slice").pids == (7, 8, 9)
    assert residents.members(RealSysfs(root), "/a.slice/b") == residents.Members((8, 9), ())
    assert residents.members(RealSysfs(root), "/nope").pids == ()


def test_members_are_listed_once_and_hidden_ones_are_said(root: Path) -> None:
    group(root, "/a.slice/c", STAT, 1, "8\n0\n0\n10\n")
    found = residents.members(RealSysfs(root), "/a.slice")
    assert found.pids == (7, 8, 9, 10)
    assert found.left_out == ("/a.slice: processes of another namespace of pids: 2",)


@given(st.text(max_size=200))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    try:
        rows = parse("x", text)
    except Garbled:
        return
    assert all(size >= 0 for row in rows.values() for size in row.values())
