"""When the bandwidth of a fast node is the limit, seen by how late it answers. Pure.

Memory is promoted because a fast node answers sooner. The more is read there, the later it answers.
When it answers no sooner than the slower node, one more page there helps nobody (Colloid), and
`relief` brings some of its hot pages down.
"""

from collections.abc import Container, Iterable, Mapping
from math import inf

from tierd.frozen import dataclass, replace
from tierd.machine.sample import Latency
from tierd.plans.plan import Direction, Migration

# The median of so many readings counts. One reading in twenty is spoiled by an interrupt.
READINGS = 5

# A difference between the nodes is known when so many readings in a row show it. On a busy host
# one reading in six showed it of nodes that are alike, so chance does that once in a million.
KNOWN_READINGS = 8

# Whether nodes differ is best seen before much memory comes up. So after the start so many readings
# are made of them, within so many seconds, unless the difference is known sooner.
LEARN_READINGS = 4 * KNOWN_READINGS
LEARN_S = 600.0

# Readings go on for so many seconds after more came up than this share of the rate limit. Promotion
# by page comes and goes, and a median needs several readings.
QUIET_S = 10.0
COMES_SHARE = 0.01

# A slower node must have answered so many times as late before anything is concluded. Machines
# have 1.7 (DRAM of another socket) to 4 (Optane). Nodes that are alike, as those of most virtual
# machines, are never known to, so promotion to them never stops for this reason.
APART = 1.5

# Promotion stops when the fast node takes as long as the slower one, and goes on when it takes this
# part of it. Between both lies more than two medians differ by chance. If pages went down for this,
# it goes on only when the slower node takes APART times as long: else those pages would come up
# again, and go down again.
AGAIN = 0.9

# Programs may begin to use the bandwidth of a node long after their memory came up. So nodes that
# are known to differ are read for one median every so many seconds: 8 ms of a processor a minute.
LOOK_S = 60.0


@dataclass(frozen=True, slots=True)
class Answers:
    """How late a fast node answers, beside the quickest node that its memory comes up from."""

    readings_ns: tuple[tuple[float, float], ...] = ()
    """The latest ones, of both at a time."""
    apart: int = 0
    """How many readings in a row showed that the slower node answers far later."""
    idle_ns: float | None = None
    """What the fast node takes without much load: the least that was seen while the slower one
    was known to answer far later. None if that was never known."""
    is_late: bool = False
    quiet_s: float = inf
    """Seconds since memory came up."""
    is_relieved: bool = False
    """Whether hot pages went down since it is late."""
    read: int = 0
    """How many readings there were."""
    known_s: float = 0.0
    """Seconds since the node is known."""
    looked: int = 0
    """How many there were when the last look began, while no memory came up."""
    unlooked_s: float = 0.0
    """Seconds since then."""

    @property
    def matters(self) -> bool:
        """Whether it should be read: while memory comes up, or was stopped for it, at the start, or
        at a look."""
        return self.is_late or self.quiet_s < QUIET_S or self.learns or self.looks

    @property
    def learns(self) -> bool:
        """Whether it should be read to know if the nodes differ."""
        lacks = self.read < LEARN_READINGS and self.known_s < LEARN_S
        return self.idle_ns is None and lacks

    @property
    def looks(self) -> bool:
        """Whether a look is under way. It ends without a median where nothing can be read."""
        lacks = self.read < self.looked + READINGS
        return self.idle_ns is not None and lacks and self.unlooked_s < LOOK_S / 2

    @property
    def excess(self) -> float:
        """How much of the time that it takes is more than the slower node takes: 0 if it is not
        known to be late."""
        if not self.is_late:
            return 0.0
        return max(0.0, 1.0 - _limit_ns(self) / self.fast_ns)

    @property
    def fast_ns(self) -> float:
        return _median(fast for fast, _ in self.readings_ns)

    @property
    def slow_ns(self) -> float:
        return _median(slow for _, slow in self.readings_ns)


NO_ANSWERS = Answers()
"""What is known of a node before its first reading."""


def asked(
    migrations: Iterable[Migration], known: Mapping[int, Answers]
) -> dict[int, tuple[int, ...]]:
    """Return the slower nodes of each fast node whose latency matters now."""
    found: dict[int, set[int]] = {}
    for one in migrations:
        node = one.target_node
        if one.direction is Direction.promote and known.get(node, NO_ANSWERS).matters:
            found.setdefault(node, set()).add(one.source_node)
    return {node: tuple(sorted(slower)) for node, slower in sorted(found.items())}


def learn(
    before: Mapping[int, Answers],
    read: Iterable[Latency],
    comes: Mapping[int, bool],
    seconds: float,
    relieved: Container[int] = (),
) -> dict[int, Answers]:
    """Return what is known of each fast node after so many seconds with some readings.

    `comes` says of each whether memory came up to it, and `relieved` where hot pages went down.
    """
    known = {
        node: _later(before.get(node, NO_ANSWERS), seconds, came=came, relieved=node in relieved)
        for node, came in comes.items()
    }
    by_fast: dict[int, dict[int, float]] = {}
    for one in read:
        by_fast.setdefault(one.near, {})[one.node] = one.ns
    for fast, found in by_fast.items():
        slower = [ns for node, ns in found.items() if node != fast]
        if fast in found and slower:
            known[fast] = _judged(known.get(fast, NO_ANSWERS), found[fast], min(slower))
    return known


def _later(before: Answers, seconds: float, *, came: bool, relieved: bool) -> Answers:
    now = replace(
        before,
        quiet_s=0.0 if came else before.quiet_s + seconds,
        is_relieved=before.is_late and (before.is_relieved or relieved),
        known_s=before.known_s + seconds,
        unlooked_s=before.unlooked_s + seconds,
    )
    if now.unlooked_s < LOOK_S:
        return now
    return replace(now, looked=now.read, unlooked_s=0.0)


def _judged(before: Answers, fast_ns: float, slow_ns: float) -> Answers:
    readings = (*before.readings_ns, (fast_ns, slow_ns))[-READINGS:]
    apart = before.apart + 1 if slow_ns >= APART * fast_ns else 0
    now = replace(before, readings_ns=readings, apart=apart, read=before.read + 1)
    if len(readings) < READINGS:
        return now
    if now.apart >= KNOWN_READINGS:
        least_ns = now.fast_ns if now.idle_ns is None else min(now.idle_ns, now.fast_ns)
        now = replace(now, idle_ns=least_ns)
    return replace(now, is_late=_is_late(now))


def _median(values: Iterable[float]) -> float:
    """Return the value in the middle; there is an odd number of them."""
    ordered = sorted(values)
    return ordered[len(ordered) // 2]


def _is_late(now: Answers) -> bool:
    if not now.is_late:
        return now.fast_ns >= _limit_ns(now)
    return now.fast_ns >= _limit_ns(now) * (1 / APART if now.is_relieved else AGAIN)


def _limit_ns(now: Answers) -> float:
    """Return what a fast node takes that is late: never, if it was not known to be quicker."""
    if now.idle_ns is None:
        return inf
    # What is read from a cache is as quick on both nodes, and quicker than memory without load.
    return max(now.slow_ns, APART * now.idle_ns)
