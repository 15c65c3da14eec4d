"""The memory of processes by node and in use, from the files of /proc."""

import errno
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fixtures.machines import TextSysfs
from tests.fixtures.proc import NUMA_MAPS, PAGE, process
from tierd.figures import Garbled
from tierd.machine import process_memory
from tierd.machine.process_memory import Estimate, LeftOut, Why, mapped
from tierd.machine.processes import RSS_BYTES_MAX
from tierd.sysfs import Sysfs, SysfsError

MIB = 1 << 20


def read_maps(text: str, *, knows_active: bool = True) -> process_memory.Mapped:
    return mapped("proc/1/numa_maps", text, knows_active=knows_active)


def test_bytes_by_node_are_those_of_every_page_size() -> None:
    found = read_maps(NUMA_MAPS)
    assert found.bytes_by_node == {0: 110 * PAGE, 1: 354 * PAGE + 6 * MIB}
    assert found.hugetlb_bytes == 6 * MIB


def test_the_size_of_a_page_is_read() -> None:
    text = "1000 default anon=2 active=1 N0=2 kernelpagesize_kB=64\n"
    found = read_maps(text)
    assert found.bytes_by_node == {0: 2 * 65_536}
    assert found.active is not None
    assert found.active.size_bytes == 65_536


def test_no_number_of_active_pages_means_all_of_them() -> None:
    found = read_maps("1000 default anon=9 N0=2 N1=7 kernelpagesize_kB=4\n").active
    assert found is not None
    assert found.size_bytes == 9 * PAGE
    assert found.by_node[1] == Estimate(7 * PAGE, 7 * PAGE, 7 * PAGE)


def test_no_page_is_active_if_the_number_is_0() -> None:
    found = read_maps("1000 default anon=9 active=0 N1=9 kernelpagesize_kB=4\n").active
    assert found is not None
    assert (found.size_bytes, found.by_node[1]) == (0, Estimate(0, 0, 0))


def test_huge_pages_of_hugetlbfs_are_never_in_use() -> None:
    """The kernel gives no number for them either, as if all were active."""
    found = read_maps("1000 default huge anon=3 N1=3 kernelpagesize_kB=2048\n")
    assert found.active is not None
    assert (found.active.size_bytes, found.active.by_node) == (0, {})
    # The word may be the last one before the figures, and the name of a file is no such word.
    named = read_maps("1000 default file=/huge mapped=1 N1=1 kernelpagesize_kB=4\n")
    assert named.hugetlb_bytes == 0


def test_what_is_in_use_on_a_node_is_an_estimate_with_bounds() -> None:
    found = read_maps(NUMA_MAPS).active
    assert found is not None
    assert found.size_bytes == (14 + 100) * PAGE
    # 14 pages are certain. Of 100 active pages of the heap 300 of 400 are on node 1.
    assert found.by_node[1] == Estimate((4 + 75) * PAGE, 4 * PAGE, (4 + 100) * PAGE)
    assert found.by_node[0] == Estimate((10 + 25) * PAGE, 10 * PAGE, (10 + 100) * PAGE)


@given(st.lists(st.lists(st.tuples(st.integers(0, 2), st.booleans()), min_size=1), max_size=5))
def test_the_bounds_hold_wherever_the_active_pages_are(
    mappings: list[list[tuple[int, bool]]],
) -> None:
    """Each page of a mapping is on a node, and active or not."""
    lines, truth = [], dict.fromkeys(range(3), 0)
    for pages in mappings:
        active = sum(is_active for _, is_active in pages)
        counts = [(node, sum(on == node for on, _ in pages)) for node in range(3)]
        cells = "".join(f" N{node}={count}" for node, count in counts if count)
        told = f" active={active}" if active < len(pages) else ""
        lines.append(f"1000 default anon={len(pages)}{told}{cells} kernelpagesize_kB=4\n")
        for node, is_active in pages:
            truth[node] += is_active * PAGE
    found = read_maps("".join(lines)).active
    assert found is not None
    assert found.size_bytes == sum(truth.values())
    for node, one in found.by_node.items():
        assert one.least <= truth[node] <= one.most
        assert one.least <= one.about <= one.most


