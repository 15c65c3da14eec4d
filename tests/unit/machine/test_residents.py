"""Who has memory where, on machines with the files that a kernel has."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierd.figures import Garbled
from tierd.machine import residents
from tierd.machine.residents import NoCgroup, by_node, parse
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

NUMA_MAPS = """\
55d0 default file=/usr/bin/redis mapped=10 N0=4 N1=6 kernelpagesize_kB=4
7f00 default anon=2 dirty=2 N1=2 kernelpagesize_kB=2048
7f11 default
7f12 prefer:0 anon=1 dirty=1 N0=1 kernelpagesize_kB=4
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


def process(root: Path, pid: int, name: str, rss_kib: int, maps: str | None = None) -> None:
    folder = root / f"proc/{pid}"
    folder.mkdir(parents=True)
    (folder / "status").write_text(
        f"Name:\t{name}\nVmRSS:\t{rss_kib} kB\nMems_allowed_list:\t0-1\n"
    )
    if maps is not None:
        (folder / "numa_maps").write_text(maps)


def test_programs_of_a_cgroup_and_below_largest_first(root: Path) -> None:
    process(root, 7, "small", 100)
    process(root, 8, "redis", 1 << 20, NUMA_MAPS)
    # 9 has ended.
    found = residents.programs(RealSysfs(root), "/a.slice")
    assert [(one.pid, one.name) for one in found] == [(8, "redis"), (7, "small")]
    assert found[0].bytes_by_node == {0: 5 << 12, 1: (6 << 12) + (4 << 20)}
    assert found[1].bytes_by_node is None


def test_few_programs_are_walked(root: Path) -> None:
    pids = range(100, 100 + 2 * residents.WALKED_MAX)
    group(root, "/many", STAT, 1, "".join(f"{pid}\n" for pid in pids))
    for pid in pids:
        process(root, pid, "p", 1 << 20, NUMA_MAPS)
    found = residents.programs(RealSysfs(root), "/many")
    assert sum(one.bytes_by_node is not None for one in found) == residents.WALKED_MAX


@given(st.text(max_size=200))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    try:
        rows = parse("x", text)
    except Garbled:
        return
    assert all(size >= 0 for row in rows.values() for size in row.values())
    assert all(size >= 0 for size in by_node("x", text).values())
