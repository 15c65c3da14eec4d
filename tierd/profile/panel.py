"""A panel: single pages of the machine, picked at random, each watched as a region. Pure.

A region of one page cannot be split, and is not merged with one that does not touch it. So DAMON
counts the touches of each page by itself. The panel stands for all memory, as a
few thousand people stand for a country: what share of it is hot, for how long pages stay hot, and
whether the pages beside a hot page are hot too.

Addresses are in the panel only. What is kept of a look are sums.
"""

from collections.abc import Iterable, Mapping, Sequence
from random import Random

from tierd.frozen import dataclass
from tierd.profile.rates import (
    CLASSES,
    CLOSE_CLASSES,
    HOTTEST,
    TOUCHES_HZ,
    class_of,
    close_class_of,
    rate_hz,
)
from tierd.ranges import Range, merge
from tierd.topology import Topology

# How many pages stand for the machine. The share of hot memory is then right within 3 percent of
# all memory in one minute, and more exact with each new panel.
PAGES = 1024
# Of each node at least so many, in pairs.
PAIRS_MIN = 32

# The distances between the two pages of a pair, in bytes: a few pages, and what programs and the
# kernel allocate in one piece. Two pages of 64 KiB at the first distance would touch.
DISTANCES = (64 << 10, 1 << 20, 16 << 20)

# A panel is watched for so many minutes, then a new one is picked.
LOOKS = 10

# So many pages of the hottest class are looked at more closely, once in the time of a panel. They
# then cost as many samples a second as the whole panel does.
CLOSE_PAGES = 100

# In how many looks before this one a page was hot, or idle.
LAGS = (1, 3, 9)

# The hottest pages that have this share of all touches together are called hot.
HOT_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class Pair:
    """Two pages at a distance; the second one is None where it would lie outside of the node."""

    tier: int
    first: int
    second: int | None
    distance: int

    @property
    def pages(self) -> tuple[int, ...]:
        return (self.first,) if self.second is None else (self.first, self.second)


@dataclass(frozen=True, slots=True)
class Panel:
    """The pages of a panel in the order of their addresses, and what each stands for."""

    pairs: tuple[Pair, ...]
    pages: tuple[int, ...]
    """Addresses, rising. No two pages touch."""
    weight_bytes: tuple[float, ...]
    """How much memory each page stands for."""
    page_bytes: int

    @property
    def ranges(self) -> tuple[Range, ...]:
        return tuple(Range(page, page + self.page_bytes) for page in self.pages)


