"""The real loop on the simulated kernel, with a script for what happens when."""

from collections.abc import Callable
from dataclasses import dataclass, field

from tierd.configuration.config import Config
from tierd.errors import ExitCode
from tierd.kdamonds.kernel import Kernel
from tierd.kdamonds.saved import SavedState
from tierd.loop import daemon, service
from tierd.loop.outside import Outside, ReadsLatencies, no_latencies
from tierd.loop.running import Identity, Running
from tierd.loop.systemd import Notifier, WatchdogInbox
from tierd.record.scheme_totals import Totals
from tierd.record.snapshot import EventStatus, Snapshot
from tierd.serving.inbox import Answer, Event, Verb
from tierd.sim import machine_model
from tierd.sim.memory import PageSet
from tierd.sim.sim_kernel import SimClock, SimKernel
from tierd.sim.workload import Place, Workload, WorkloadEvent
from tierd.sysfs import CountedSysfs, PatientSysfs, Sysfs

MIB = 1 << 20
KDAMONDS = "sys/kernel/mm/damon/admin/kdamonds"

Step = tuple[float, Callable[[], Event | None]]

# What the unit asks for (WatchdogSec=).
WATCHDOG_S = 60.0

# This many waits in a row in which no event came and almost no time passed are
# a loop that spins: it waits for a time that is past. A burst of inputs that are due one after
# another needs one wait for each, for a dozen schemes.
SPIN_WAITS = 25
SPIN_S = 0.025


class Spins(AssertionError):
    """The loop waits again and again, but no time passes and no event comes."""


@dataclass
class Script:
    """An inbox in virtual time: each step is done at its second."""

    kernel: SimKernel
    steps: list[Step] = field(default_factory=list)
    stop_s: float | None = None
    """When a signal asks for a stop; the loop notices it even in the middle of a wait."""
    idle_s: list[float] = field(default_factory=list)
    """The times of the waits since the last event."""

    @property
    def stop_waits(self) -> bool:
        return self.stop_s is not None and self.stop_s <= self.kernel.now_us / 1e6

    def at(self, second: float, step: Callable[[], Event | None]) -> None:
        self.steps.append((second, step))
        self.steps.sort(key=lambda one: one[0])

    def wait(self, seconds: float) -> tuple[Event, ...]:
        now_s = self.kernel.now_us / 1e6
        until_s = now_s + max(0.0, seconds)
        moments = [step[0] for step in self.steps[:1]]
        moments += [] if self.stop_s is None else [self.stop_s]
        until_s = max(now_s, min([until_s, *moments]))
        self.kernel.advance(until_s - now_s)
        events = []
        if self.stop_s is not None and self.stop_s <= until_s:
            self.stop_s = None
            events.append(Event(Verb.stop, "SIGTERM"))
        while self.steps and self.steps[0][0] <= until_s:
            came = self.steps.pop(0)[1]()
            events += [] if came is None else [came]
        self._require_progress(until_s, came=bool(events))
        return tuple(events)

    def _require_progress(self, now_s: float, *, came: bool) -> None:
        self.idle_s = [] if came else [*self.idle_s[-SPIN_WAITS:], now_s]
        if len(self.idle_s) > SPIN_WAITS and now_s - self.idle_s[0] < SPIN_S:
            raise Spins(f"{SPIN_WAITS} waits for nothing, from {self.idle_s[0]} s to {now_s} s")


@dataclass
class Disk:
    """tierd's files, in memory. The text that is written to a real disk has tests of its own."""

    state: SavedState | None = None
    totals: Totals = field(default_factory=Totals)
    successor: bool = False

    def record(self, saved: SavedState) -> None:
        self.state = saved

    def saved(self) -> SavedState | None:
        return self.state

    def forget(self) -> None:
        self.state = None

    def handed_over(self) -> bool:
        return self.successor

    def save_counters(self, counters: Totals, *, lasting: bool) -> None:  # noqa: ARG002
        self.totals = counters

    def counters(self) -> Totals:
        return self.totals


