"""When the bandwidth of a fast node is the limit, seen by how late it answers. Pure.

Memory is promoted because a fast node answers sooner. The more is read there, the later it answers.
When it answers no sooner than the slower node, one more page there helps nobody (Colloid).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import inf

from tierd.machine.sample import Latency
from tierd.plans.plan import Direction, Migration

# The median of so many readings counts. One reading in twenty is spoiled by an interrupt.
READINGS = 5

# A difference between the nodes is known when so many readings in a row show it. On a busy host
# one reading in six showed it of nodes that are alike, so chance does that once in a million.
KNOWN_READINGS = 8

# Readings go on for so many seconds after more came up than this share of the rate limit. Promotion
# by page comes and goes, and a median needs several readings.
QUIET_S = 10.0
COMES_SHARE = 0.01

# A slower node must have answered so many times as late before anything is concluded. Machines
# have 1.7 (DRAM of another socket) to 4 (Optane). Nodes that are alike, as those of most virtual
# machines, are never known to, so promotion to them never stops for this reason.
APART = 1.5

# Promotion stops when the fast node takes as long as the slower one, and goes on when it takes this
# part of it. Between both lies more than two medians differ by chance.
AGAIN = 0.9


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

    @property
    def matters(self) -> bool:
        """Whether it should be read: while memory comes up, or was stopped for it."""
        return self.is_late or self.quiet_s < QUIET_S

    @property
    def fast_ns(self) -> float:
        return _median(fast for fast, _ in self.readings_ns)

    @property
    def slow_ns(self) -> float:
        return _median(slow for _, slow in self.readings_ns)


def asked(
    migrations: Iterable[Migration], known: Mapping[int, Answers]
) -> dict[int, tuple[int, ...]]:
    """Return the slower nodes of each fast node whose latency matters now."""
    found: dict[int, set[int]] = {}
    for one in migrations:
        node = one.target_node
        if one.direction is Direction.promote and known.get(node, Answers()).matters:
            found.setdefault(node, set()).add(one.source_node)
    return {node: tuple(sorted(slower)) for node, slower in sorted(found.items())}


def learn(
    before: Mapping[int, Answers],
    read: Iterable[Latency],
    comes: Mapping[int, bool],
    seconds: float,
) -> dict[int, Answers]:
    """Return what is known of each fast node after so many seconds with some readings.

    `comes` says of each whether memory came up to it.
    """
    known = {
        node: replace(one, quiet_s=0.0 if came else one.quiet_s + seconds)
        for node, came in comes.items()
        for one in (before.get(node, Answers()),)
    }
    by_fast: dict[int, dict[int, float]] = {}
    for one in read:
        by_fast.setdefault(one.near, {})[one.node] = one.ns
    for fast, found in by_fast.items():
        slower = [ns for node, ns in found.items() if node != fast]
        if fast in found and slower:
            known[fast] = _judged(known.get(fast, Answers()), found[fast], min(slower))
    return known


def _judged(before: Answers, fast_ns: float, slow_ns: float) -> Answers:
    readings = (*before.readings_ns, (fast_ns, slow_ns))[-READINGS:]
    apart = before.apart + 1 if slow_ns >= APART * fast_ns else 0
    now = replace(before, readings_ns=readings, apart=apart)
    if len(readings) < READINGS:
        return now
    idle_ns = now.idle_ns
    if now.apart >= KNOWN_READINGS:
        idle_ns = now.fast_ns if idle_ns is None else min(idle_ns, now.fast_ns)
    return replace(now, idle_ns=idle_ns, is_late=_is_late(now, idle_ns))


def _median(values: Iterable[float]) -> float:
    """Return the value in the middle; there is an odd number of them."""
    ordered = sorted(values)
    return ordered[len(ordered) // 2]


def _is_late(now: Answers, idle_ns: float | None) -> bool:
    if idle_ns is None:
        return False
    # What is read from a cache is as quick on both nodes, and quicker than memory without load.
    limit_ns = max(now.slow_ns, APART * idle_ns)
    return now.fast_ns >= limit_ns * (AGAIN if now.is_late else 1.0)