def pick(topology: Topology, rng: Random, pages: int = PAGES) -> Panel:
    """Return a new panel of about so many pages. Each page of the machine is equally likely."""
    total = sum(node.size_bytes for node in topology.nodes)
    pairs: list[Pair] = []
    weights: dict[int, float] = {}
    taken: set[int] = set()
    distances = [one for one in DISTANCES if one > topology.page_bytes]
    for node in topology.nodes:
        ranges = merge(node.ranges)
        size = sum(part.size_bytes for part in ranges)
        count = max(PAIRS_MIN, pages // 2 * node.size_bytes // total)
        mine: list[int] = []
        for number in range(count):
            # One in each equal part of the node: such a sample varies less.
            offset = int((number + rng.random()) * size / count)
            distance = distances[number % len(distances)]
            first = _page_at(ranges, offset, topology.page_bytes)
            second = first + distance
            both = [
                page
                for page in (first, second)
                if _is_free(page, topology.page_bytes, ranges, taken)
            ]
            if first not in both:
                continue
            pairs.append(
                Pair(topology.rank_of(node.id), first, second if second in both else None, distance)
            )
            taken.update(both)
            mine += both
        # Memory that the kernel keeps for itself is in the ranges and not in the size.
        weights |= {page: node.size_bytes / len(mine) for page in mine}
    ordered = tuple(sorted(weights))
    weighed = tuple(weights[page] for page in ordered)
    return Panel(tuple(pairs), ordered, weighed, topology.page_bytes)


def closer(panel: Panel, hits: Sequence[int], samples: int, rng: Random) -> Panel | None:
    """Return pages of the hottest class, for a closer look; None if there is none."""
    hottest = [
        place for place, one in enumerate(hits) if class_of(rate_hz(one, samples)) == HOTTEST
    ]
    chosen = sorted(rng.sample(hottest, min(CLOSE_PAGES, len(hottest))))
    if not chosen:
        return None
    return Panel(
        (),
        tuple(panel.pages[place] for place in chosen),
        tuple(panel.weight_bytes[place] for place in chosen),
        panel.page_bytes,
    )


def close_counts(hits: Iterable[int]) -> tuple[int, ...]:
    """Return how many pages of a closer look are in each of its classes."""
    found = [0] * CLOSE_CLASSES
    for one in hits:
        found[close_class_of(one)] += 1
    return tuple(found)


def _page_at(ranges: Sequence[Range], offset: int, page_bytes: int) -> int:
    """Return the address of the page that is so many bytes into the ranges."""
    for part in ranges:
        if offset < part.size_bytes:
            return (part.start + offset) // page_bytes * page_bytes
        offset -= part.size_bytes
    raise AssertionError("an offset beyond the ranges")


def _is_free(page: int, page_bytes: int, ranges: Iterable[Range], taken: set[int]) -> bool:
    """Return whether a page may join: it is in the ranges, and touches no other of the panel."""
    inside = any(part.start <= page and page + page_bytes <= part.end for part in ranges)
    return inside and not taken & {page - page_bytes, page, page + page_bytes}


@dataclass(frozen=True, slots=True)
class Kept:
    """Of so many pages that had a property, how many have it now."""

    before: int = 0
    now: int = 0

    def plus(self, other: "Kept") -> "Kept":
        return Kept(self.before + other.before, self.now + other.now)

    @property
    def share(self) -> float | None:
        return self.now / self.before if self.before else None


@dataclass(frozen=True, slots=True)
class Look:
    """What a panel showed in one minute. There are no addresses in it."""

    heat_bytes: Mapping[int, tuple[float, ...]]
    """For each tier: the bytes of each class of `rates`."""
    idle_bytes: tuple[float | None, ...]
    """The bytes that were not touched in this look nor in the last 1, 3, 9; None if not known."""
    lasting: tuple[Kept, ...]
    """Of the pages that were hot 1, 3 and 9 looks ago: how many are hot now, or nearly."""
    hot: Kept
    """Of all pages: how many are hot."""
    near: tuple[Kept, ...]
    """Of the pages whose mate is hot, at each of DISTANCES: how many are hot."""


@dataclass(frozen=True, slots=True)
class Memory:
    """What is remembered of a panel from look to look."""

    hot: tuple[frozenset[int], ...] = ()
    """The hot pages of each look so far."""
    idle: tuple[int, ...] = ()
    """In how many looks in a row each page was not touched."""


def look(panel: Panel, hits: Sequence[int], before: Memory, samples: int) -> tuple[Look, Memory]:
    """Return a look, and what to remember. `hits` has the touched samples of each page."""
    tiers = {page: pair.tier for pair in panel.pairs for page in pair.pages}
    classes = tuple(class_of(rate_hz(one, samples)) for one in hits)
    heat = {tier: [0.0] * CLASSES for tier in set(tiers.values())}
    for page, kind, weight in zip(panel.pages, classes, panel.weight_bytes, strict=True):
        heat[tiers[page]][kind] += weight
    idle = tuple(
        count + 1 if kind == 0 else 0
        for count, kind in zip(before.idle or (0,) * len(classes), classes, strict=True)
    )
    least = _least_hot(panel, classes)
    hot = _from(panel, classes, least)
    # Counts vary by chance, so a page at the edge of a class changes it all the time.
    nearly = _from(panel, classes, least - 1)
    found = Look(
        heat_bytes={tier: tuple(listed) for tier, listed in heat.items()},
        idle_bytes=tuple(_idle(panel, idle, lag, len(before.hot)) for lag in LAGS),
        lasting=tuple(_lasting(nearly, before.hot, lag) for lag in LAGS),
        hot=Kept(len(panel.pages), len(hot)),
        near=tuple(_near(panel, hot, distance) for distance in DISTANCES),
    )
    return found, Memory((*before.hot, hot), idle)


def _least_hot(panel: Panel, classes: Sequence[int]) -> int:
    """Return the lowest class of hot pages: so low that they have HOT_SHARE of all touches."""
    touches = [
        weight * TOUCHES_HZ[kind] for kind, weight in zip(classes, panel.weight_bytes, strict=True)
    ]
    left, least = HOT_SHARE * sum(touches), CLASSES
    while left > 0 and least > 1:
        least -= 1
        left -= sum(one for one, kind in zip(touches, classes, strict=True) if kind == least)
    return least


def _from(panel: Panel, classes: Sequence[int], least: int) -> frozenset[int]:
    found = zip(panel.pages, classes, strict=True)
    return frozenset(page for page, kind in found if kind >= max(1, least))


def _idle(panel: Panel, idle: Sequence[int], lag: int, looks_before: int) -> float | None:
    if looks_before < lag:
        return None
    weighed = zip(idle, panel.weight_bytes, strict=True)
    return sum(weight for count, weight in weighed if count > lag)


def _lasting(nearly: frozenset[int], before: Sequence[frozenset[int]], lag: int) -> Kept:
    if len(before) < lag:
        return Kept()
    then = before[-lag]
    return Kept(len(then), len(then & nearly))


def _near(panel: Panel, hot: frozenset[int], distance: int) -> Kept:
    pairs = [pair for pair in panel.pairs if pair.second is not None and pair.distance == distance]
    # Both ways: each of the two is the mate of the other.
    both = sum(pair.first in hot and pair.second in hot for pair in pairs)
    either = sum((pair.first in hot) + (pair.second in hot) for pair in pairs)
    return Kept(either, 2 * both)
