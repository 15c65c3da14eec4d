"""Runs one timeline of phases with one configuration on this machine: a guest, or with --here.

`python3 -m bench.inside --workload PROGRAM --configuration NAME --phases A,B` prints one JSON
object: what was seen in each phase, as series, and facts about each.
"""

import argparse
import json
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bench import configuration, contender, phase, place, probe, store
from bench.contender import Contender
from bench.phase import ARRIVED, HOT_SHARE, Phase, Scene
from bench.place import Place
from bench.spent import Spent
from tests.contract.sets import PAGE, WorkloadSets
from tests.vm.guard import require_guest
from tierd.sysfs import RealSysfs

SAMPLE_S = 0.5
# Samples between two readings that need more than a few files.
SELDOM = 4
# Residency is found from each 16th of the next touches.
STRIDE = 16

MIB = 1 << 20
HUGE = 2 * MIB

# In these scenes the hot memory fills the fast node, so there is no room for cold memory.
FILLS_ITSELF = store.SCENES | {Scene.big}

# 0 means as often as one processor can. NUMA balancing scans by the processor time that a program
# uses, so a program that sleeps would be scanned less.
HOT_HZ = 0.0
# At this rate one emulated processor can touch all of the set.
BIG_HZ = 8.0
SCAN_BYTES_PER_S = 100_000_000
DRIFT_PER_S = 0.01

# tierd is killed at this time, in the middle of the exchange, and started again after AGAIN_S.
KILL_S = 4.0
AGAIN_S = 2.0
# Seconds for the machine to settle before the phases "scan" and "burst", which disturb it.
CALM_S = 15.0
BURST_S = 15.0
BURST_HELD_S = 5.0
# Bursts that are made while the fast node still has room, to compare with.
UNLOADED = 3


@dataclass(slots=True)
class Stage:
    """A machine with its memory laid out, and what is known about it."""

    place: Place
    contender: Contender
    sets: WorkloadSets
    other: WorkloadSets
    """A second program, which allocates memory while the first goes on."""
    hot: str = "hot0"
    scene: Scene = Scene.full
    best: float | None = None
    """For a store: the share of the touches that the best placement would serve."""
    began_s: float = 0.0
    others: dict[tuple[str, int], int] = field(default_factory=dict)
    """The last seen number of pages on a node, for each other program and each mapped file."""
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def hot_bytes(self) -> int:
        return int(self.place.fast_bytes * HOT_SHARE) // HUGE * HUGE

    def heat(self, name: str, words: str = "") -> None:
        self.hot = name
        self.sets.ask(f"hot {name} {HOT_HZ} {words}".strip())

    def hit_share(self) -> float:
        """Return the share of the hot accesses that reach the fast node."""
        if self.scene in store.SCENES:
            return store.served(self.sets, self.scene, self.place.fast, self.place.fast_bytes)
        return self.sets.served(self.hot, self.place.fast, STRIDE)

    def read_store(self, now: Phase, seed: int) -> None:
        """Begin to read the store, and compute `best`.

        `best` is for as many pages on the fast node as the store had there at first.
        """
        known = self.facts.get("store_pages_on_fast")
        pages = store.pages_on(self.sets, now.scene, self.place.fast) if known is None else known
        best = store.read(self.sets, now, seed, pages, self.hot_bytes)
        self.facts["store_pages_on_fast"] = pages
        self.best = best

    def others_gone(self) -> int:
        """Return how many pages of other programs have left a node since the last call.

        It misses pages that changed places with others, pages of a program that started since
        then, and pages of files that no program maps.
        """
        ours = {sets.pid for sets in (self.sets, self.other) if sets.pid is not None}
        now = probe.others_pages((self.place.fast, self.place.slow), ours)
        gone = sum(max(0, count - now.get(key, count)) for key, count in self.others.items())
        self.others = now
        return gone

    def moves(self) -> tuple[int, int]:
        """Return how many of the workload's pages came to the fast node so far, and left it."""
        to, back, _ = self.sets.ask(f"moves {self.place.fast}").split()
        return int(to), int(back)


