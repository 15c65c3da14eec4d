"""A DAMON context under test: it is written, run, read and changed here.

One kdamond watches the memory of one node. Intervals are short so that a behaviour takes seconds,
and every wait is limited by a number of looks, not by a time.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from errno import errorcode
from typing import TypeVar

from tests.contract.goal_law import Law
from tests.contract.subject import KDAMONDS, Subject, rest
from tierd.sysfs import TERMINAL_WAITS_MAX, Patience, PatientSysfs, Sysfs, SysfsError

T = TypeVar("T")

KDAMOND = f"{KDAMONDS}/0"
CONTEXT = f"{KDAMOND}/contexts/0"
OTHER_KDAMOND = f"{KDAMONDS}/1"
NUMA_BALANCING = "proc/sys/kernel/numa_balancing"

UINT_MAX = 2**32 - 1
ULONG_MAX = 2**64 - 1
PAGE = 4096
MIB = 2**20

# Ten samples in an aggregation: few enough for a short tick, and what a commit converts through
# basis points comes back exactly.
SAMPLE_US = 5_000
AGGR_US = 50_000
# So rarely that a first time is seen before there is a second.
SELDOM_US = 1_000_000

# The two nodes that every machine of the suite has. The slow one has no CPUs: nothing lives there
# but what a behaviour puts there.
FAST = 0
SLOW = 1

LOOK_S = 0.05
LOOKS_MAX = 600


class NeverHappened(AssertionError):
    """A behaviour waited for something that did not happen within the limit."""


@dataclass(frozen=True, slots=True)
class Goal:
    """A quota goal; as user_input of target 10000 its current value is the score."""

    current_value: int = 10_000
    target_value: int = 10_000
    metric: str = "user_input"
    nid: int | None = None

    def files(self) -> Iterator[tuple[str, str]]:
        yield "target_metric", self.metric
        yield "target_value", str(self.target_value)
        yield "current_value", str(self.current_value)
        if self.nid is not None:
            yield "nid", str(self.nid)


@dataclass(frozen=True, slots=True)
class Scheme:
    """A scheme; by default it takes every region. None means that the file is not written."""

    action: str = "stat"
    target_nid: int = -1
    accesses_min: int = 0
    accesses_max: int = UINT_MAX
    age_min: int = 0
    apply_us: int = AGGR_US
    bytes: int = 0
    reset_ms: int = 0
    goals: tuple[Goal, ...] = ()
    goal_tuner: str | None = None
    fail_charge: tuple[int, int] | None = None
    # Whether watermarks let it act. None means that it has none.
    active: bool | None = None
    # What a page has to be, and what it must not be: filters that reject the others, or those.
    only: str | None = None
    never: str | None = None
    # Further filters that reject, after those two: type and `matching`.
    rejects: tuple[tuple[str, str], ...] = ()

    def files(self) -> Iterator[tuple[str, str]]:
        yield "action", self.action
        yield "target_nid", str(self.target_nid)
        yield "apply_interval_us", str(self.apply_us)
        yield "access_pattern/sz/max", str(ULONG_MAX)
        yield "access_pattern/nr_accesses/min", str(self.accesses_min)
        yield "access_pattern/nr_accesses/max", str(self.accesses_max)
        yield "access_pattern/age/min", str(self.age_min)
        yield "access_pattern/age/max", str(UINT_MAX)
        yield "quotas/bytes", str(self.bytes)
        yield "quotas/reset_interval_ms", str(self.reset_ms)
        if self.goal_tuner is not None:
            yield "quotas/goal_tuner", self.goal_tuner
        if self.fail_charge is not None:
            yield "quotas/fail_charge_num", str(self.fail_charge[0])
            yield "quotas/fail_charge_denom", str(self.fail_charge[1])
        yield "quotas/goals/nr_goals", str(len(self.goals))
        for index, goal in enumerate(self.goals):
            for name, value in goal.files():
                yield f"quotas/goals/{index}/{name}", value
        if self.active is not None:
            yield "watermarks/metric", "free_mem_rate"
            yield "watermarks/interval_us", str(AGGR_US)
            # The part of memory that is free, in permil, is never more than all, and never none.
            for name in ("high", "mid"):
                yield f"watermarks/{name}", "1000" if self.active else "0"
            yield "watermarks/low", "0"
        filters = [(kind, how) for kind, how in ((self.only, "N"), (self.never, "Y")) if kind]
        filters += self.rejects
        yield "filters/nr_filters", str(len(filters))
        for index, (kind, matching) in enumerate(filters):
            yield f"filters/{index}/type", kind
            yield f"filters/{index}/matching", matching

    def scored(self, *scores: int) -> "Scheme":
        """With user_input goals of these scores."""
        return replace(self, goals=tuple(Goal(score) for score in scores))


# Takes every region at every tick, and does nothing: what it has tried tells how often.
COUNTER = Scheme()

# Grows by a fifth at each tick: its value tells how many have passed. It fits no
# region and so changes none: a quota splits regions, and what other schemes count with them.
TICKER_SCORE = 8_000
TICKER_TICKS_MAX = 190
TICKER = Scheme(accesses_min=1_000_000).scored(TICKER_SCORE)


@dataclass(frozen=True, slots=True)
class Stats:
    """A scheme's counters, of all that every series has."""

    nr_tried: int
    sz_tried: int
    nr_applied: int
    sz_applied: int
    qt_exceeds: int