def test_what_is_in_use_is_not_known_where_pages_have_generations() -> None:
    assert read_maps(NUMA_MAPS, knows_active=False).active is None


@pytest.mark.parametrize(
    ("text", "known"), [(None, True), ("0x0000", True), ("0x0006", True), ("0x0007", False)]
)
def test_whether_pages_have_generations(text: str | None, known: bool) -> None:
    files = {} if text is None else {process_memory.LRU_GEN: text}
    assert process_memory.has_active_list(TextSysfs(files)) is known


@pytest.mark.parametrize(
    "line",
    [
        "1000 default anon=9 N0=9",
        "1000 default anon=9 active=10 N0=9 kernelpagesize_kB=4",
        f"1000 default anon=9 N0={2**60} kernelpagesize_kB=4",
        # More digits than Python reads by default.
        f"1000 default anon=9 N{'1' * 5000}=9 kernelpagesize_kB=4",
    ],
)
def test_what_cannot_be_is_refused(line: str) -> None:
    with pytest.raises(Garbled, match="proc/1/numa_maps"):
        read_maps(line)


WORDS = ("N0=5", "N1=3", "N٣=5", "active=4", "active=9", "huge", "kernelpagesize_kB=4", "\n", "x")


@given(st.lists(st.sampled_from(WORDS)))
def test_any_words_are_read_or_refused(words: list[str]) -> None:
    try:
        found = read_maps(" " + " ".join(words))
    except Garbled:
        return
    assert all(size >= 0 for size in found.bytes_by_node.values())


# The rest is about which processes are read.


@dataclass
class Clock:
    """A clock of which each reading is `step_s` later than the one before."""

    step_s: float = 0.0
    now_s: float = 0.0

    def monotonic(self) -> float:
        self.now_s += self.step_s
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


@dataclass
class Read:
    """Counts the reads of each file of a machine; some of them end with an error."""

    files: Mapping[str, str | bytes]
    refused: Mapping[str, int] = field(default_factory=dict)
    paths: list[str] = field(default_factory=list)

    def read(self, path: str) -> str:
        self.paths.append(path)
        if path in self.refused:
            raise SysfsError("read", path, self.refused[path])
        return TextSysfs(self.files).read(path)

    reread = read

    def read_bytes(self, path: str) -> bytes:
        return self.read(path).encode()

    def write(self, path: str, value: str) -> None:
        raise SysfsError("write", path, errno.EROFS, value)

    def exists(self, path: str) -> bool:
        return path in self.files

    def listdir(self, path: str) -> tuple[str, ...]:
        return TextSysfs(self.files).listdir(path)


def read(
    sysfs: Sysfs, *pids: int, page_bytes: int = PAGE, clock: Clock | None = None
) -> process_memory.Processes:
    return process_memory.read(sysfs, pids, page_bytes, clock or Clock(), within_s=10.0)


def test_the_largest_come_first_and_threads_of_the_kernel_do_not_come() -> None:
    files = process(1, 10) | process(2, 0, "") | process(30, 4000)
    found = read(TextSysfs(files), 1, 2, 30, 31)
    assert [(one.pid, one.name, one.rss_bytes) for one in found.found] == [
        (30, "db", 4000 * PAGE),
        (1, "db", 10 * PAGE),
    ]
    assert found.found[0].mapped == read_maps(NUMA_MAPS)
    assert found.left_out == ()


def test_the_size_of_a_process_is_in_pages_of_the_machine() -> None:
    (one,) = read(TextSysfs(process(1, 10)), 1, page_bytes=16_384).found
    assert one.rss_bytes == 10 * 16_384


