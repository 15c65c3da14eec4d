"""Any content of tierd's own files gives a fresh start or one sentence, never an exception."""

import json
import random
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.faults.faulty import Disk, FaultySysfs
from tests.faults.scenarios import World, default
from tests.fixtures.snapshots import SNAPSHOT
from tierd.errors import TierdError
from tierd.kdamonds import apply, restore
from tierd.kdamonds.restore import saved_in
from tierd.kdamonds.saved import KNOBS, SavedState
from tierd.loop.store import FileStore
from tierd.machine.cputime import CpuTotal
from tierd.machine.features import KDAMONDS
from tierd.record import chronicle, daemon_counts, ring, scheme_totals
from tierd.record.bookkeeping import Bookkeeping
from tierd.record.chronicle import Chronicle
from tierd.record.daemon_counts import DaemonCounts
from tierd.record.ring import Record
from tierd.record.rundir import COUNTERS, EVENTS, HISTORY, STATE, TALLY, RunDir
from tierd.record.scheme_totals import Passed, Series, Statistics, Totals
from tierd.record.snapshot import EventStatus
from tierd.serving.metrics import METRICS, Seen
from tierd.sim import machine_model
from tierd.sim.sim_kernel import SimKernel

# Trials in `make test`, and in each run.
TRIALS = 2_500
SAMPLE = 250
BOOT = "this boot"

# Values that a program does not expect instead of others.
ODD: tuple[Any, ...] = (
    None, True, -1, 0, 0.5, 1e308, 10**400, "", "x" * 5000, "\ud800", [], {}, [[]], {"": {}},
    float("nan"), float("inf"), "../../etc/passwd", "\x1b[2J",
)  # fmt: skip

CPU = CpuTotal(3.5, 12, 1.5)
SOME = Statistics(1, 2, 3)
TOTALS = Totals(
    {"promote-1-0": Series(SOME, SOME, 12), "demote-0-1": Series()}, {0: CPU}, {"web": Passed(5, 6)}
)
COUNTED = daemon_counts.refused(daemon_counts.happened(DaemonCounts(), "reload", 3.5), "EIO")
COUNTED_METRICS = [one for one in METRICS if one.name.endswith(("errors_total", "events_total"))]


@pytest.fixture(params=[SAMPLE, pytest.param(TRIALS, marks=pytest.mark.thorough)])
def trials(request: pytest.FixtureRequest) -> int:
    """Return the number of trials."""
    asked: int = request.param
    return asked


@pytest.fixture
def folder(tmp_path: Path) -> RunDir:
    return RunDir(tmp_path, tmp_path)


def garbage(whole: bytes, trials: int) -> Iterator[bytes]:
    """Yield a file as it should be, and as broken disks, people and attackers leave it."""
    drawn = random.Random(1)
    for trial in range(trials):
        kind = trial % 5
        if kind == 0:
            yield drawn.randbytes(drawn.randrange(200))
        elif kind == 1:
            yield whole[: drawn.randrange(len(whole))]
        elif kind == 2:
            begin = drawn.randrange(len(whole))
            yield whole[:begin] + drawn.randbytes(drawn.randrange(9)) + whole[begin + 3 :]
        elif kind == 3:
            flipped = bytearray(whole)
            for _ in range(drawn.randrange(1, 9)):
                flipped[drawn.randrange(len(whole))] ^= 1 << drawn.randrange(8)
            yield bytes(flipped)
        else:
            yield changed(whole, drawn)


def changed(whole: bytes, drawn: random.Random) -> bytes:
    """Return the same JSON with one value or key changed. Other content gets random bytes."""
    try:
        document = json.loads(whole)
    except ValueError:
        return drawn.randbytes(20) + whole
    holders: list[tuple[Any, Any]] = []

    def walk(value: Any) -> None:
        keys = value if isinstance(value, dict) else range(len(value))
        for key in list(keys):
            holders.append((value, key))
            if isinstance(value[key], dict | list):
                walk(value[key])

    walk(document)
    holder, key = drawn.choice(holders)
    if isinstance(holder, dict) and drawn.random() < 0.3:
        holder[str(drawn.choice(ODD))] = holder.pop(key)
    else:
        holder[key] = drawn.choice(ODD)
    return json.dumps(document).encode()


def told_or_read(read: Callable[[], object]) -> bool:
    """Return whether it was read. If not, there was an error with a sentence."""
    with suppress(TierdError):
        read()
        return True
    return False


