"""A simulated machine for hours, with everything that can happen to tierd, chosen by a seed.

`python -m tests.sim.world SEED HOURS` repeats a run. The checks are made at each write of
tierd and after each round: no foreign kdamond is written to, no quota is unlimited or above
its plan, no counter decreases, no round is late, the loop does not spin, and after a clean stop
everything is as before.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from random import Random

from tests.faults.faulty import Killed, require_limits
from tests.sim.happenings import HAPPENINGS, PODS, Happening, leave, plug, unrefused
from tests.sim.loop import KDAMONDS, Disk, Loop, Script, cold
from tierd.configuration.config import CgroupClass, CgroupMode, Config, OnStop, Tuner
from tierd.errors import ExitCode, TierdError
from tierd.kdamonds import restore
from tierd.kdamonds.kernel import Kernel
from tierd.kdamonds.ownership import ALTERED_HINT
from tierd.loop.running import Running
from tierd.loop.supervise import RETRY_S_MAX
from tierd.plans.damon import GATE_CLOSED, gate_paths
from tierd.plans.plan import Migration, Sweep
from tierd.record.snapshot import EventStatus, Snapshot, State
from tierd.serving.inbox import Event
from tierd.sim import machine_model
from tierd.sim.sim_kernel import SimClock, SimKernel
from tierd.sim.workload import Workload

# Three consecutive seeds use all series, and six consecutive seeds use both machines too.
SERIES = ("6.12", "6.18", "7.3")
MACHINES = ("two-tier", "three-tier")
HOUR_S = 3600.0

# Coarse memory, and cold but for a while now and then: what is hot is sampled every 5 ms.
BLOCK_PAGES = 512

# How long a daemon lives if nothing ends it.
LIFE_S = (120.0, 1200.0)
# Where the kernel steers, or its law, it samples seldom while all is cold: there the loop may look
# as seldom, which makes an hour cheap.
SLOW_TICK_MS = 10_000
KEEPS_SHARE = 0.1

# Within a life the weather changes: how long each lasts, and between two happenings in it, on
# average. Together that is some sixty in an hour.
WEATHER_S = {"burst": (30.0, 3.0), "calm": (600.0, 120.0)}

RATES = (20_000_000, 200_000_000)

# A tick, all the patience of two rounds, and what commands take on 6.12.
LATE_S = 12.0

# Where the kernel steers it samples every ten seconds in the end, and a command waits for a sample:
# two for each of two kdamonds.
COMMANDS_S = {Tuner.kernel: 40.0, Tuner.demand: 0.0, Tuner.emulated: 40.0}

# An undisturbed daemon is active after this time.
LAST_S = 60.0

# How long systemd waits before a restart (RestartSec=).
RESTART_S = 2.0

# The longest wait between two tries, plus the time that two tries take.
TRIED_S_MAX = 120.0

WELL = (State.active, State.paused)
ENDS_PAUSE = {"resume", "resume_failed", "reload", "reload_failed"}
SETTINGS = ("sys/kernel/mm/numa/demotion_enabled", "sys/module/damon_stat/parameters/enabled")


class Broken(AssertionError):
    """A check has failed."""


@dataclass
class Gate:
    """The kernel as tierd uses it. After tierd's death every access raises Killed."""

    kernel: SimKernel
    dead: bool = False
    foreign: bool = False
    """True if the kdamonds that exist belong to somebody else."""

    def read(self, path: str) -> str:
        self._require_life()
        return self.kernel.read(path)

    reread = read

    def read_bytes(self, path: str) -> bytes:
        self._require_life()
        return self.kernel.read_bytes(path)

    def exists(self, path: str) -> bool:
        self._require_life()
        return self.kernel.exists(path)

    def listdir(self, path: str) -> tuple[str, ...]:
        self._require_life()
        return self.kernel.listdir(path)

    def write(self, path: str, value: str) -> None:
        self._require_life()
        if self.foreign and path.startswith(KDAMONDS):
            raise Broken(f"{value!r} written to somebody else's /{path}")
        with unrefused(self.kernel):
            require_limits(self.kernel, path, value)
        self.kernel.write(path, value)

    def _require_life(self) -> None:
        if self.dead:
            raise Killed


