"""Put the daemon of `tierd run` together: machine, files, socket, signals and log."""

import json
import logging
import os
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from tierd.clock import Clock, SystemClock
from tierd.configuration import configfile
from tierd.configuration.config import Config, Mode
from tierd.errors import ExitCode, TierdError, Unsupported
from tierd.frozen import dataclass, replace
from tierd.kdamonds import niceness
from tierd.kdamonds.kernel import Kernel
from tierd.loop import daemon, journal, status_page, systemd
from tierd.loop.kept_profile import KeptProfile
from tierd.loop.outside import Outside, ReadsLatencies, no_latencies
from tierd.loop.profile_log import ProfileLog
from tierd.loop.running import Identity, Running, moved_bytes
from tierd.loop.status_page import StatusPage
from tierd.loop.store import FileStore
from tierd.loop.systemd import Notifier, WatchdogInbox
from tierd.machine import caches, discovery, features
from tierd.machine.sample import Latency
from tierd.machine.sample_reader import vm_events
from tierd.plans.plan import Direction, Plan
from tierd.record import outlook, rundir
from tierd.record.chronicle import Chronicle
from tierd.record.rundir import FileError, RunDir
from tierd.record.snapshot import (
    RECENT_SCHEMA,
    SCHEMA,
    EventStatus,
    Snapshot,
    State,
    document,
    look,
)
from tierd.serving import api, remote_sysfs
from tierd.serving.inbox import Event, Inbox, SystemInbox
from tierd.sysfs import CountedSysfs, Patience, PatientSysfs, RealSysfs, Sysfs
from tierd.topology import Topology
from tierd.views import planned
from tierd.views.statusview import THIS_MACHINE

if TYPE_CHECKING:
    from tierd.machine.latency_probe import LatencyProbe
    from tierd.serving.metrics_output import MetricsOutput

BOOT_ID = "proc/sys/kernel/random/boot_id"

log = logging.getLogger("tierd")


class Display(Protocol):
    """Shows the run to a person who watches."""

    def show(self, snapshot: Snapshot, up: int, down: int) -> None:
        """Show the state after a tick, with all bytes that were ever moved in each direction."""

    def end(self) -> None:
        """End the show."""


@dataclass(frozen=True, slots=True)
class Options:
    """The options of `tierd run`."""

    root: Path
    folder: RunDir
    config: Path
    config_required: bool
    drop_ins: Path | None
    observe: bool
    for_s: float | None
    display: Callable[[str | None], Display] | None = None
    """Makes the display, which gets the address of the web page; None if nobody watches."""


class Advancing(Protocol):
    """A simulated kernel. Its time passes only in `advance`."""

    def advance(self, seconds: float) -> None: ...


@dataclass(frozen=True, slots=True)
class Stage:
    """The machine on which the daemon runs, real or simulated."""

    name: str
    sysfs: Sysfs
    clock: Clock
    boot_id: str
    inbox_over: Callable[[SystemInbox], Inbox]
    serves_files: bool = False
    """True if other commands must ask this process for the files of the machine."""
    advancing: Advancing | None = None
    """The kernel whose time passes only when it is told to; None on a real machine."""
    kdamond_started: Callable[[int], None] = lambda _pid: None
    """Called with the pid of each kdamond that tierd has turned on."""
    latencies: ReadsLatencies = no_latencies
    """Reads how late nodes answer."""


def real_stage(root: Path) -> Stage:
    """Return the stage of this machine, whose files are below `root`; Unsupported if none are."""
    sysfs = RealSysfs(root)
    if not sysfs.exists(BOOT_ID):
        raise Unsupported(
            f"there is no {root / BOOT_ID}: tierd can run only where the kernel's own files are",
            f"mount proc at {root / 'proc'}; or leave out --root, and tierd runs on this machine",
        )
    stage = Stage(THIS_MACHINE, sysfs, SystemClock(), sysfs.read(BOOT_ID), lambda inbox: inbox)
    if root != Path("/"):
        return stage
    # Files elsewhere may be a copy, whose numbers of processes are not those of this machine.
    return replace(
        stage,
        kdamond_started=partial(niceness.let_programs_first, sysfs),
        latencies=_reads_latencies(sysfs),
    )


