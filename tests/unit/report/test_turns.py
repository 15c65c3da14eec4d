"""On against off in turns, with a daemon and a machine that are values."""

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from tests.fixtures import machines
from tierd.report import compare, turns
from tierd.report.compare import Arm
from tierd.report.turns import Meter, Turns
from tierd.sysfs import Sysfs


@dataclass
class Machine:
    """A machine whose fast tier serves more while tierd is on, and a daemon that can be paused."""

    paused: bool = False
    now_s: float = 0.0
    fails_at: int = 1 << 30
    looks: int = 0
    heat_fast: float = 60.0
    asked: list[str] = field(default_factory=list)

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        # Placing takes a minute, and is lost as fast.
        gain = -0.5 if self.paused else 0.5
        self.heat_fast = min(90.0, max(60.0, self.heat_fast + gain * seconds))
        self.now_s += seconds

    def pause(self) -> None:
        self.asked.append("pause")
        self.paused = True

    def resume(self) -> None:
        self.asked.append("resume")
        self.paused = False

    def status(self) -> dict[str, Any]:
        self.looks += 1
        if self.looks == self.fails_at:
            raise KeyboardInterrupt
        # During a pause the status still has what was seen before it.
        fast = 90.0 if self.paused else self.heat_fast
        return {
            "nodes": [
                {"tier": "memory_tier4", "heat_bytes": fast},
                {"tier": "memory_tier22", "heat_bytes": 100 - fast},
            ],
            "kdamonds": [{"cpu_seconds_total": 0.01 * self.now_s}],
        }

    def application(self) -> float:
        return 1000.0 if self.paused else 1100.0


def meter(machine: Machine, sysfs: Sysfs | None = None) -> Meter:
    read = sysfs or machines.load("two-tier-7.2").sysfs
    return Meter(read, machine, machine.status, machine.application)


def test_turns_find_the_gain_and_leave_tierd_as_it_was() -> None:
    machine = Machine()
    found = Turns(meter(machine), machine, 600.0).run(4, lambda _text: None)
    assert [one.arm for one in found] == list(compare.order(4))
    served = compare.paired(compare.SERVED, found)
    assert served.verdict == "better"
    assert served.mean == pytest.approx(30.0, abs=4.0)
    own = compare.paired(compare.Measure("application", "", "", compare.Better.more), found)
    assert own.mean == pytest.approx(100.0)
    assert own.verdict == "better"
    assert machine.paused is False
    # Off on, on off, off on, on off: two offs that follow one another are one pause.
    assert machine.asked == ["pause", "resume"] * 3


def test_what_the_status_repeats_during_a_pause_does_not_count() -> None:
    machine = Machine()
    found = Turns(meter(machine), machine, 600.0).run(3, lambda _text: None)
    off = [one.values["served"] for one in found if one.arm is Arm.off]
    # 90 was shown during the pause; 60 is what the first look after it showed.
    assert off == pytest.approx([60.0] * 3, abs=2.0)


@pytest.mark.parametrize("look", [5, 150, 400])
def test_an_interruption_leaves_tierd_running(look: int) -> None:
    machine = Machine(fails_at=look)
    with pytest.raises(KeyboardInterrupt):
        Turns(meter(machine), machine, 600.0).run(4, lambda _text: None)
    assert machine.paused is False


def test_half_of_the_time_under_pressure_is_fifty_percent() -> None:
    machine = Machine()
    sysfs = Pressed(machine)
    found = turns.measured(meter(machine, sysfs), Arm.on, 60.0)
    assert found.values["pressure"] == pytest.approx(50.0)
    assert found.values["major_faults"] == pytest.approx(3.0)
    assert found.values["kdamonds"] == pytest.approx(1.0)


def test_the_figure_of_a_slice_is_the_mean_of_all_looks() -> None:
    machine = Machine()
    rising = replace(meter(machine), application=lambda: machine.now_s)
    found = turns.measured(rising, Arm.on, 60.0)
    # One look every two seconds: 2, 4, ... 60.
    assert found.values["application"] == pytest.approx(31.0)


@dataclass
class Pressed:
    """Files of a machine under pressure half of the time, with three major faults a second."""

    machine: Machine

    def read(self, path: str) -> str:
        if path == "proc/vmstat":
            return f"pgalloc_normal 5\npgmajfault {round(3 * self.machine.now_s)}"
        return f"some avg10=0.00 total={round(self.machine.now_s * 500_000)}\nfull total=0"

    reread = read

    def read_bytes(self, path: str) -> bytes:
        return self.read(path).encode()

    def write(self, path: str, value: str) -> None:
        raise AssertionError(f"{value!r} written to {path}")

    def exists(self, path: str) -> bool:
        return bool(path)

    def listdir(self, path: str) -> tuple[str, ...]:
        raise AssertionError(path)


@pytest.mark.parametrize(
    ("status", "share"),
    [
        (None, None),
        ({"nodes": []}, None),
        ({"nodes": [{"tier": "memory_tier4", "heat_bytes": 5}]}, None),
        (
            {
                "nodes": [
                    {"tier": "memory_tier22", "heat_bytes": 10},
                    {"tier": "memory_tier4", "heat_bytes": 30},
                ]
            },
            0.75,
        ),
        (
            {
                "nodes": [
                    {"tier": "memory_tier4", "heat_bytes": None},
                    {"tier": "memory_tier22", "heat_bytes": None},
                ]
            },
            None,
        ),
    ],
)
def test_the_share_that_is_served_needs_two_tiers_and_sensors(
    status: dict[str, Any] | None, share: float | None
) -> None:
    assert turns.served(status) == share
