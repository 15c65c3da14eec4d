"""`tierd record` on the simulated kernel: what it finds, and what it never writes."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest

from tierd.errors import Conflict, ExitCode, Unsupported
from tierd.kdamonds.kernel import Kernel
from tierd.loop import recorder
from tierd.loop.recorder import Recorded
from tierd.machine import discovery, features
from tierd.profile import from_profile, profile
from tierd.profile.panel import LOOKS
from tierd.profile.profile import Profile
from tierd.profile.rates import CLASSES
from tierd.record.rundir import FileError
from tierd.serving.inbox import Event, Verb
from tierd.sim import machine_model, virtual_loop
from tierd.sim.machine_model import PAGE_BYTES
from tierd.sim.memory import PageSet
from tierd.sim.sim_kernel import InjectedFailure, SimClock, SimKernel
from tierd.sim.workload import Place, Shift, Workload, WorkloadEvent

MIB = 1 << 20
KDAMONDS = "sys/kernel/mm/damon/admin/kdamonds"
DAMON_STAT = "sys/module/damon_stat/parameters/enabled"
SERIES = ("6.12", "6.16", "6.18", "7.2", "7.3")

COLD = Place(PageSet("a-cold-program", 0.001), 300 * MIB, (0, 1))
HOT = Place(PageSet("a-hot-program", 28.0, at_random=True), 200 * MIB, (0, 1))


class Recording:
    """A simulated machine, and a recording of it."""

    def __init__(
        self,
        series: str,
        *events: WorkloadEvent,
        machine: str = "two-tier",
        page_bytes: int = PAGE_BYTES,
    ) -> None:
        self.kernel = SimKernel(
            series,
            replace(machine_model.load(machine), page_bytes=page_bytes),
            seed=1,
            workload=Workload(list(events), seed=1),
            block_pages=16,
        )
        self.kernel.advance(0.001)
        self.lines: list[str] = []
        self.store = virtual_loop.VirtualStore()
        self.inbox = virtual_loop.VirtualInbox(self.kernel)

    def run(
        self, minutes: float, write: Callable[[str], None] | None = None
    ) -> tuple[ExitCode, Recorded]:
        around = recorder.Around(
            kernel=Kernel.patient(self.kernel, SimClock(self.kernel)),
            inbox=self.inbox,
            store=self.store,
            wall_s=lambda: 1_800_000_033.0,
            write=write or self.lines.append,
        )
        topology, capabilities = discovery.survey(self.kernel, None), features.probe(self.kernel)
        return recorder.run(around, topology, capabilities, Random(1), minutes * 60)

    @property
    def profile(self) -> Profile:
        return profile.parse("p", "\n".join(self.lines) + "\n")

    def at(self, second: float, do: Callable[[], Event | None]) -> None:
        self.inbox.at([*self.inbox.moments, (second, do)])


@pytest.mark.parametrize("series", SERIES)
def test_every_kernel_counts_the_pages_of_a_panel(series: str) -> None:
    made = Recording(series, COLD, HOT)
    code, found = made.run(3)
    assert (code, found.minutes, found.missed) == (ExitCode.ok, 3, 0)
    (stretch,) = from_profile.work(made.profile, "p").stretches
    touched = [one for one in stretch.load.heats if one.rate_hz > 1]
    assert sum(one.bytes for one in touched) == pytest.approx(200 * MIB, rel=0.15)
    # They are in the class from 16 to 50 touches a second.
    assert {16 < one.rate_hz < 50 for one in touched} == {True}
    assert stretch.load.bytes == pytest.approx(500 * MIB, rel=0.25)


def test_the_header_has_the_size_of_a_page() -> None:
    made = Recording("7.3", HOT, page_bytes=64 << 10)
    made.run(1)
    assert made.profile.header.page_bytes == 64 << 10


@pytest.mark.parametrize("machine", ["one-tier", "two-socket", "three-tier"])
def test_any_machine_can_be_recorded_and_is_left_as_it_was(machine: str) -> None:
    made = Recording("7.3", HOT, machine=machine)
    paths = (f"{KDAMONDS}/nr_kdamonds", DAMON_STAT)
    before = [made.kernel.read(path) for path in paths]
    code, _ = made.run(2)
    assert code is ExitCode.ok
    assert [made.kernel.read(path) for path in paths] == before
    assert made.store.state is None
    topology = discovery.survey(made.kernel, None)
    assert len(made.profile.header.tier_bytes) == len(topology.tiers)


def test_nothing_moves() -> None:
    made = Recording("7.3", COLD, HOT)
    made.run(2)
    assert made.kernel.memory.counters.pgmigrate_success == 0


def test_one_thread_with_single_pages_is_all_that_runs() -> None:
    made = Recording("7.3", HOT)
    made.run(2)
    actions = {one.value for one in made.kernel.journal if one.path.endswith("/action")}
    counts = [one.value for one in made.kernel.journal if one.path.endswith("nr_kdamonds")]
    assert actions == {"stat"}
    assert counts == ["1", "0"]


def test_somebody_elses_kdamond_is_not_touched() -> None:
    made = Recording("7.3", HOT)
    made.kernel.write(DAMON_STAT, "N")
    made.kernel.write(f"{KDAMONDS}/nr_kdamonds", "1")
    before = len(made.kernel.journal)
    with pytest.raises(Conflict, match="DAMON is in use"):
        made.run(2)
    assert not [one for one in made.kernel.journal[before:] if one.path.startswith(KDAMONDS)]
    assert made.lines == []


def test_a_kernel_without_damon_is_refused_with_what_it_needs() -> None:
    made = Recording("7.3", HOT)
    topology = discovery.survey(made.kernel, None)
    around = recorder.Around(
        Kernel.patient(made.kernel, SimClock(made.kernel)),
        made.inbox,
        made.store,
        lambda: 0.0,
        made.lines.append,
    )
    none = features.Capabilities(frozenset())
    with pytest.raises(Unsupported, match="no sysfs"):
        recorder.run(around, topology, none, Random(1), 60)


def test_a_signal_ends_it_and_what_was_seen_is_kept() -> None:
    made = Recording("7.3", HOT)
    made.at(150.0, lambda: Event(Verb.stop, "SIGINT"))
    code, found = made.run(1000)
    assert (code, found.minutes) == (ExitCode.ok, 2)
    assert made.profile.minutes == 2
    assert made.kernel.read(f"{KDAMONDS}/nr_kdamonds") == "0"


def test_a_full_disk_ends_it_and_everything_is_put_back() -> None:
    made = Recording("7.3", HOT)

    def write(line: str) -> None:
        if made.lines:
            raise FileError("cannot write to p: No space left on device")
        made.lines.append(line)

    with pytest.raises(FileError):
        made.run(2, write)
    assert made.kernel.read(f"{KDAMONDS}/nr_kdamonds") == "0"
    assert made.kernel.read(DAMON_STAT) == "Y"
    assert made.store.state is None


def test_a_minute_that_cannot_be_read_is_missed_and_the_rest_goes_on() -> None:
    made = Recording("7.3", HOT)

    def fail() -> None:
        made.kernel.fail(InjectedFailure(made.kernel.operations + 40, 5))

    made.at(100.0, fail)
    code, found = made.run(4)
    assert (code, found.minutes, found.missed) == (ExitCode.ok, 3, 1)


def test_a_kdamond_that_died_is_started_again() -> None:
    made = Recording("7.3", HOT)
    made.at(100.0, lambda: made.kernel.end_kdamond(0))
    code, found = made.run(4)
    assert code is ExitCode.ok
    assert found.missed == 1
    assert found.minutes >= 2


def test_after_ten_minutes_other_pages_are_watched() -> None:
    made = Recording("7.3", COLD, HOT)
    made.run(12)
    starts = [
        one.value for one in made.kernel.journal if one.path.endswith("/targets/0/regions/7/start")
    ]
    assert len(set(starts)) == 2
    # The first minute of a panel knows nothing of the minutes before it.
    assert made.profile.lines[-1].idle[-1] is None


def test_the_first_minute_of_a_panel_counts_as_much_as_the_others() -> None:
    """A kdamond needs longer than a minute for the samples of one."""
    made = Recording("7.3", COLD, Place(PageSet("always", 20.0), 100 * MIB, (0, 1)))
    made.run(2)
    (line,) = made.profile.lines
    assert line.minutes == 2
    # All of it is in the hottest class in both minutes, and no other memory is warm.
    assert line.heat[0][-1] == pytest.approx(100 / 512, abs=0.05)
    assert line.heat[0][2:-1] == (0,) * (CLASSES - 3)


@pytest.mark.parametrize(("rate_hz", "kind"), [(20.0, 0), (120.0, 3)])
def test_a_closer_look_tells_how_hot_the_hottest_pages_are(rate_hz: float, kind: int) -> None:
    """A page that is touched in every sample of 50 ms has 20 touches a second, or thousands."""
    always = Place(PageSet("always", rate_hz, at_random=kind > 0), 100 * MIB, (0, 1))
    made = Recording("7.3", COLD, always)
    _, found = made.run(10)
    assert (found.minutes, found.missed) == (10, 0)
    counts = made.profile.lines[-1].close
    assert sum(counts) >= from_profile.CLOSE_MIN
    assert counts[kind] >= 0.9 * sum(counts)
    (stretch,) = from_profile.work(made.profile, "p").stretches
    hottest = stretch.load.heats[0]
    assert hottest.rate_hz == pytest.approx(rate_hz, rel=0.25)


def test_a_signal_in_a_closer_look_ends_it_and_the_minutes_are_kept() -> None:
    made = Recording("7.3", Place(PageSet("always", 20.0), 100 * MIB, (0, 1)))
    made.at(608.0, lambda: Event(Verb.stop, "SIGINT"))
    code, found = made.run(1000)
    assert (code, found.minutes) == (ExitCode.ok, 10)
    assert made.profile.minutes == 10
    assert made.kernel.read(f"{KDAMONDS}/nr_kdamonds") == "0"


def test_heat_that_moves_shows_as_drift_and_heat_that_stays_does_not() -> None:
    # 5 % of the hot set change each minute.
    shift = Shift("a-hot-program", "a-cold-program", 0.025, 30_000_000, 30_000_000)
    moving, still = Recording("7.3", COLD, HOT, shift), Recording("7.3", COLD, HOT)
    for one in (moving, still):
        one.run(11)
    assert from_profile.drift_per_minute(still.profile.lines) < 0.01
    assert from_profile.drift_per_minute(moving.profile.lines) == pytest.approx(0.05, abs=0.02)


def test_a_day_of_a_steady_machine_is_about_fifty_kilobytes() -> None:
    warm = Place(PageSet("warm", 0.3, at_random=True), 200 * MIB, (0, 1))
    made = Recording("7.3", COLD, warm, HOT)
    made.run(3 * LOOKS)
    head, *lines = made.lines
    assert made.profile.minutes > 2.5 * LOOKS
    days = made.profile.minutes / 1440
    assert len(head) + sum(len(line) + 1 for line in lines) / days < 64_000


def test_there_is_no_address_no_name_and_no_path_in_a_profile() -> None:
    made = Recording("7.3", COLD, HOT)
    made.run(12)
    text = "\n".join(made.lines)
    assert len(made.lines) > 2
    # Names: the only words are those of the format.
    head, *lines = [json.loads(line) for line in made.lines]
    figures = {"began_at", "tier_bytes", "pages", "cache_bytes", "page_bytes", "bounds_hz"}
    assert set(head) == {"schema", "source"} | figures
    assert {word for line in lines for word in line} == set("mnhuilxcapf")
    assert set(re.findall(r"[A-Za-z_]{2,}", "\n".join(made.lines[1:]))) <= {"null"}
    assert "/" not in text.replace(profile.SCHEMA, "")
    # Addresses: no number is one of a page that was watched, in bytes or in pages.
    watched = {
        int(one.value)
        for one in made.kernel.journal
        if re.search(r"/regions/\d+/(start|end)$", one.path)
    }
    assert len(watched) > 2000
    numbers = {int(number) for number in re.findall(r"(?<![\d.])\d+(?![\d.])", text)}
    sizes = set(head["tier_bytes"])
    assert not (numbers - sizes) & {one for one in watched if one > 1 << 24}
    assert max(numbers - sizes) < 1 << 24
    # When: a whole minute, as everybody's clock has it.
    assert head["began_at"] % 60 == 0
