"""The sizes of caches are those of the kernel; what is no cache is passed over."""

import pytest

from tests.fixtures.machines import TextSysfs
from tierd import figures
from tierd.machine import caches

FOLDER = "sys/devices/system/cpu/cpu3/cache"


def machine(**sizes: str) -> TextSysfs:
    """Return a machine with these sizes by level; `l1i` and `l1d` are both of level 1."""
    files = {f"{FOLDER}/uevent": ""}
    for number, (name, size) in enumerate(sizes.items()):
        files[f"{FOLDER}/index{number}/level"] = f"{name[1]}\n"
        files[f"{FOLDER}/index{number}/size"] = size
    return TextSysfs(files)


def test_the_sizes_of_each_level() -> None:
    sysfs = machine(l1d="48K\n", l1i="32K\n", l2="1024K\n", l3="32768K\n")
    assert caches.sizes(sysfs, 3) == {1: 48 << 10, 2: 1 << 20, 3: 32 << 20}


def test_a_processor_without_this_folder_tells_nothing() -> None:
    assert caches.sizes(machine(l2="1024K\n"), 0) == {}


def test_a_size_that_is_none_is_an_error() -> None:
    with pytest.raises(figures.Garbled, match="index0/size"):
        caches.sizes(machine(l2="much\n"), 3)


def two_sockets(shared: bool = True) -> TextSysfs:
    """Return four processors, of which two each share a last cache."""
    files = {}
    for cpu in range(4):
        folder = f"{caches.CPUS}/cpu{cpu}/cache"
        for level, size in ((1, "48K\n"), (2, "1024K\n"), (3, "32768K\n")):
            files[f"{folder}/index{level}/level"] = f"{level}\n"
            files[f"{folder}/index{level}/size"] = size
        if shared:
            files[f"{folder}/index3/shared_cpu_list"] = "0-1\n" if cpu < 2 else "2-3\n"
    return TextSysfs(files)


def test_a_last_cache_that_processors_share_counts_once() -> None:
    assert caches.total_bytes(two_sockets(), range(4)) == 64 << 20
    assert caches.total_bytes(two_sockets(shared=False), range(4)) == 128 << 20
    assert caches.total_bytes(two_sockets(), (2,)) == 32 << 20


def test_a_machine_that_tells_no_caches_has_none() -> None:
    assert caches.total_bytes(TextSysfs({}), range(4)) == 0