@dataclass(frozen=True, slots=True)
class TriedRegion:
    """A region as update_schemes_tried_regions shows it."""

    start: int
    end: int
    nr_accesses: int
    age: int


def _ticks_shown() -> dict[int, int]:
    """The quota that the ticker shows, and the first tick at which it shows it."""
    law, first = Law(TICKER_SCORE), {0: 0}
    for tick in range(1, TICKER_TICKS_MAX):
        law = law.tick()
        first.setdefault(law.effective_bytes, tick)
    return first


_TICKS_SHOWN = _ticks_shown()


@dataclass(slots=True)
class Context:
    """The running context of a machine's only kdamond."""

    subject: Subject
    ranges: tuple[tuple[int, int], ...]
    schemes: tuple[Scheme, ...] = ()
    kdamond: str = KDAMOND

    @property
    def sysfs(self) -> Sysfs:
        """The subject's files, asked again where they are busy."""
        return patient(self.subject)

    @property
    def folder(self) -> str:
        """Where the kdamond's only context is staged."""
        return f"{self.kdamond}/contexts/0"

    @property
    def size_bytes(self) -> int:
        """How much memory is watched."""
        return sum(end - start for start, end in self.ranges)

    @property
    def pid(self) -> int:
        return int(self.sysfs.read(f"{self.kdamond}/pid"))

    def command(self, word: str) -> None:
        self.sysfs.write(f"{self.kdamond}/state", word)

    def look(self) -> None:
        """Wait for the time of one look."""
        self.subject.clock.sleep(LOOK_S)

    def stage(self, *schemes: Scheme) -> None:
        """Write the schemes' files; if the number of schemes changes, all are created again."""
        self._stage_file(f"{self.folder}/schemes/nr_schemes", str(len(schemes)))
        for index, scheme in enumerate(schemes):
            for name, value in scheme.files():
                self._stage_file(f"{self.folder}/schemes/{index}/{name}", value)
        self.schemes = schemes

    def commit(self, *schemes: Scheme) -> None:
        self.stage(*schemes)
        self.command("commit")

    def commit_goals(self, *schemes: Scheme) -> None:
        self.stage(*schemes)
        self.command("commit_schemes_quota_goals")

    def effective(self) -> tuple[int, ...]:
        """Return the effective quota of each scheme in bytes, all from one moment."""
        self.command("update_schemes_effective_quotas")
        return tuple(
            self._number(f"schemes/{index}/quotas/effective_bytes")
            for index in range(len(self.schemes))
        )

    def stats(self) -> tuple[Stats, ...]:
        """Return the counters of each scheme, all from one moment."""
        self.command("update_schemes_stats")
        return tuple(
            Stats(
                *(
                    self._number(f"schemes/{index}/stats/{name}")
                    for name in ("nr_tried", "sz_tried", "nr_applied", "sz_applied", "qt_exceeds")
                )
            )
            for index in range(len(self.schemes))
        )

    def tried_regions(self, index: int) -> tuple[TriedRegion, ...]:
        """Return the regions that a scheme tries in its next interval."""
        sysfs, folder = self.sysfs, f"{self.folder}/schemes/{index}/tried_regions"
        self.command("update_schemes_tried_regions")
        numbers = sorted(int(name) for name in sysfs.listdir(folder) if name.isdigit())
        return tuple(
            TriedRegion(
                *(
                    int(sysfs.read(f"{folder}/{number}/{name}"))
                    for name in ("start", "end", "nr_accesses", "age")
                )
            )
            for number in numbers
        )

    def applied(self, index: int = 0) -> int:
        """How often the COUNTER at that index was applied.

        From 7.2 on this is too much where the quota of a later scheme splits regions.
        """
        return self.stats()[index].sz_tried // self.size_bytes

    def ticks(self) -> int:
        """At least how many ticks the TICKER, which is the first scheme, has seen."""
        return _TICKS_SHOWN[self.effective()[0]]

    def until(self, happened: Callable[[], T]) -> T:
        """Look until it has happened, is true or not zero; what it is then."""
        for _ in range(LOOKS_MAX):
            if now := happened():
                return now
            self.look()
        raise NeverHappened(f"in {LOOKS_MAX} looks")

    def after_ticks(self, more: int) -> None:
        """Wait until the TICKER, which is the first scheme, has seen so many ticks more."""
        goal = self.ticks() + more
        self.until(lambda: self.ticks() >= goal)

    def _number(self, name: str) -> int:
        return int(self.sysfs.read(f"{self.folder}/{name}"))

    def _stage_file(self, path: str, value: str) -> None:
        # Writing nr_* makes its objects anew and with them loses what was staged in them.
        name = path.rpartition("/")[2]
        if name.startswith("nr_") and self.sysfs.read(path) == value:
            return
        self.sysfs.write(path, value)


