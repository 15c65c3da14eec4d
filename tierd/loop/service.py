"""Puts the daemon together for `tierd run`: a machine, files, the socket, signals, words."""

import json
import logging
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from tierd.clock import Clock, SystemClock
from tierd.configuration import configfile
from tierd.configuration.config import Config, Mode
from tierd.errors import ExitCode, TierdError
from tierd.kdamonds import saved
from tierd.kdamonds.restore import saved_in
from tierd.kdamonds.saved import SavedState
from tierd.loop import daemon, journal, systemd
from tierd.loop.outside import Outside
from tierd.loop.running import Identity, Running, moved_bytes
from tierd.loop.systemd import FedInbox, Notifier
from tierd.machine import discovery, observe
from tierd.plans.plan import Direction, Plan
from tierd.record import counters as totals
from tierd.record import outlook, rundir, tally
from tierd.record.chronicle import Chronicle
from tierd.record.counters import Counters
from tierd.record.rundir import RunDir
from tierd.record.snapshot import (
    RECENT_SCHEMA,
    SCHEMA,
    EventStatus,
    Snapshot,
    State,
    document,
    look,
)
from tierd.record.tally import Tally
from tierd.serving import api
from tierd.serving.inbox import Event, Inbox, SystemInbox
from tierd.sysfs import CountedSysfs, PatientSysfs, RealSysfs, Sysfs
from tierd.units import format_percent, format_size
from tierd.views import planned

if TYPE_CHECKING:
    from tierd.serving.reporter import Reporter

BOOT_ID = "proc/sys/kernel/random/boot_id"
THIS_MACHINE = "this machine"

log = logging.getLogger("tierd")


@dataclass(frozen=True, slots=True)
class Options:
    """What `tierd run` was asked for."""

    root: Path
    folder: RunDir
    config: Path
    config_required: bool
    drop_ins: Path | None
    observe: bool
    for_s: float | None
    live: bool
    """Print a line at each tick, for a person who watches."""


class Shown(Protocol):
    """A machine that can tell more than its kernel: the simulated one."""

    def hot_share_fast(self) -> float: ...


@dataclass(frozen=True, slots=True)
class Stage:
    """The machine that the daemon runs on, real or simulated."""

    name: str
    sysfs: Sysfs
    clock: Clock
    boot_id: str
    inbox_over: Callable[[SystemInbox], Inbox]
    shown: Shown | None = None


def real_stage(root: Path) -> Stage:
    """This machine."""
    sysfs = RealSysfs(root)
    return Stage(THIS_MACHINE, sysfs, SystemClock(), sysfs.read(BOOT_ID), lambda inbox: inbox)


class Advancing(Protocol):
    """A kernel whose time has to be made to pass."""

    def advance(self, seconds: float) -> None: ...


@dataclass(frozen=True, slots=True)
class AdvancingInbox:
    """Waits in real time and lets as much of the simulated kernel's pass."""

    inner: SystemInbox
    kernel: Advancing

    def wait(self, seconds: float) -> tuple[Event, ...]:
        began_s = time.monotonic()
        events = self.inner.wait(seconds)
        self.kernel.advance(time.monotonic() - began_s)
        return events


@dataclass(frozen=True, slots=True)
class FileStore:
    """The loop's files, in the run and state directories."""

    folder: RunDir
    boot_id: str

    def record(self, state: SavedState) -> None:
        rundir.save(self.folder.run / rundir.STATE, saved.to_text(state))

    def saved(self) -> SavedState | None:
        return saved_in(self.folder)

    def forget(self) -> None:
        rundir.remove(self.folder.run / rundir.STATE)

    def handed_over(self) -> bool:
        marker = self.folder.run / rundir.HAND_OVER
        found = rundir.load(marker) is not None
        if found:
            # It is for this stop only.
            rundir.remove(marker)
        return found

    def save_counters(self, counters: Counters) -> None:
        text = totals.to_text(counters, self.boot_id)
        rundir.save(self.folder.state / rundir.COUNTERS, text)

    def counters(self) -> Counters:
        text = rundir.load(self.folder.state / rundir.COUNTERS)
        found = totals.from_text(text, self.boot_id) if text is not None else Counters()
        if found is None:
            log.warning("%s is damaged; totals begin at zero", self.folder.state / rundir.COUNTERS)
        return found or Counters()

    def save_tally(self, counted: Tally) -> None:
        rundir.save(self.folder.state / rundir.TALLY, tally.to_text(counted))

    def tally(self) -> Tally:
        text = rundir.load(self.folder.state / rundir.TALLY)
        found = tally.from_text(text) if text is not None else Tally()
        if found is None:
            log.warning("%s is damaged; counts begin at zero", self.folder.state / rundir.TALLY)
        return found or Tally()