def _reads_latencies(sysfs: Sysfs) -> ReadsLatencies:
    """Return a reader that takes no memory before it is asked for something."""
    made: list[LatencyProbe] = []

    def read(topology: Topology, asked: Mapping[int, tuple[int, ...]]) -> tuple[Latency, ...]:
        if asked and not made:
            # Imported here, because ctypes takes a megabyte, and a machine may be settled for days.
            from tierd.machine.latency_probe import LatencyProbe

            made.append(LatencyProbe(sysfs, time.monotonic, _not_measured))
        return made[0].read(topology, asked) if made else ()

    return read


def _not_measured(error: TierdError) -> None:
    log.info("latencies are not measured: %s", error)


@dataclass(frozen=True, slots=True)
class AdvancingInbox:
    """An inbox that waits in real time, and lets the same time pass in the simulated kernel."""

    inner: SystemInbox
    kernel: Advancing

    def wait(self, seconds: float) -> tuple[Event, ...]:
        began_s = time.monotonic()
        events = self.inner.wait(seconds)
        self.kernel.advance(time.monotonic() - began_s)
        return events


# The documents that the API serves.
DOCUMENTS = ("/v1/status", "/v1/plan", "/v1/recent")

# Snapshots that are kept for `tierd why`. There are one or two ticks a second, so this is the last
# half minute or minute.
RECENT = 60


@dataclass(slots=True)
class Published:
    """The newest snapshots. One assignment replaces each, so readers need no lock."""

    snapshot: Snapshot | None = None
    plan: Plan | None = None
    recent: tuple[Snapshot, ...] = ()
    texts: dict[str, str] = field(default_factory=dict)
    """The documents of the newest snapshot, by path. Each is made once."""

    def add(self, snapshot: Snapshot, plan: Plan | None) -> None:
        self.snapshot, self.plan = snapshot, plan
        self.recent = (*self.recent, snapshot)[-RECENT:]
        # Last, because another thread may still add documents of the old snapshot to the old dict.
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


def run(options: Options, stage: Stage, say: Callable[[str], None]) -> ExitCode:
    """Run the daemon in the foreground, until a signal or for a time."""
    # Imported here, because `tierd restore` does not need it.
    from tierd.serving.metrics_output import MetricsOutput

    _log_to(journal.handler())
    options.folder.make()
    lock = options.folder.lock()
    inbox = SystemInbox()
    try:
        inbox.catch_signals()
        config = _read_config(options, stage.sysfs)
        published = Published()
        store = FileStore(options.folder, stage.boot_id)
        _make_state(options.folder)
        servers = _serve(options.folder, stage, api.Sources(published.text_at, inbox.post))
        chronicle = Chronicle(options.folder, store.books)
        kept = KeptProfile(options.folder, store.books)
        profile_log = ProfileLog(
            kept,
            partial(vm_events, stage.sysfs),
            lambda topology: caches.total_bytes(stage.sysfs, topology.cpus),
        )
        metrics_output = MetricsOutput(
            store.tally(),
            store.save_tally,
            store.books.failures,
            pages={"/": StatusPage(_page_sources(published, chronicle))},
        )
        metrics_output.start(config)
        if not stage.serves_files:
            metrics_output.start_report(options.root)
        notifier = systemd.notifier(os.environ, time.monotonic)
        display = options.display(metrics_output.url) if options.display else None
        try:
            listeners = _listeners(
                published, chronicle, metrics_output, notifier, display, profile_log
            )
            outside = _outside(options, stage, inbox, store, listeners)
            code = daemon.run(outside, config, options.for_s)
            if options.observe:
                say(outlook.sentence(outlook.outlook(published.recent[-outlook.LOOKS :])))
            return code
        finally:
            if display is not None:
                display.end()
            kept.end()
            metrics_output.stop()
            for server in servers:
                server.stop()
            for news in store.books.news():
                # The history is closed, so this goes to the log only.
                log.warning("%s: %s", *news)
    finally:
        inbox.close()
        os.close(lock)


def _serve(folder: RunDir, stage: Stage, sources: api.Sources) -> tuple[api.Server, ...]:
    """Serve the API, and the files of a simulated machine if there is one."""
    server = api.serve(folder.run / rundir.SOCKET, sources)
    if not stage.serves_files:
        # A socket that a killed tierd left would look like a simulated machine.
        rundir.remove(folder.run / rundir.KERNEL_SOCKET)
        return (server,)
    files = api.Sources(remote_sysfs.answers(stage.sysfs, stage.name), lambda _event: False)
    return server, api.serve(folder.run / rundir.KERNEL_SOCKET, files)