@dataclass
class Loop:
    """A machine, the loop on it, and everything that the loop reported."""

    kernel: SimKernel
    script: Script
    disk: Disk
    config: Config
    snapshots: list[Snapshot] = field(default_factory=list)
    events: list[EventStatus] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    fed_s: list[float] = field(default_factory=list)
    """When the watchdog was fed."""
    refused: list[str] = field(default_factory=list)
    """The errnos of writes that the kernel refused."""
    read_config: Callable[[], Config] | None = None
    processor_s: Callable[[], float] = lambda: 0.0
    """The processor time that the loop has used."""
    sysfs: Sysfs | None = None
    """The Sysfs to use in place of the kernel, if any."""
    latencies: ReadsLatencies = no_latencies
    turned_on: list[int] = field(default_factory=list)
    """The pids of the kdamonds that the loop has turned on."""

    def outside(self) -> Outside:
        clock = SimClock(self.kernel)
        notifier = Notifier(self._notified, clock.monotonic, WATCHDOG_S)
        patience = service.patience_of(clock, notifier, lambda: self.script.stop_waits)
        sysfs = PatientSysfs(self.sysfs or self.kernel, patience)
        return Outside(
            kernel=Kernel(
                CountedSysfs(sysfs, self.refused.append, notifier.alive),
                clock,
                patience,
                self.turned_on.append,
            ),
            inbox=WatchdogInbox(self.script, notifier),
            store=self.disk,
            who=Identity(1, 0.0, self.kernel.machine.name),
            wall_s=clock.monotonic,
            read_config=self.read_config or (lambda: self.config),
            publish=self._publish,
            log=self.events.append,
            processor_s=self.processor_s,
            latencies=self.latencies,
        )

    def run(self, for_s: float) -> ExitCode:
        return daemon.run(self.outside(), self.config, for_s)

    def stop(self, second: float) -> None:
        """Send SIGTERM at that second."""
        self.script.stop_s = second

    def ask(self, second: float, verb: Verb) -> None:
        """Give the loop a command at this second, and keep its answer."""
        self.script.at(second, lambda: Event(verb, "test", self.answers.append))

    def do(self, second: float, action: Callable[[], None]) -> None:
        """Call a function at this second."""
        self.script.at(second, lambda: action())

    def names(self) -> list[str]:
        return [event.event for event in self.events]

    def before(self, second: float) -> Snapshot:
        """Return the last snapshot up to this second."""
        return [one for one in self.snapshots if one.at <= second][-1]

    def share(self, name: str, node: int) -> float:
        """Return the share of a set that is on a node."""
        memory = self.kernel.memory
        total = sum(memory.pages_of_set(name, nid) for nid in memory.nodes)
        return memory.pages_of_set(name, node) / total

    def _notified(self, text: str) -> None:
        if text == "WATCHDOG=1":
            self.fed_s.append(self.kernel.now_us / 1e6)

    def _publish(self, snapshot: Snapshot, _running: Running) -> None:
        self.snapshots.append(snapshot)


def loop(
    series: str,
    name: str = "two-tier",
    *happenings: WorkloadEvent,
    config: Config | None = None,
    disk: Disk | None = None,
    block_pages: int = 64,
    seed: int = 1,
) -> Loop:
    """Return a loop on a machine of this series, with a workload.

    By default blocks are small enough to see one percent of a node, and large enough to simulate
    a minute in a second.
    """
    kernel = SimKernel(
        series,
        machine_model.load(name),
        seed=seed,
        workload=Workload(list(happenings), seed=seed),
        block_pages=block_pages,
    )
    kernel.advance(0.001)
    return Loop(kernel, Script(kernel), disk or Disk(), config or Config())


def hot(name: str, node: int, mib: int) -> Place:
    """A set whose pages are touched a hundred times a second."""
    return Place(PageSet(name, 100.0), mib * MIB, (node,))


def cold(name: str, node: int, mib: int) -> Place:
    """A set that nobody touches."""
    return Place(PageSet(name, 0.0), mib * MIB, (node,))


def filtered(kernel: SimKernel) -> set[str]:
    """Return the cgroups that have a filter in the kernel."""
    paths = [path for path in kernel.files(KDAMONDS) if path.endswith("/memcg_path")]
    return {kernel.read(f"{KDAMONDS}/{path}") for path in paths} - {""}