def lay_out(stage: Stage, scene: Scene) -> None:
    """Place all sets where the scene wants them, and begin to touch the hot set."""
    sets, fast, slow, hot = stage.sets, stage.place.fast, stage.place.slow, stage.hot_bytes
    stage.scene = scene
    match scene:
        case Scene.full | Scene.half:
            for number in range(4 if scene is Scene.full else 1):
                sets.place(f"hot{number}", slow, hot)
        case Scene.drift:
            sets.place("hot0", slow, 4 * hot)
        case Scene.inside:
            sets.place("hot0", fast, hot)
            stage.heat("hot0")
            for _ in range(UNLOADED):
                stage.facts.setdefault("unloaded", []).append(burst(stage))
                stage.other.free("burst")
            sets.place("scan", slow, stage.place.fast_bytes)
        case Scene.huge:
            sets.ask(f"alloc hot0 {slow} {hot} thp")
        case Scene.big:
            sets.place("hot0", fast, stage.place.fast_bytes * 3 // 2)
        case _:
            size = stage.place.fast_bytes
            store.lay_out(sets, scene, fast, slow, size, hot)
    if scene not in FILLS_ITSELF:
        fill = probe.free_bytes(fast)
        if scene is Scene.half:
            fill -= stage.place.fast_bytes // 2
        sets.place("cold", fast, fill // PAGE * PAGE)
    stage.facts["placed"] = {
        name: sets.where(name) for name in ("hot0", *(() if scene in FILLS_ITSELF else ("cold",)))
    }


def begin(stage: Stage, first: Phase) -> None:
    """Begin to touch the hot set as the first phase wants, and put the configuration in force."""
    hot = stage.hot_bytes
    match first.name:
        case "drift":
            pages_per_s = hot * DRIFT_PER_S / PAGE
            stage.heat("hot0", f"0 {hot} drift={pages_per_s:.1f}")
        case "big-uniform":
            stage.sets.ask(f"hot hot0 {BIG_HZ} uniform")
        case "big-zipf":
            stage.sets.ask(f"hot hot0 {BIG_HZ} zipf")
        case "thp":
            stage.heat("hot0", "every=8")
        case _ if first.skew is not None:
            stage.read_store(first, seed=1)
        case _:
            stage.heat("hot0")
    stage.sets.ask(f"track {stage.place.fast}")
    began_s = time.monotonic()
    seen: list[tuple[float, probe.Counters]] = []

    def look() -> None:
        seen.append((time.monotonic() - began_s, probe.counters()))

    look()
    stage.contender.start(look)
    took_s = time.monotonic() - began_s
    look()
    stage.facts["start_s"] = round(took_s, 1)
    stage.facts["start"] = [
        [round(at - took_s, 2), c.moved_pages - seen[0][1].moved_pages - _reclaimed(seen[0][1], c)]
        for at, c in seen
    ]
    if stage.contender.oracle:
        oracle(stage, first)


def _reclaimed(before: probe.Counters, after: probe.Counters) -> int:
    return after.reclaimed_pages - before.reclaimed_pages


def oracle(stage: Stage, now: Phase, number: int = 1) -> None:
    """Move what is hot now up, and as much cold memory down, both at the cap."""
    cap, hot, place = stage.contender.cap, stage.hot_bytes, stage.place
    down = "cold" if not now.chained else f"hot{number - 1}"
    if now.name == "drift":
        length = hot + int(hot * DRIFT_PER_S * now.bound_s) // PAGE * PAGE
        stage.sets.ask(f"move cold {place.slow} {cap} 0 {length}")
    elif now.name != "half-empty":
        stage.sets.ask(f"move {down} {place.slow} {cap} 0 {hot}")
    stage.sets.ask(f"move {stage.hot} {place.fast} {cap} 0 {hot}")


def follow(stage: Stage, elapsed_s: float) -> None:
    """Have the oracle move a drifting hot part up two seconds before it is touched."""
    length = stage.hot_bytes * DRIFT_PER_S * (elapsed_s + 2)
    end = stage.hot_bytes + int(length) // PAGE * PAGE
    stage.sets.ask(f"move hot0 {stage.place.fast} {stage.contender.cap} 0 {end}")


@dataclass(slots=True)
class Recorder:
    """The series of one phase. Pages are counted from its beginning."""

    stage: Stage
    base: probe.Counters = field(default_factory=probe.counters)
    moves: tuple[int, int] = (0, 0)
    kdamonds: Spent = field(default_factory=lambda: Spent(probe.cpu_s(probe.kdamonds())))
    daemon: Spent = field(init=False)
    began_s: float = field(default_factory=time.monotonic)
    columns: dict[str, list[Any]] = field(default_factory=dict)
    trace: list[list[Any]] = field(default_factory=list)
    others_pages: int = 0

    def __post_init__(self) -> None:
        self.moves = self.stage.moves()
        self.daemon = Spent(probe.cpu_s(self.stage.contender.pids()))
        self.stage.sets.ask(f"latency {self.stage.hot}")

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self.began_s

    def sample(self, number: int) -> float:
        """Append one row. Return the share of the hot accesses that reach the fast node."""
        stage, at_s = self.stage, self.elapsed_s
        now, (to, back), hit = probe.counters(), stage.moves(), stage.hit_share()
        row = {
            "t": round(at_s, 1),
            "hit": round(hit, 4),
            "free_kib": probe.free_bytes(stage.place.fast) >> 10,
            "moved": now.moved_pages - self.base.moved_pages,
            "up": to - self.moves[0],
            "down": back - self.moves[1],
            "numab": now.numab_pages - self.base.numab_pages,
            "reclaimed": now.reclaimed_pages - self.base.reclaimed_pages,
        }
        for name, value in row.items():
            self.columns.setdefault(name, []).append(value)
        if number % SELDOM == 0:
            # This includes tierd's own memory. It is new and hot, and moves like any other.
            self.others_pages += stage.others_gone()
            self._account()
            quotas = {quota.action: quota for quota in probe.quotas()}
            pair = [quotas.get("migrate_hot"), quotas.get("migrate_cold")]
            if any(pair):
                told = [[q.effective_bytes, q.applied_bytes] if q else [None, None] for q in pair]
                self.trace.append([round(at_s, 1), *told[0], *told[1]])
        return hit

    def ended(self) -> dict[str, Any]:
        now, contender = probe.counters(), self.stage.contender
        self._account()
        counts = self.stage.sets.ask(f"latency {self.stage.hot}").split()
        names = ("requests", "p50_ns", "p99_ns", "max_ns")
        return {
            "series": self.columns,
            "trace": self.trace,
            "seconds": round(self.elapsed_s, 1),
            "stalls": now.stalls - self.base.stalls,
            "direct": now.direct_pages - self.base.direct_pages,
            "others_pages": self.others_pages,
            "kdamond_cpu_s": self.kdamonds.total_s(expected=contender.has_kdamonds),
            "daemon_cpu_s": self.daemon.total_s(expected=contender.daemon is not None),
            "latency": dict(zip(names, map(int, counts), strict=True)),
        }

    def _account(self) -> None:
        self.kdamonds = self.kdamonds.seen(probe.cpu_s(probe.kdamonds()))
        self.daemon = self.daemon.seen(probe.cpu_s(self.stage.contender.pids()))


def change(stage: Stage, now: Phase, number: int) -> None:
    """Change the workload for a phase that runs in the same boot as the phase before it."""
    if now.skew is not None:
        stage.read_store(now, seed=2)
        return
    stage.sets.ask(f"cold {stage.hot}")
    if now.name == "shift":
        stage.heat(f"hot{number}")
        if stage.contender.oracle:
            oracle(stage, now, number)


def run_phase(stage: Stage, now: Phase, number: int) -> dict[str, Any]:
    """Run one phase once, until its bound, or until some time after the hot set has arrived."""
    if now.chained:
        change(stage, now, number)
    if now.name in {"scan", "burst"}:
        time.sleep(CALM_S)
        stage.others_gone()
    recorder = Recorder(stage)
    extra: dict[str, Any] = {} if stage.best is None else {"best": stage.best}
    if now.name == "scan":
        stage.sets.ask(f"hot scan {SCAN_BYTES_PER_S / stage.place.fast_bytes:.4f}")
        stage.hot = "hot0"
    end_s = now.bound_s
    count = 0
    while (elapsed_s := recorder.elapsed_s) < end_s:
        arrived = recorder.sample(count) >= ARRIVED
        if arrived and now.settle_s is not None and end_s == now.bound_s:
            # The phase shows what happens after the arrival too, even if that takes longer than
            # its bound.
            end_s = elapsed_s + now.settle_s
        happen(stage, now, count, extra)
        count += 1
        time.sleep(max(0.0, SAMPLE_S * count - recorder.elapsed_s))
    recorder.sample(0)
    if now.name == "drift":
        extra["drifted_bytes"] = int(stage.hot_bytes * DRIFT_PER_S * recorder.elapsed_s)
    if now.name == "scan":
        extra["scanned_up"] = stage.sets.where("scan").get(stage.place.fast, 0)
    return {**recorder.ended(), **extra}


def happen(stage: Stage, now: Phase, count: int, extra: dict[str, Any]) -> None:
    """Do what a phase does besides touching memory, after `count` samples."""
    at_s = count * SAMPLE_S
    match now.name:
        case "drift" if stage.contender.oracle and at_s % 1 == 0:
            follow(stage, at_s)
        case "restart" if at_s == KILL_S:
            stage.contender.kill()
        case "restart" if at_s == KILL_S + AGAIN_S:
            stage.contender.again()
        case "scan" if at_s == 2 * stage.place.fast_bytes / SCAN_BYTES_PER_S // SAMPLE_S * SAMPLE_S:
            stage.sets.ask("cold scan")
        case "burst" if at_s % BURST_S == 0:
            extra.setdefault("bursts", []).append(burst(stage))
        case "burst" if at_s % BURST_S == BURST_HELD_S:
            stage.other.free("burst")
        case _:
            return


def burst(stage: Stage) -> dict[str, Any]:
    """Fault in a tenth of the fast node as fast as possible.

    Return how long the faults took, and how many of the pages are on the fast node.
    """
    stage.other.ask(f"alloc burst - {stage.place.fast_bytes // 10} timed")
    count, p50, p99, most = map(int, stage.other.ask("latency burst").split())
    fast = stage.other.where("burst").get(stage.place.fast, 0)
    return {"faults": count, "p50_ns": p50, "p99_ns": p99, "max_ns": most, "fast": fast}


def run(stage: Stage, phases: tuple[Phase, ...]) -> dict[str, Any]:
    """Run all phases of a timeline. Return what was seen, by the names of their repeats."""
    contender.quiet()
    Path("/proc/sys/vm/drop_caches").write_text("3")
    lay_out(stage, phases[0].scene)
    stage.facts["free_kib"] = probe.free_bytes(stage.place.fast) >> 10
    stage.others_gone()
    begin(stage, phases[0])
    found: dict[str, Any] = {}
    for now in phases:
        for number, name in enumerate(phase.trials(now), start=1):
            found[name] = run_phase(stage, now, number)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workload", type=Path, required=True, help="built from workload.c")
    parser.add_argument("--configuration", choices=configuration.BY_NAME, required=True)
    parser.add_argument("--phases", required=True, help="of one timeline, with commas")
    parser.add_argument("--cap", type=int, default=configuration.CAP_BYTES_PER_S)
    parser.add_argument("--here", action="store_true", help="this is a machine, not a guest")
    arguments = parser.parse_args()
    if not arguments.here:
        require_guest()
    phases = tuple(phase.BY_NAME[name] for name in arguments.phases.split(","))
    chosen = configuration.BY_NAME[arguments.configuration]
    where = place.find(RealSysfs())
    with tempfile.TemporaryDirectory(prefix="tierd-bench.") as scratch:
        running = Contender(chosen, where, Path(scratch), arguments.cap)
        sets, other = (WorkloadSets(arguments.workload, Path(scratch)) for _ in range(2))
        stage = Stage(where, running, sets, other)
        try:
            found = run(stage, phases)
        finally:
            running.stop()
            sets.close()
            other.close()
        sys.stderr.write(running.log())
    told = {"phases": found, "facts": stage.facts, "hot_bytes": stage.hot_bytes}
    nodes = {key: value for key, value in asdict(where).items() if key != "ranges"}
    print(json.dumps({**told, "cap": arguments.cap, **nodes}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