def test_totals(folder: RunDir, trials: int) -> None:
    path = folder.run / COUNTERS
    fresh = 0
    for raw in garbage(scheme_totals.to_text(TOTALS, BOOT).encode(), trials):
        path.write_bytes(raw)
        store = FileStore(folder, BOOT)
        found = store.counters()
        fresh += found == Totals()
        assert (found == Totals()) <= bool(store.books.news()), "what is lost is said"
        # What was read can be used.
        assert scheme_totals.from_text(scheme_totals.to_text(found, BOOT), BOOT) == found
        assert (
            scheme_totals.advance(found, "promote-1-0", 7, SOME).total("promote-1-0").sz_tried >= 0
        )
    assert trials / 2 < fresh < trials


def test_counts(folder: RunDir, trials: int) -> None:
    path = folder.state / TALLY
    fresh = 0
    for raw in garbage(daemon_counts.to_text(COUNTED).encode(), trials):
        path.write_bytes(raw)
        store = FileStore(folder, BOOT)
        found = store.tally()
        fresh += found == DaemonCounts()
        assert (found == DaemonCounts()) <= bool(store.books.news()), "what is lost is said"
        for metric in COUNTED_METRICS:
            for labels, value in metric.values(Seen(SNAPSHOT, found)):
                # Labels can be encoded.
                assert all(label.encode() or not label for label in labels)
                assert float(value) >= 0
    assert trials / 2 < fresh < trials


def a_ring(path: Path) -> bytes:
    said = chronicle.event_to_bytes(EventStatus(5.0, "running", "as it runs"))
    seen = chronicle.reading_to_bytes(chronicle.reading_of(SNAPSHOT))
    ring.create(path, 4, 1024, [Record(1, said), Record(2, seen), Record(6, seen)])
    return path.read_bytes()


def test_rings_as_a_whole(folder: RunDir, trials: int) -> None:
    path = folder.state / HISTORY
    for raw in garbage(a_ring(path), trials):
        path.write_bytes(raw)
        told_or_read(lambda: chronicle.readings(folder, 0.0, 1e12, 10))


def test_reading_takes_memory_for_what_is_there(folder: RunDir) -> None:
    """Reading takes no memory for the largest possible file. The daemon has 32 MiB in all."""
    whole = a_ring(folder.state / EVENTS)
    (folder.run / STATE).write_bytes(b"{}")
    tracemalloc.start()
    try:
        chronicle.events(folder)
        told_or_read(lambda: saved_in(folder))
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 20 * len(whole) + (1 << 18)


def test_rings_that_are_gone_on_with(folder: RunDir, trials: int) -> None:
    whole = a_ring(folder.state / EVENTS)
    for raw in list(garbage(whole, trials))[::25]:
        (folder.state / EVENTS).write_bytes(raw)
        kept = Chronicle(folder, Bookkeeping())
        kept.happened(EventStatus(9.0, "stopping", "by a test"))
        assert chronicle.events(folder)[-1].event.event == "stopping"


@pytest.mark.parametrize("what", ["event", "reading"])
def test_records(what: str, trials: int) -> None:
    whole = (
        chronicle.event_to_bytes(EventStatus(5.0, "running", "as it runs"))
        if what == "event"
        else chronicle.reading_to_bytes(chronicle.reading_of(SNAPSHOT))
    )
    read = chronicle.event_from_bytes if what == "event" else chronicle.reading_from_bytes
    found = [read(raw) for raw in garbage(whole, trials)]
    assert found.count(None) > trials / 2
    kept = [one for one in found if isinstance(one, chronicle.HistoryReading)]
    for document in chronicle.documents(kept):
        assert json.dumps(document, allow_nan=False)


def test_what_to_restore(folder: RunDir, trials: int) -> None:
    """Whatever the file says, only DAMON's tree and settings of tierd are changed."""
    kernel = SimKernel("7.3", machine_model.load("two-tier"), block_pages=512)
    world = World(kernel, FaultySysfs(kernel), Disk())
    apply.start(world.look, default(world), world.disk.record)
    assert world.disk.text is not None
    for raw in garbage(world.disk.text.encode(), trials):
        (folder.run / STATE).write_bytes(raw)
        if told_or_read(lambda: saved_in(folder)):
            saved = saved_in(folder)
            assert saved is not None
            told_or_read(partial(check, world, saved))


def check(world: World, saved: SavedState) -> None:
    for write in restore.restore_writes(world.look, saved):
        assert write.path.startswith(KDAMONDS + "/") or write.path in KNOBS
    restore.park_quotas(world.look, saved)
