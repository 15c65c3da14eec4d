"""The real loop on the simulated kernel, with a script for what happens when."""

from collections.abc import Callable
from dataclasses import dataclass, field

from tierd.configuration.config import Config
from tierd.errors import ExitCode
from tierd.kdamonds.saved import SavedState
from tierd.loop import daemon
from tierd.loop.outside import Outside
from tierd.loop.running import Identity, Running
from tierd.record.counters import Counters
from tierd.record.snapshot import EventStatus, Snapshot
from tierd.serving.inbox import Answer, Event, Verb
from tierd.sim import machine
from tierd.sim.kernel import SimClock, SimKernel
from tierd.sim.memory import PageSet
from tierd.sim.workload import Event as Happening
from tierd.sim.workload import Place, Workload
from tierd.sysfs import PatientSysfs

MIB = 1 << 20
KDAMONDS = "sys/kernel/mm/damon/admin/kdamonds"

Step = tuple[float, Callable[[], Event | None]]


@dataclass
class Script:
    """An inbox in virtual time: steps are done when their second has come."""

    kernel: SimKernel
    steps: list[Step] = field(default_factory=list)

    def at(self, second: float, step: Callable[[], Event | None]) -> None:
        self.steps.append((second, step))
        self.steps.sort(key=lambda one: one[0])

    def wait(self, seconds: float) -> tuple[Event, ...]:
        now_s = self.kernel.now_us / 1e6
        until_s = now_s + max(0.0, seconds)
        if self.steps and self.steps[0][0] <= until_s:
            until_s = max(now_s, self.steps[0][0])
        self.kernel.advance(until_s - now_s)
        events = []
        while self.steps and self.steps[0][0] <= until_s:
            events.append(self.steps.pop(0)[1]())
        return tuple(event for event in events if event is not None)


@dataclass
class Disk:
    """Our files; what is written to a real disk is text, which has tests of its own."""

    state: SavedState | None = None
    totals: Counters = field(default_factory=Counters)
    successor: bool = False

    def record(self, saved: SavedState) -> None:
        self.state = saved

    def saved(self) -> SavedState | None:
        return self.state

    def forget(self) -> None:
        self.state = None

    def handed_over(self) -> bool:
        return self.successor

    def save_counters(self, counters: Counters) -> None:
        self.totals = counters

    def counters(self) -> Counters:
        return self.totals


@dataclass
class Loop:
    """A machine, the loop's outside, and everything that it said."""

    kernel: SimKernel
    script: Script
    disk: Disk
    config: Config
    snapshots: list[Snapshot] = field(default_factory=list)
    events: list[EventStatus] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    read_config: Callable[[], Config] | None = None

    def outside(self) -> Outside:
        clock = SimClock(self.kernel)
        return Outside(
            sysfs=PatientSysfs(self.kernel, clock),
            clock=clock,
            inbox=self.script,
            store=self.disk,
            who=Identity(1, 0.0, self.kernel.machine.name),
            wall_s=clock.monotonic,
            read_config=self.read_config or (lambda: self.config),
            publish=self._publish,
            log=self.events.append,
        )

    def run(self, for_s: float) -> ExitCode:
        return daemon.run(self.outside(), self.config, for_s)

    def ask(self, second: float, verb: Verb) -> None:
        """Give the loop a command at that second; its answer is kept."""
        self.script.at(second, lambda: Event(verb, "test", self.answers.append))

    def do(self, second: float, action: Callable[[], None]) -> None:
        """Let something happen to the machine at that second."""
        self.script.at(second, lambda: action())

    def names(self) -> list[str]:
        return [event.event for event in self.events]

    def before(self, second: float) -> Snapshot:
        """The last snapshot up to that second."""
        return [one for one in self.snapshots if one.at <= second][-1]

    def share(self, name: str, node: int) -> float:
        """The share of a set that lies on a node."""
        memory = self.kernel.memory
        total = sum(memory.set_pages(name, nid) for nid in memory.nodes)
        return memory.set_pages(name, node) / total

    def _publish(self, snapshot: Snapshot, _running: Running) -> None:
        self.snapshots.append(snapshot)


def loop(
    series: str,
    name: str = "two-tier",
    *happenings: Happening,
    config: Config | None = None,
    disk: Disk | None = None,
    block_pages: int = 64,
) -> Loop:
    """A machine of that series at work, and the loop that will run on it.

    By default there are enough blocks to tell percents of a small node, and few enough to simulate
    a minute in a second.
    """
    kernel = SimKernel(
        series,
        machine.load(name),
        seed=1,
        workload=Workload(list(happenings), seed=1),
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
