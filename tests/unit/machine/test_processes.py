"""Programs and the nodes that they are bound to, from the files of /proc."""

from errno import EACCES

import pytest

from tests.fixtures.machines import TextSysfs
from tierd.machine.neighbours import Neighbours, Owner, rivals
from tierd.machine.processes import PLACERS, Process, bound_bytes, placers, processes
from tierd.sysfs import SysfsError

MIB = 1 << 20

NUMA_MAPS = """\
55d0c8a00000 default file=/usr/bin/db mapped=14 N0=14 kernelpagesize_kB=4
7f2e40000000 bind:0 anon=51200 dirty=51200 N0=51000 N1=200 kernelpagesize_kB=4
7f2e60000000 bind=static:0-1 huge anon=2 dirty=2 N1=2 kernelpagesize_kB=2048
7f2e80000000 bind:0
7f2ea0000000 interleave:0-1 anon=9 dirty=9 N0=9 kernelpagesize_kB=4
7f2ec0000000 prefer:1 anon=9 dirty=9 N0=9 kernelpagesize_kB=4
"""


def status(name: str, rss_kb: int, mems: str = "0-1") -> str:
    return f"Name:\t{name}\nUmask:\t0022\nVmRSS:\t{rss_kb:8} kB\nMems_allowed_list:\t{mems}\n"


def test_only_what_is_bound_counts() -> None:
    assert bound_bytes("proc/1/numa_maps", NUMA_MAPS) == 51200 * 4096 + 2 * 2 * MIB
    assert bound_bytes("proc/1/numa_maps", "") == 0


def test_programs_by_size_without_kernel_threads_and_those_that_end() -> None:
    files = {
        "proc/1/status": status("init", 1000),
        "proc/2/status": "Name:\tkthreadd\nMems_allowed_list:\t0-1\n",
        "proc/30/status": status("db", 300 * 1024, "0"),
        "proc/30/numa_maps": NUMA_MAPS,
        "proc/31/comm": "ended",
        "proc/meminfo": "",
    }
    assert processes(TextSysfs(files)) == (
        Process(30, "db", 300 * MIB, (0,), bound_bytes("proc/1/numa_maps", NUMA_MAPS)),
        Process(1, "init", 1000 * 1024, (0, 1)),
    )


def test_a_hidden_numa_maps_is_not_known() -> None:
    files = {"proc/30/status": status("db", 300 * 1024)}
    found = processes(TextSysfs(files, refused=frozenset({"proc/30/numa_maps"})))
    assert found[0].bound_bytes is None


def test_a_huge_program_is_not_looked_into() -> None:
    files = {"proc/30/status": status("db", 100 << 20), "proc/30/numa_maps": NUMA_MAPS}
    assert processes(TextSysfs(files))[0].bound_bytes is None


def test_programs_that_place_memory_are_rivals_by_name() -> None:
    names = ("init", "damo", "numad", "numad")
    files = {f"proc/{pid}/comm": f"{name}\n" for pid, name in enumerate(names, 1)}
    # A process that has ended, and a file that is not a process.
    files |= {"proc/9/stat": "", "proc/version": "Linux"}
    found = placers(TextSysfs(files))
    assert found == ("numad", "damo")
    nobody = Neighbours((), (), None, None, None)
    assert [rival.owner for rival in rivals(nobody, found, ours_run=True)] == [
        Owner.numad,
        Owner.damo,
    ]
    assert rivals(nobody, (), ours_run=True) == ()


@pytest.mark.parametrize("name", PLACERS)
def test_whom_doctor_names_the_metric_knows(name: str) -> None:
    assert Owner(name) == name


def test_a_process_that_cannot_be_read_is_an_error() -> None:
    with pytest.raises(SysfsError) as caught:
        placers(TextSysfs({}, refused=frozenset({"proc/7/comm"})))
    assert caught.value.errno == EACCES