@contextmanager
def running(
    subject: Subject,
    nid: int,
    *schemes: Scheme,
    aggr_us: int = AGGR_US,
    intervals_goal: dict[str, int] | None = None,
    last_page_alone: bool = False,
) -> Iterator[Context]:
    """Run a context on the memory of a node; remove it at the end."""
    with _kdamonds(subject, 1):
        ranges = node_ranges(patient(subject), nid)
        context = Context(subject, last_alone(ranges) if last_page_alone else ranges)
        _prepare(context, aggr_us, intervals_goal or {})
        context.stage(*schemes)
        context.command("on")
        yield context


@contextmanager
def side_by_side(
    subject: Subject, nid: int, first: Sequence[Scheme], second: Sequence[Scheme]
) -> Iterator[tuple[Context, Context]]:
    """Run two kdamonds on the memory of one node; remove them at the end."""
    with _kdamonds(subject, 2):
        ranges = node_ranges(patient(subject), nid)
        one, other = Context(subject, ranges), Context(subject, ranges, kdamond=OTHER_KDAMOND)
        for context, schemes in ((one, first), (other, second)):
            _prepare(context, AGGR_US, {})
            context.stage(*schemes)
        for context in (one, other):
            context.command("on")
        yield one, other


@contextmanager
def _kdamonds(subject: Subject, count: int) -> Iterator[None]:
    """Create kdamonds and remove them at the end; NUMA balancing is off meanwhile."""
    sysfs = patient(subject)
    # NUMA balancing moves what a processor touches to its own node, a second after it began.
    balancing = sysfs.read(NUMA_BALANCING)
    sysfs.write(NUMA_BALANCING, "0")
    sysfs.write(f"{KDAMONDS}/nr_kdamonds", str(count))
    try:
        yield
    finally:
        rest(subject)
        sysfs.write(NUMA_BALANCING, balancing)