def _make_state(folder: RunDir) -> None:
    """Create the state directory. Tiering goes on without it, but not if others can write to it."""
    try:
        folder.make_state()
    except FileError as error:
        log.warning("%s; totals and history may be lost. %s", error, error.hint)


@dataclass(frozen=True, slots=True)
class Listeners:
    """The receivers of snapshots and events: API, history, metrics, systemd and log."""

    publish: Callable[[Snapshot, Running], None]
    event: Callable[[EventStatus], None]
    metrics_output: "MetricsOutput"
    notifier: Notifier


def _page_sources(published: Published, chronicle: Chronicle) -> status_page.Sources:
    return status_page.Sources(
        lambda: published.recent, chronicle.lately, socket.gethostname(), time.time
    )


def _listeners(
    published: Published,
    chronicle: Chronicle,
    metrics_output: "MetricsOutput",
    notifier: Notifier,
    display: Display | None,
    profile_log: ProfileLog,
) -> Listeners:
    def publish(snapshot: Snapshot, running: Running) -> None:
        published.add(snapshot, running.applied.plan if running.applied else None)
        chronicle.saw(snapshot)
        profile_log.saw(snapshot.at, running)
        metrics_output.publish(snapshot)
        notifier.publish(snapshot)
        if display is not None:
            up, down = (moved_bytes(running, way) for way in (Direction.promote, Direction.demote))
            display.show(snapshot, up, down)

    def event(event: EventStatus) -> None:
        _log_event(event)
        chronicle.happened(event)
        metrics_output.happened(event)
        if event.event == "stopping":
            notifier.stopping()

    return Listeners(publish, event, metrics_output, notifier)


def _outside(
    options: Options, stage: Stage, inbox: SystemInbox, store: FileStore, listeners: Listeners
) -> Outside:
    patience = patience_of(stage.clock, listeners.notifier, lambda: inbox.stop_waits)
    patient = PatientSysfs(stage.sysfs, patience)
    counted = CountedSysfs(patient, listeners.metrics_output.refused, listeners.notifier.alive)
    return Outside(
        kernel=Kernel(counted, stage.clock, patience, stage.kdamond_started),
        inbox=WatchdogInbox(stage.inbox_over(inbox), listeners.notifier),
        store=store,
        who=Identity(os.getpid(), time.time(), stage.name, listeners.metrics_output.url),
        wall_s=time.time,
        read_config=lambda: _read_config(options, stage.sysfs),
        publish=listeners.publish,
        log=listeners.event,
        ticks_per_s=os.sysconf("SC_CLK_TCK"),
        processor_s=time.thread_time,
        latencies=stage.latencies,
        books=store.books,
    )


def patience_of(clock: Clock, notifier: Notifier, stop_waits: Callable[[], bool]) -> Patience:
    """Return a Patience that feeds the watchdog while it waits, and ends at a request to stop."""

    def wait(seconds: float) -> bool:
        notifier.alive()
        clock.sleep(seconds)
        return not stop_waits()

    return Patience(wait)


def _read_config(options: Options, sysfs: Sysfs) -> Config:
    parsed = configfile.load(
        options.config,
        options.drop_ins,
        required=options.config_required,
        nodes=discovery.nodes(sysfs),
    )
    return replace(parsed.config, mode=Mode.observe) if options.observe else parsed.config


def can_run_here(root: Path) -> str | None:
    """Return what this machine lacks to run tierd, in words; None if nothing."""
    sysfs = RealSysfs(root)
    if os.geteuid() != 0:
        return "you are not root"
    try:
        discovery.discover(sysfs, None)
        features.require_migration(features.probe(sysfs))
    except TierdError as error:
        return str(error)
    return None


# Events that an operator should look at, and their log level.
WORRYING = {
    "bookkeeping_failed": logging.WARNING,
    "degraded": logging.WARNING,
    "kdamond_died": logging.WARNING,
    "left": logging.WARNING,
    "reload_failed": logging.ERROR,
    "pause_failed": logging.ERROR,
    "resume_failed": logging.ERROR,
    "inversion": logging.WARNING,
    "restore_failed": logging.ERROR,
}


def _log_event(event: EventStatus) -> None:
    level = WORRYING.get(event.event, logging.INFO)
    text = f": {event.text}" if event.text else ""
    log.log(level, "%s%s", event.event, text, extra={"event": event.event})


def _log_to(handler: logging.Handler) -> None:
    log.handlers[:] = [handler]
    log.setLevel(logging.INFO)
