"""The profile that the daemon keeps, on the simulated kernel."""

from pathlib import Path

import pytest

from tierd.configuration.config import Config, Mode
from tierd.console import simulate
from tierd.loop.kept_profile import KeptProfile
from tierd.loop.profile_log import ProfileLog
from tierd.loop.running import Running
from tierd.machine import sample_reader
from tierd.profile import from_profile
from tierd.profile.profile import Profile, Source
from tierd.record import rundir
from tierd.record.bookkeeping import Bookkeeping
from tierd.record.rundir import RunDir
from tierd.record.snapshot import Snapshot
from tierd.serving.inbox import Event, Verb
from tierd.sim import machine_model, virtual_loop
from tierd.sim.memory import PageSet
from tierd.sim.sim_kernel import SimKernel
from tierd.sim.workload import Place, Workload

MIB = 1 << 20
COLD = Place(PageSet("cold", 0.001), 600 * MIB, (0, 1))
HOT = Place(PageSet("hot", 40.0, at_random=True), 200 * MIB, (1,))


def kept(
    tmp_path: Path, config: Config, minutes: int, *moments: virtual_loop.Moment
) -> Profile | None:
    """Return what a daemon keeps in some minutes."""
    kernel = SimKernel(
        "7.3",
        machine_model.load("two-tier"),
        seed=1,
        workload=Workload([COLD, HOT], seed=1),
        block_pages=256,
    )
    kernel.advance(0.001)
    folder = RunDir(tmp_path, tmp_path)
    books = Bookkeeping()
    file = KeptProfile(folder, books)
    log = ProfileLog(file, lambda: sample_reader.vm_events(kernel), lambda _topology: 0)

    def publish(_snapshot: Snapshot, running: Running) -> None:
        log.saw(1_800_000_000.0 + kernel.now_us / 1e6, running)

    virtual_loop.run(kernel, config, config, minutes * 60 + 10, list(moments), publish)
    file.end()
    assert books.news() == ()
    return simulate.kept_profile(folder)


def require_hot(found: Profile) -> None:
    work = from_profile.work(found, "p")
    load = work.stretches[-1].load
    hot = sum(one.bytes for one in load.heats if one.rate_hz > 5)
    assert hot == pytest.approx(200 * MIB, rel=0.3)
    assert load.bytes == pytest.approx(800 * MIB, rel=0.1)


def test_it_has_what_is_hot_and_leaves_out_a_minute_with_a_pause(tmp_path: Path) -> None:
    moments = [(20.0, lambda: Event(Verb.pause, "p")), (30.0, lambda: Event(Verb.resume, "r"))]
    found = kept(tmp_path, Config(), 2, *moments)
    assert found is not None
    assert (found.header.source, found.minutes) == (Source.sensors, 1)
    assert found.header.page_bytes == 4096
    require_hot(found)


@pytest.mark.thorough
def test_it_is_kept_by_observe_too(tmp_path: Path) -> None:
    found = kept(tmp_path, Config(mode=Mode.observe), 1)
    assert found is not None
    require_hot(found)


def test_there_is_none_if_it_is_off(tmp_path: Path) -> None:
    assert kept(tmp_path, Config(profile=False), 1) is None


@pytest.mark.thorough
def test_a_day_of_a_steady_machine_is_about_fifty_kilobytes(tmp_path: Path) -> None:
    found = kept(tmp_path, Config(), 20)
    assert found is not None
    head, *lines = (tmp_path / rundir.PROFILE).read_text().splitlines()
    assert found.minutes >= 19
    days = found.minutes / 1440
    assert len(head) + sum(len(line) + 1 for line in lines) / days < 64_000
