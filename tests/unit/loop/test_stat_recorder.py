"""`tierd record --damon-stat` on a machine of files, in virtual time."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.fixtures import machines
from tests.unit.profile.test_stat import IDLE_MS, text
from tierd.errors import TierdError, Unsupported
from tierd.loop import stat_recorder
from tierd.machine import discovery
from tierd.profile import profile
from tierd.profile.profile import Source
from tierd.serving.inbox import Event, Verb
from tierd.sysfs import RealSysfs

PARAMETERS = Path(stat_recorder.FOLDER)
NAMES = ("memory_idle_ms_percentiles", "estimated_memory_bandwidth", "enabled")


@dataclass
class Clock:
    """A clock that is also the inbox: waiting lets the time pass."""

    now_s: float = 0.0
    stop_s: float = 1e9
    then: Callable[[], None] = lambda: None

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds

    def wait(self, seconds: float) -> tuple[Event, ...]:
        self.now_s += seconds
        self.then()
        return (Event(Verb.stop, "SIGINT"),) if self.now_s >= self.stop_s else ()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    machines.unpack(machines.load("two-tier-7.2").sysfs, tmp_path)
    say(tmp_path, text(), "1000000000", "Y")
    return tmp_path


def say(root: Path, *texts: str) -> None:
    folder = root / PARAMETERS
    folder.mkdir(parents=True, exist_ok=True)
    for name, one in zip(NAMES, texts, strict=True):
        (folder / name).write_text(f"{one.strip()}\n")


def record(root: Path, for_s: float | None, clock: Clock) -> tuple[int, profile.Profile]:
    sysfs, lines = RealSysfs(root), list[str]()
    around = stat_recorder.Around(sysfs, clock, clock, lambda: 1_800_000_033.0, lines.append)
    minutes = stat_recorder.run(around, discovery.survey(sysfs, None), for_s)
    return minutes, profile.parse("p", "\n".join(lines) + "\n")


def test_minutes_are_recorded_and_no_file_is_written(root: Path) -> None:
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    minutes, found = record(root, 180, Clock())
    assert (minutes, found.minutes) == (3, 3)
    assert (found.header.source, found.header.pages) == (Source.damon_stat, 0)
    (shares,) = found.lines[0].heat
    assert shares[0] == pytest.approx(40 / 101, abs=0.001)
    assert sum(shares) == pytest.approx(1.0, abs=0.001)
    assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("now_s", [0.1, 123.45, 12345.6789, 456789.987654321])
def test_no_minute_is_lost_whatever_the_clock_says(root: Path, now_s: float) -> None:
    assert record(root, 60, Clock(now_s))[0] == 1
    assert record(root, 300, Clock(now_s))[0] == 5


def test_a_signal_ends_it_and_what_was_seen_is_kept(root: Path) -> None:
    minutes, found = record(root, None, Clock(stop_s=150))
    assert (minutes, found.minutes) == (2, 2)


def test_a_module_that_is_switched_off_meanwhile_ends_it(root: Path) -> None:
    clock = Clock()
    clock.then = lambda: say(root, text(), "1", "N" if clock.now_s > 90 else "Y")
    with pytest.raises(Unsupported, match="enabled is off"):
        record(root, None, clock)


def test_a_module_that_has_not_looked_yet_says_nothing(root: Path) -> None:
    say(root, text((0,) * len(IDLE_MS)), "0", "Y")
    with pytest.raises(TierdError, match="all figures are zero for a minute"):
        record(root, None, Clock())


def test_without_the_module_it_says_what_is_needed(root: Path) -> None:
    (root / PARAMETERS / NAMES[0]).unlink()
    with pytest.raises(Unsupported, match="there is no /sys/module/damon_stat"):
        record(root, None, Clock())