# What the API shows.
DOCUMENTS = ("/v1/status", "/v1/plan", "/v1/recent")

# A minute of looks, unless a tick is longer: what `tierd why` tells of.
RECENT = 60


@dataclass(slots=True)
class Published:
    """The newest snapshots. One assignment replaces each, so readers need no lock."""

    snapshot: Snapshot | None = None
    plan: Plan | None = None
    recent: tuple[Snapshot, ...] = ()
    texts: dict[str, str] = field(default_factory=dict)
    """What was asked for since the newest came: however many ask, each is made once."""

    def add(self, snapshot: Snapshot, plan: Plan | None) -> None:
        self.snapshot, self.plan = snapshot, plan
        self.recent = (*self.recent, snapshot)[-RECENT:]
        # Last: what is made of the old ones meanwhile goes into the old texts.
        self.texts = {}

    def text_at(self, path: str) -> str | None:
        texts = self.texts
        if path not in DOCUMENTS:
            return None
        if path not in texts:
            texts[path] = self._made(path)
        return texts[path]

    def _made(self, path: str) -> str:
        if path == "/v1/status":
            if self.snapshot is None:
                return json.dumps({"schema": SCHEMA, "state": State.starting})
            return json.dumps(document(self.snapshot))
        if path == "/v1/plan":
            if self.plan is None:
                return json.dumps({"schema": planned.SCHEMA, "writes": []})
            return json.dumps(planned.as_document(self.plan))
        return json.dumps({"schema": RECENT_SCHEMA, "looks": list(map(look, self.recent))})


@dataclass(slots=True)
class LiveLine:
    """One line per tick for a person who watches: what moves, and what is free where."""

    shown: Shown | None
    say: Callable[[str], None]
    promoted: int = 0
    demoted: int = 0
    began_at: float | None = None
    before: tuple[int, int] | None = None

    def show(self, snapshot: Snapshot, running: Running) -> None:
        up, down = (moved_bytes(running, way) for way in (Direction.promote, Direction.demote))
        if self.before is None:
            # What an earlier daemon moved is in the totals too; here it would be a riddle.
            self.before = up, down
        promoted, demoted = up - self.before[0], down - self.before[1]
        free = ", ".join(
            f"node{node.numa_node} {format_percent(node.free_bytes * 10_000 / node.size_bytes)}"
            for node in snapshot.nodes
        )
        if snapshot.state is State.observing:
            self._say_observed(snapshot)
            return
        hot = (
            f"hot set {self.shown.hot_share_fast():4.0%} on the fast tier | " if self.shown else ""
        )
        self.say(
            f"{self._second(snapshot):4.0f} s | {hot}{snapshot.state} | "
            f"up {format_size(promoted)} (+{format_size(promoted - self.promoted)}), "
            f"down {format_size(demoted)} (+{format_size(demoted - self.demoted)}) | free: {free}"
        )
        self.promoted, self.demoted = promoted, demoted

    def _say_observed(self, snapshot: Snapshot) -> None:
        found = outlook.outlook((snapshot,))
        seen = (
            f"{format_size(found.hot_bytes)} hot below, {format_size(found.cold_bytes)} cold above"
            if found
            else "nothing is known yet"
        )
        self.say(f"{self._second(snapshot):4.0f} s | {snapshot.state} | {seen}")

    def _second(self, snapshot: Snapshot) -> float:
        """Since the first line."""
        if self.began_at is None:
            self.began_at = snapshot.at
        return snapshot.at - self.began_at