def test_few_are_walked_and_the_rest_is_counted() -> None:
    count = process_memory.WALKED_MAX + 7
    files = {key: text for pid in range(count) for key, text in process(pid, 100 + pid).items()}
    # Threads of the kernel are not counted.
    sysfs = Read(files | process(998, 0, "") | process(999, 0, ""))
    found = read(sysfs, *range(count), 998, 999)
    assert [one.pid for one in found.found] == [*range(count - 1, 6, -1)]
    assert sum(path.endswith("numa_maps") for path in sysfs.paths) == process_memory.WALKED_MAX
    assert found.left_out == (LeftOut(Why.smaller, 7, sum(range(100, 107)) * PAGE),)


def test_after_some_time_no_other_process_is_walked() -> None:
    files = {key: text for pid in range(8) for key, text in process(pid, 100).items()}
    # One reading begins; each process takes one for its size, and one before it is walked.
    found = read(Read(files), *range(8), clock=Clock(step_s=0.8))
    assert len(found.found) == 4
    assert found.left_out == (LeftOut(Why.late, 4, 400 * PAGE),)


def test_after_some_time_no_other_size_is_asked_for() -> None:
    files = {key: text for pid in range(8) for key, text in process(pid, 100).items()}
    sysfs = Read(files)
    found = read(sysfs, *range(8), clock=Clock(step_s=2.0))
    assert sum(path.endswith("statm") for path in sysfs.paths) == 4
    assert not any(path.endswith("numa_maps") for path in sysfs.paths)
    assert found.left_out == (
        LeftOut(Why.late, 4, 400 * PAGE),
        LeftOut(Why.not_sized, 4, None),
    )


def test_too_many_are_not_asked_for_their_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_memory, "SIZED_MAX", 3)
    files = {key: text for pid in range(5) for key, text in process(pid, 100).items()}
    found = read(TextSysfs(files), *range(5))
    assert len(found.found) == 3
    assert found.left_out == (LeftOut(Why.not_sized, 2, None),)


def test_what_may_not_be_read_is_counted_and_the_next_one_is_read() -> None:
    files = process(1, 500) | process(2, 400) | process(3, 300)
    refused = {"proc/1/numa_maps": errno.EACCES, "proc/2/numa_maps": errno.EPERM}
    found = read(Read(files, refused), 1, 2, 3)
    assert [one.pid for one in found.found] == [3]
    assert found.left_out == (LeftOut(Why.unreadable, 2, 900 * PAGE),)


def test_a_size_that_may_not_be_read_is_not_0() -> None:
    files = process(1, 500) | process(2, 400)
    refused = {"proc/1/statm": errno.EACCES, "proc/2/numa_maps": errno.EACCES}
    assert read(Read(files, refused), 1, 2).left_out == (LeftOut(Why.unreadable, 2, None),)


def test_a_machine_without_numa_maps_says_so() -> None:
    assert read(TextSysfs(process(1, 500, None)), 1).left_out == (
        LeftOut(Why.unreadable, 1, 500 * PAGE),
    )


def test_a_process_that_ends_is_left_out() -> None:
    files = process(1, 500) | process(2, 400, "")
    del files["proc/1/status"]
    found = read(Read(files), 1, 2, 3)
    assert (found.found, found.left_out) == ((), ())


def test_a_failure_of_the_kernel_is_an_error() -> None:
    for path in ("proc/1/statm", "proc/1/numa_maps"):
        with pytest.raises(SysfsError, match=path):
            read(Read(process(1, 500), {path: errno.EIO}), 1)


def test_a_huge_process_is_named_and_not_walked() -> None:
    pages = RSS_BYTES_MAX // PAGE + 1
    sysfs = Read(process(1, pages) | process(2, 100))
    found = read(sysfs, 1, 2)
    assert [(one.pid, one.mapped is None) for one in found.found] == [(1, True), (2, False)]
    assert "proc/1/numa_maps" not in sysfs.paths
    assert found.left_out == (LeftOut(Why.too_large, 1, pages * PAGE),)


def test_a_size_that_is_none_is_refused() -> None:
    for text in ("", "5", "5 x 1", f"5 {2**60} 1"):
        with pytest.raises(Garbled, match="proc/1/statm"):
            process_memory.resident_pages("proc/1/statm", text)