@dataclass
class World:
    """One machine and everything that happens on it."""

    seed: int
    hours: float
    random: Random = field(init=False)
    kernel: SimKernel = field(init=False)
    gate: Gate = field(init=False)
    script: Script = field(init=False)
    disk: Disk = field(default_factory=Disk)
    before: dict[str, str | None] = field(init=False)
    totals: dict[tuple[str, str], int] = field(default_factory=dict)
    quotas_max: dict[str, tuple[int, float]] = field(default_factory=dict)
    """Of each scheme: the highest quota that it may show; until when, if its plan allows less."""
    rounds: int = 0
    states: Counter[State] = field(default_factory=Counter)
    """How many rounds ended in each state."""
    round_s: float = 0.0
    unplugged: set[int] = field(default_factory=set)
    wrong_s: float = 0.0
    """When it was last in order that nothing ran, or something did."""
    paused: bool = False
    planned_s: float = 0.0
    deck: list[tuple[str, Happening]] = field(default_factory=list)
    """What must still happen before anything is repeated."""
    happened: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = Random(self.seed)
        self.kernel = SimKernel(
            SERIES[self.seed % len(SERIES)],
            machine_model.load(MACHINES[self.seed // len(SERIES) % len(MACHINES)]),
            seed=self.seed,
            workload=Workload([cold("set", 1, 128)], seed=self.seed),
            block_pages=BLOCK_PAGES,
        )
        self.kernel.add_cgroup(PODS)
        self.kernel.advance(0.001)
        self.gate = Gate(self.kernel)
        self.script = Script(self.kernel)
        self.before = self.settings()

    def settings(self) -> dict[str, str | None]:
        paths = (*SETTINGS, f"{KDAMONDS}/nr_kdamonds")
        with unrefused(self.kernel):
            return {p: self.kernel.read(p) if self.kernel.exists(p) else None for p in paths}

    @property
    def now_s(self) -> float:
        return self.kernel.now_us / 1e6

    def run(self) -> None:
        """Run all hours; raise Broken, Spins or another error if something went wrong."""
        while (left_s := self.hours * HOUR_S - self.now_s) > 0:
            self._life(self.config(), min(left_s + 1.0, self.random.uniform(*LIFE_S)))
        self._heal()
        made = self._made(replace(self.config(), on_stop=OnStop.restore))
        code = self._live(made, LAST_S)
        if code is not ExitCode.ok or self.settings() != self.before:
            raise Broken(f"after the last stop ({code}): {self.settings()}, not {self.before}")
        if made.snapshots[-1].state is not State.active:
            raise Broken(f"nothing is wrong any more, but: {made.snapshots[-1].reason}")

    def config(self) -> Config:
        """Return a random configuration."""
        tuner = self.random.choice((Tuner.demand, Tuner.emulated, Tuner.kernel))
        pods = CgroupClass("pods", CgroupMode.exclude, (PODS,))
        return Config(
            tuner=tuner,
            tick_ms=1000 if tuner is Tuner.demand else SLOW_TICK_MS,
            rate_max_bytes_per_s=self.random.choice(RATES),
            cgroups=self.random.choice(((), (pods,))),
            on_stop=OnStop.keep if self.random.random() < KEEPS_SHARE else OnStop.restore,
        )

    def _life(self, config: Config, for_s: float) -> None:
        """Run one daemon from its start to its end."""
        self._plan_happenings(for_s)
        made = self._made(config)
        code = self._live(made, for_s)
        self.gate.dead = False
        kernel = Kernel.patient(self.gate, SimClock(self.kernel))
        if code is None and self.disk.state is not None:
            self._try(partial(restore.park_quotas, kernel, self.disk.state))
        gone = self.disk.state is None and not self.gate.foreign
        if code is ExitCode.ok and gone and self.settings() != self.before:
            raise Broken(f"after a stop that was well: {self.settings()}, not {self.before}")
        if any(ALTERED_HINT in event.text for event in made.events):
            self._do_as_told()
        self.script.wait(RESTART_S)

    def _do_as_told(self) -> None:
        """Remove the kdamonds, as tierd tells its user if it cannot prove that they are its own."""
        path = f"{KDAMONDS}/nr_kdamonds"
        with unrefused(self.kernel):
            count = int(self.kernel.read(path))
            states = {self.kernel.read(f"{KDAMONDS}/{index}/state") for index in range(count)}
        if not self.gate.foreign and states == {"off"}:
            self.happened.append(f"{self.now_s:.1f} s: removed as told")
            self.kernel.write(path, "0")

    def _try(self, act: Callable[[], object]) -> None:
        try:
            act()
        except TierdError as error:
            self.happened.append(f"{self.now_s:.1f} s: {error}")

    def _made(self, config: Config) -> "Watched":
        made = Watched(self.kernel, self.script, self.disk, config, sysfs=self.gate, world=self)
        made.read_config = self.config
        return made

    def _live(self, made: "Watched", for_s: float) -> ExitCode | None:
        """Run a daemon and return its exit code; None after a kill."""
        self.round_s = self.wrong_s = self.now_s
        self.gate.dead = self.paused = False
        try:
            return made.run(for_s)
        except Killed:
            return None
        except TierdError as error:
            made.events.append(EventStatus(self.now_s, "ended", f"{error}. {error.hint}"))
            return error.exit_code

    def _plan_happenings(self, for_s: float) -> None:
        # A daemon that ended early has left planned happenings.
        moment_s = max(self.now_s, self.planned_s)
        self.planned_s = max(moment_s, self.now_s + for_s)
        while moment_s < self.planned_s:
            for lasts_s, quiet_s in WEATHER_S.values():
                ends_s = min(self.planned_s, moment_s + self.random.expovariate(1 / lasts_s))
                while (moment_s := moment_s + self.random.expovariate(1 / quiet_s)) < ends_s:
                    self.script.at(moment_s, partial(self._happen, *self._next()))

    def _next(self) -> tuple[str, Happening]:
        """Take the next happening from a shuffled deck, so that all happen equally often."""
        if not self.deck:
            self.deck = list(HAPPENINGS)
            self.random.shuffle(self.deck)
        return self.deck.pop()

    def _happen(self, name: str, happen: Happening) -> Event | None:
        self.happened.append(f"{self.now_s:.1f} s: {name}")
        return happen(self)

    def _heal(self) -> None:
        """Undo everything that others have changed."""
        self.script.steps.clear()
        self.kernel.heal()
        leave(self)
        for node in sorted(self.unplugged):
            plug(self, node)

    def look(self, snapshot: Snapshot, running: Running) -> None:
        """Make the checks after a round."""
        late_s = LATE_S + running.config.tick_ms / 1000 + COMMANDS_S[running.config.tuner]
        if self.now_s - self.round_s > late_s:
            raise Broken(f"a round after {self.now_s - self.round_s:.1f} s")
        self._look_at_state(snapshot, running)
        self.rounds += 1
        self.states[snapshot.state] += 1
        self.round_s = self.now_s
        for scheme in snapshot.schemes:
            for what in ("tried_bytes_total", "applied_bytes_total", "quota_exceeded_total"):
                count = getattr(scheme, what)
                if count < self.totals.get((scheme.scheme, what), 0):
                    raise Broken(f"{what} of {scheme.scheme} went back to {count}")
                self.totals[scheme.scheme, what] = count
        if running.applied is None or self.gate.foreign:
            return
        for kdamond in running.applied.plan.watches if running.paused else ():
            self._require_rest(kdamond.index)
        for item in running.applied.plan.migrations:
            if self._is_closed(item.id, running.applied.plan.sweeps):
                continue
            quotas = self.kernel.effective_bytes(item.kdamond) if self._stands(item.kdamond) else ()
            if quotas and quotas[item.scheme] > self._quota_max(item, running):
                raise Broken(f"{item.id} may move {quotas[item.scheme]} bytes a window")

    def _quota_max(self, item: Migration, running: Running) -> int:
        """By the plan; after a commit a quota stays what it was until its next window begins."""
        held, until_s = self.quotas_max.get(item.id, (0, inf))
        if item.quota_bytes_max < held and until_s == inf:
            until_s = self.now_s + item.window_us / 1e6 + COMMANDS_S[running.config.tuner]
        if item.quota_bytes_max >= held or self.now_s > until_s:
            held, until_s = item.quota_bytes_max, inf
        self.quotas_max[item.id] = (held, until_s)
        return held

    def _is_closed(self, name: str, sweeps: Iterable[Sweep]) -> bool:
        """Return whether watermarks keep a sweep closed. Its quota is from when it was open."""
        gated = [one for one in sweeps if one.id == name and one.gated]
        paths = [path for one in gated for path in gate_paths(one.kdamond, one.scheme)]
        with unrefused(self.kernel):
            return any(self.kernel.read(one) == GATE_CLOSED for one in paths)

    def _look_at_state(self, snapshot: Snapshot, running: Running) -> None:
        """Check that only a user ends a pause, and that trouble ends when its cause has gone."""
        new = {event.event for event in running.events if event.at >= self.round_s}
        if self.paused and not running.paused and not new & ENDS_PAUSE:
            raise Broken("a pause has ended, and nobody asked for it")
        self.paused = running.paused
        wrong = self.kernel._failures or self.unplugged or self.gate.foreign
        if wrong or ALTERED_HINT in snapshot.reason or snapshot.state in WELL:
            self.wrong_s = self.now_s
        elif self.now_s - self.wrong_s > RETRY_S_MAX + TRIED_S_MAX:
            raise Broken(f"{snapshot.state} for nothing: {snapshot.reason}")

    def _require_rest(self, index: int) -> None:
        """Check that a paused kdamond is off or has `pause` set."""
        if self._stands(index):
            pause = f"{KDAMONDS}/{index}/contexts/0/pause"
            with unrefused(self.kernel):
                holds = self.kernel.exists(pause) and self.kernel.read(pause) == "Y"
                on = self.kernel.read(f"{KDAMONDS}/{index}/state") == "on"
            if on and not holds:
                raise Broken(f"kdamond {index} runs during a pause")

    def _stands(self, index: int) -> bool:
        return self.kernel.exists(f"{KDAMONDS}/{index}/state")


@dataclass
class Watched(Loop):
    """A loop that the world checks after each round."""

    world: World | None = None

    def _publish(self, snapshot: Snapshot, running: Running) -> None:
        # Only the last snapshot is needed, and there are thousands.
        self.snapshots = [snapshot]
        assert self.world is not None
        self.world.look(snapshot, running)


def play(seed: int, hours: float) -> World:
    """Run a world to its end; the message of a failure says how to repeat it."""
    world = World(seed, hours)
    try:
        world.run()
    except BaseException as error:
        error.add_note(f"repeat it with: python -m tests.sim.world {seed} {hours}")
        error.add_note("\n".join(world.happened[-12:]))
        raise
    return world


if __name__ == "__main__":
    played = play(int(sys.argv[1]), float(sys.argv[2]))
    seen = ", ".join(f"{count} {state}" for state, count in played.states.most_common())
    sys.stdout.write(f"{played.rounds} rounds ({seen}), {len(played.happened)} happenings\n")