def run(options: Options, stage: Stage, say: Callable[[str], None]) -> ExitCode:
    """The daemon in the foreground, until a signal, or for a time."""
    _log_to(journal.handler())
    options.folder.make()
    lock = options.folder.lock()
    inbox = SystemInbox()
    try:
        inbox.catch_signals()
        config = _read_config(options, stage.sysfs)
        published = Published()
        store = FileStore(options.folder, stage.boot_id)
        server = api.serve(
            options.folder.run / rundir.SOCKET, api.Sources(published.text_at, inbox.post)
        )
        reporter = _reporter(store)
        reporter.start(config)
        notifier = systemd.notifier(os.environ, time.monotonic)
        try:
            told = _told(options, stage, published, reporter, notifier, say)
            outside = _outside(options, stage, inbox, store, told)
            code = daemon.run(outside, config, options.for_s)
            if options.observe:
                say(outlook.sentence(outlook.outlook(published.recent[-outlook.LOOKS :])))
            return code
        finally:
            reporter.stop()
            server.stop()
    finally:
        inbox.close()
        os.close(lock)


def _reporter(store: FileStore) -> "Reporter":
    """Imported here: `tierd restore` should not load a library for metrics."""
    from tierd.serving.reporter import Reporter

    return Reporter(store.tally(), store.save_tally)


@dataclass(frozen=True, slots=True)
class Told:
    """Who hears from the loop, and how."""

    publish: Callable[[Snapshot, Running], None]
    event: Callable[[EventStatus], None]
    reporter: "Reporter"
    notifier: Notifier


def _told(
    options: Options,
    stage: Stage,
    published: Published,
    reporter: "Reporter",
    notifier: Notifier,
    say: Callable[[str], None],
) -> Told:
    line = LiveLine(stage.shown, say)
    kept = Chronicle(options.folder)

    def publish(snapshot: Snapshot, running: Running) -> None:
        published.add(snapshot, running.applied.plan if running.applied else None)
        kept.saw(snapshot)
        reporter.publish(snapshot)
        notifier.publish(snapshot)
        if options.live:
            line.show(snapshot, running)

    def event(event: EventStatus) -> None:
        _log_event(event)
        kept.happened(event)
        reporter.happened(event)
        if event.event == "stopping":
            notifier.stopping()

    return Told(publish, event, reporter, notifier)


def _outside(
    options: Options, stage: Stage, inbox: SystemInbox, store: FileStore, told: Told
) -> Outside:
    patient = PatientSysfs(stage.sysfs, stage.clock)
    return Outside(
        sysfs=CountedSysfs(patient, told.reporter.refused, told.notifier.alive),
        clock=stage.clock,
        inbox=FedInbox(stage.inbox_over(inbox), told.notifier),
        store=store,
        who=Identity(os.getpid(), time.time(), stage.name),
        wall_s=time.time,
        read_config=lambda: _read_config(options, stage.sysfs),
        publish=told.publish,
        log=told.event,
        ticks_per_s=os.sysconf("SC_CLK_TCK"),
    )


def _read_config(options: Options, sysfs: Sysfs) -> Config:
    parsed = configfile.load(
        options.config,
        options.drop_ins,
        required=options.config_required,
        nodes=discovery.nodes(sysfs),
    )
    return replace(parsed.config, mode=Mode.observe) if options.observe else parsed.config


def can_run_here(root: Path) -> str | None:
    """None if tierd could run on this machine; else what it lacks, in words."""
    sysfs = RealSysfs(root)
    if os.geteuid() != 0:
        return "you are not root"
    try:
        discovery.discover(sysfs, None)
        observe.require_migration(observe.probe(sysfs))
    except TierdError as error:
        return str(error)
    return None


# What an operator should look at, as syslog priorities that the journal understands.
WORRYING = {
    "degraded": logging.WARNING,
    "kdamond_died": logging.WARNING,
    "left": logging.WARNING,
    "reload_failed": logging.ERROR,
    "pause_failed": logging.ERROR,
    "resume_failed": logging.ERROR,
    "restore_failed": logging.ERROR,
}


def _log_event(event: EventStatus) -> None:
    level = WORRYING.get(event.event, logging.INFO)
    text = f": {event.text}" if event.text else ""
    log.log(level, "%s%s", event.event, text, extra={"event": event.event})


def _log_to(handler: logging.Handler) -> None:
    log.handlers[:] = [handler]
    log.setLevel(logging.INFO)