def _prepare(context: Context, aggr_us: int, intervals_goal: dict[str, int]) -> None:
    """Write all files of a context that is off, except its schemes."""
    sysfs, folder = context.sysfs, context.folder
    sysfs.write(f"{context.kdamond}/contexts/nr_contexts", "1")
    sysfs.write(f"{folder}/operations", "paddr")
    intervals = f"{folder}/monitoring_attrs/intervals"
    sysfs.write(f"{intervals}/sample_us", str(SAMPLE_US))
    sysfs.write(f"{intervals}/aggr_us", str(aggr_us))
    for name, number in intervals_goal.items():
        sysfs.write(f"{intervals}/intervals_goal/{name}", str(number))
    _watch(context)


def patient(subject: Subject) -> Sysfs:
    """The subject's files, asked again where they are busy."""
    return PatientSysfs(subject.sysfs, Patience.by(subject.clock, TERMINAL_WAITS_MAX))


def _watch(context: Context) -> None:
    sysfs = context.sysfs
    sysfs.write(f"{context.folder}/targets/nr_targets", "1")
    folder = f"{context.folder}/targets/0/regions"
    sysfs.write(f"{folder}/nr_regions", str(len(context.ranges)))
    for index, (start, end) in enumerate(context.ranges):
        sysfs.write(f"{folder}/{index}/start", str(start))
        sysfs.write(f"{folder}/{index}/end", str(end))


def node_ranges(sysfs: Sysfs, nid: int) -> tuple[tuple[int, int], ...]:
    """The node's memory blocks as ranges of physical addresses, merged."""
    block_bytes = int(sysfs.read("sys/devices/system/memory/block_size_bytes"), 16)
    names = sysfs.listdir(f"sys/devices/system/node/node{nid}")
    blocks = sorted(
        int(name.removeprefix("memory"))
        for name in names
        if name.startswith("memory") and name[6:].isdigit()
    )
    ranges: list[tuple[int, int]] = []
    for block in blocks:
        start, end = block * block_bytes, (block + 1) * block_bytes
        if ranges and ranges[-1][1] == start:
            start = ranges.pop()[0]
        ranges.append((start, end))
    return tuple(ranges)


def last_alone(ranges: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
    """Return the ranges with a hole of a page before their last page.

    Regions are never merged over a hole. So the last region stays a single page.
    """
    start, end = ranges[-1]
    return (*ranges[:-1], (start, end - 2 * PAGE), (end - PAGE, end))


def node_kib(sysfs: Sysfs, nid: int, name: str) -> int:
    """A line of the node's meminfo, in KiB."""
    for line in sysfs.read(f"sys/devices/system/node/node{nid}/meminfo").splitlines():
        _, _, key, value, *_ = line.split()
        if key == f"{name}:":
            return int(value)
    raise AssertionError(f"node {nid} has no {name}")


def node_events(sysfs: Sysfs, nid: int) -> dict[str, int]:
    """The node's own vmstat: counters in pages and events."""
    text = sysfs.read(f"sys/devices/system/node/node{nid}/vmstat")
    return {name: int(value) for name, value in map(str.split, text.splitlines())}


def events(sysfs: Sysfs) -> dict[str, int]:
    """The machine's vmstat."""
    text = sysfs.read("proc/vmstat")
    return {name: int(value) for name, value in map(str.split, text.splitlines())}


def refusal_or(observe: Callable[[], str]) -> str:
    """Return what is observed, or the errno if the kernel does not know it."""
    try:
        return observe()
    except SysfsError as error:
        return errorcode[error.errno]
