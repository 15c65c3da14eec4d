"""Make a load for the simulated machine from a profile. Pure.

A day has too many minutes to simulate. The minutes are put in order by how much fast memory they
need, and the calm half, the busy part and the worst hundredth become one stretch each.
"""

from collections.abc import Iterable, Iterator, Sequence
from math import ceil, inf, log

from tierd.frozen import dataclass, replace
from tierd.profile import cached, seldom
from tierd.profile.load import Heat, Load, Stretch, Work, ordered
from tierd.profile.panel import DISTANCES, HOT_SHARE, LAGS, LOOKS, Kept
from tierd.profile.profile import PAGE_BYTES_UNSAID, Line, Profile, Source
from tierd.profile.rates import (
    AGGR_US,
    BOUNDS_HZ,
    CLASSES,
    CLOSE_BOUNDS_HZ,
    CLOSE_TOUCHES_HZ,
    HOTTEST,
    LEAST_HOT_HZ,
    TOUCHES_HZ,
)
from tierd.units import format_size

# The parts of the time, in the order of what they need, that become one stretch each.
EDGES = (0.5, 0.9, 0.99, 1.0)
# What is meant by need: the memory that has this share of the touches.
NEED_SHARE = 0.9
# Stretches whose needs differ by less than this are one.
SAME_NEED = 0.1

# Where the profile has fewer pairs of hot pages than this, it does not say how heat is scattered.
PAIRS_MIN = 20
# Memory lies together at a distance if a page beside a hot page is more often hot than not, beyond
# what chance would do.
TOGETHER = 0.5
# The sizes of pieces of which memory up to each of DISTANCES lies together.
PIECES = (256 << 10, 4 << 20, 64 << 20)

# Where fewer hot pages were followed for some minutes, their drift is not known.
FOLLOWED_MIN = 50

# Where fewer of the hottest pages were looked at more closely, it is not known how hot they are.
CLOSE_MIN = 20

# Each class of heat is cut into so many, because its pages are not all alike.
CUTS = 3

# How much memory is in a class is known if so many pages of it were seen: within a quarter.
SEEN_MIN = 20

# The tail of very hot pages: each part is so many times as hot as the one before, and there are so
# many at most. A tail falls by a power of the rate; outside of these bounds of the power there is
# none, or it holds so little that it does not matter.
TAIL_STEP = 2.0
TAIL_STEPS = 12
TAIL_POWERS = (0.5, 2.5)


SOURCES = {
    Source.panel: "single pages",
    Source.sensors: "regions, by tierd's sensors",
    Source.damon_stat: "regions, by damon_stat",
}

# If a region has so many touches a second, its sensor counts more than chance (`sensor_patterns`),
# at the usual interval. A region with fewer touches may count as another class in the next moment.
SURE_HZ = 16.0

# Where regions were counted: the size of pieces of equal heat. A region of a large machine is
# larger, and is that of a middle one.
REGION_PIECE_BYTES = PIECES[1]

DOUBT = (
    "Regions were counted, not single pages. The lower end of the interval is true if all memory "
    "of a region is equally warm, the upper end if a few pages of it have all touches. `tierd "
    "record` counts single pages."
)


def work(profile: Profile, name: str) -> Work:
    """Return the work that a profile shows, without the touches that caches answer."""
    found, size = _touched(profile, name), profile.header.cache_bytes
    if not size:
        return found

    def each(stretches: Sequence[Stretch], used: float = cached.USED_MIDDLE) -> tuple[Stretch, ...]:
        return tuple(
            replace(one, load=replace(one.load, cached_s=cached.kept_s(one.load.heats, size, used)))
            for one in stretches
        )

    return replace(
        found,
        stretches=each(found.stretches),
        capped=each(found.capped),
        level=each(found.level),
        dense=each(found.dense),
        cached=tuple(each(found.stretches, used) for used in cached.USED_ENDS),
    )


def _touched(profile: Profile, name: str) -> Work:
    """Return the work that a profile shows, as if each touch reached memory."""
    source = profile.header.source
    stretches = tuple(_stretches(profile, tail=source is Source.panel))
    most = max(one.load.bytes for one in stretches)
    hours = profile.minutes / 60
    length = f"{hours:.0f} h" if hours >= 2 else f"{profile.minutes} minutes"
    found = Work(
        about=f"{name}: {length} of {SOURCES[source]}, {format_size(round(most))} in use",
        stretches=stretches,
        minutes=profile.minutes,
    )
    if source is Source.panel:
        capped = tuple(_stretches(profile, tail=False))
        panels = ceil(profile.minutes / LOOKS)
        return replace(
            found,
            pages=profile.header.pages * panels or None,
            capped=() if capped == stretches else capped,
        )
    # damon_stat tells for how long memory was idle, and the sensors only that it is now.
    idle_is_sure = source is Source.damon_stat
    return replace(
        found,
        level=tuple(Stretch(level(one.load, idle_is_sure), one.share) for one in stretches),
        dense=tuple(Stretch(dense(one.load), one.share) for one in stretches),
        doubt=DOUBT,
    )


def level(load: Load, idle_is_sure: bool) -> Load:
    """Return the load if all heat that is not sure is spread evenly over memory."""
    sure = [one for one in load.heats if one.rate_hz >= SURE_HZ]
    idle = [one for one in load.heats if not one.rate_hz and idle_is_sure]
    rest = [one for one in load.heats if one not in sure and one not in idle]
    size = sum(one.bytes for one in rest)
    mean_hz = sum(one.touches_hz for one in rest) / size if size else 0.0
    return replace(load, heats=ordered([*sure, Heat(mean_hz, size), *idle]))


def dense(load: Load) -> Load:
    """Return the load if all touches are of pages that are touched in nearly every sample."""
    top = BOUNDS_HZ[-1]
    hot = sum(min(one.bytes, one.touches_hz / top) for one in load.heats)
    return replace(load, heats=ordered([Heat(top, hot), Heat(0.0, load.bytes - hot)]))


@dataclass(frozen=True, slots=True)
class _Minute:
    """The bytes of each class on the whole machine in one line, and what it needs."""

    classes: tuple[float, ...]
    minutes: int
    idle_bytes: tuple[float | None, ...] = ()
    """Memory in use that was not touched for as many minutes as LAGS say, and one more."""

    @property
    def need_bytes(self) -> float:
        return Load(_plain(self.classes)).needed_bytes(NEED_SHARE)


def _stretches(profile: Profile, *, tail: bool) -> Iterator[Stretch]:
    lines = sorted(
        (_minute(line, profile.header.tier_bytes) for line in profile.lines),
        key=lambda one: one.need_bytes,
    )
    piece = piece_bytes(profile.lines, profile.header.page_bytes)
    drift = drift_per_minute(profile.lines)
    close = close_shares(profile.lines)
    seen = profile.header.pages * ceil(profile.minutes / LOOKS)
    whole = sum(profile.header.tier_bytes)
    # Pairs of a panel say how the hottest pages lie, and regions are pieces all of them.
    share = HOT_SHARE
    if profile.header.source is not Source.panel:
        piece, share = REGION_PIECE_BYTES, 1.0
    for part in _parts(lines):
        total = sum(one.minutes for one in part)
        classes = tuple(
            sum(one.classes[kind] * one.minutes for one in part) / total for kind in range(CLASSES)
        )
        each = whole * profile.minutes / (seen * total) if seen else 0.0
        rare = _seldom(part, classes) if profile.header.source is Source.panel else ()
        heats = spread(
            classes,
            close,
            tail=tail,
            each_bytes=each,
            rare=rare,
            page_bytes=profile.header.page_bytes,
        )
        load = Load(heats, piece, share, drift)
        yield Stretch(load, total / profile.minutes)


def _minute(line: Line, tier_bytes: Sequence[int]) -> _Minute:
    classes = [
        sum(tier[kind] * size for tier, size in zip(line.heat, tier_bytes, strict=True))
        for kind in range(CLASSES)
    ]
    used = sum(share * size for share, size in zip(line.used, tier_bytes, strict=True))
    # Free memory is not touched either.
    classes[0] = max(0.0, used - sum(classes[1:]))
    whole = sum(tier_bytes)
    idle = tuple(
        None if one is None else max(0.0, one * whole - (whole - used)) for one in line.idle
    )
    return _Minute(tuple(classes), line.minutes, idle)


def _seldom(part: Sequence[_Minute], classes: Sequence[float]) -> tuple[Heat, ...]:
    """Return the memory of the two coldest classes by how often it is touched.

    Nothing if it was not watched for more than a minute.
    """
    look_s = AGGR_US / 1e6
    seen = [(look_s, classes[1])]
    left = classes[0]
    for number, lag in enumerate(LAGS):
        known = [(one.idle_bytes[number], one.minutes) for one in part]
        told = [(size, minutes) for size, minutes in known if size is not None]
        if not told:
            break
        mean = sum(size * minutes for size, minutes in told) / sum(m for _, m in told)
        idle = min(left, mean)
        seen.append(((lag + 1) * look_s, left - idle))
        left = idle
    return seldom.split([*seen, (inf, left)]) if len(seen) > 1 else ()


def _parts(lines: Sequence[_Minute]) -> Iterator[list[_Minute]]:
    """Yield the lines of each stretch. Neighbours that need about as much are one stretch."""
    total = sum(one.minutes for one in lines)
    parts: list[list[_Minute]] = [[] for _ in EDGES]
    passed = 0
    for one in lines:
        middle = (passed + one.minutes / 2) / total
        parts[next(n for n, edge in enumerate(EDGES) if middle <= edge)].append(one)
        passed += one.minutes
    pending: list[_Minute] = []
    for part in filter(None, parts):
        if pending and _need(part) > (1 + SAME_NEED) * _need(pending):
            yield pending
            pending = []
        pending = [*pending, *part]
    yield pending


def _need(part: Sequence[_Minute]) -> float:
    total = sum(one.minutes for one in part)
    return sum(one.need_bytes * one.minutes for one in part) / total


def _plain(classes: Sequence[float]) -> tuple[Heat, ...]:
    return ordered(Heat(rate, size) for rate, size in zip(TOUCHES_HZ, classes, strict=True))


def spread(
    classes: Sequence[float],
    close: Sequence[float] = (),
    *,
    tail: bool = True,
    each_bytes: float = 0.0,
    rare: Sequence[Heat] = (),
    page_bytes: int = PAGE_BYTES_UNSAID,
) -> tuple[Heat, ...]:
    """Return the heats of memory in classes: each class is cut into a few, by its neighbours.

    `close` has the shares of the hottest class in each class of the closer look, if they are known.
    Without `tail` the hottest pages are only as hot as they must be. `each_bytes` is how much
    memory a page that was seen stands for: where few were seen, the tail begins below them. `rare`
    is what is known better of the two coldest classes. No part of a tail is less than a page.
    """
    begin, power = _tail_begin(classes, each_bytes) if tail else (HOTTEST, 0.0)
    heats = list(rare) or [Heat(0.0, classes[0])]
    for kind in range(2 if rare else 1, begin):
        low = BOUNDS_HZ[kind - 2] if kind > 1 else TOUCHES_HZ[1] / 2
        high = BOUNDS_HZ[kind - 1]
        before = classes[kind - 1] if kind > 1 else classes[kind]
        heats += _cut(classes[kind], before, classes[kind + 1], low, high)
    top, least_hz = sum(classes[begin:]), BOUNDS_HZ[begin - 2]
    if close and begin == HOTTEST:
        parts = [top * share for share in close]
        heats += map(Heat, CLOSE_TOUCHES_HZ[:-1], parts[:-1])
        top, least_hz = parts[-1], CLOSE_BOUNDS_HZ[-1]
        power = _power(parts[-2], top, CLOSE_BOUNDS_HZ[-2:]) if tail else 0.0
        heats += _tail(top, least_hz, power, page_bytes) or [
            Heat(CLOSE_TOUCHES_HZ[-1] if tail else least_hz, top)
        ]
    else:
        # A page that is touched at even intervals may be touched no more than once per sample.
        heats += _tail(top, least_hz, power, page_bytes) or [
            Heat(TOUCHES_HZ[HOTTEST] if tail else LEAST_HOT_HZ, top)
        ]
    return ordered(heats)


def close_shares(lines: Sequence[Line]) -> tuple[float, ...]:
    """Return the share of the hottest memory in each class of the closer look.

    Nothing if too few pages were looked at.
    """
    counts = [sum(one) for one in zip(*(line.close for line in lines if line.close), strict=True)]
    total = sum(counts)
    return tuple(one / total for one in counts) if total >= CLOSE_MIN else ()


def _cut(size: float, before: float, after: float, low: float, high: float) -> Iterator[Heat]:
    if not size:
        return
    # More of the class is near the neighbour that has more.
    slope = max(-1.0, min(1.0, (after - before) / (after + before + size)))
    for cut in range(CUTS):
        place = (cut + 0.5) / CUTS
        rate = low * (high / low) ** place
        yield Heat(rate, size / CUTS * (1 + 2 * slope * (place - 0.5)))


def _tail_begin(classes: Sequence[float], each_bytes: float) -> tuple[int, float]:
    """Return the lowest class of the tail, and by which power of the rate memory falls in it.

    The tail begins with the hottest class above which enough pages were seen. Of a store's few
    hottest pages a panel sees one or none, and they have many of the touches.
    """
    for kind in range(HOTTEST, 1, -1):
        if sum(classes[kind:]) < SEEN_MIN * each_bytes:
            continue
        if kind == HOTTEST:
            break
        power = _falling(classes[kind:])
        return (kind, power) if _is_tail(power) else (HOTTEST, 0.0)
    return HOTTEST, _power(classes[HOTTEST - 1], classes[HOTTEST], BOUNDS_HZ[-2:])


def _falling(classes: Sequence[float]) -> float:
    """Return the most likely power of a tail that was seen in these classes; 0 if it has none.

    The classes are equally wide on a logarithmic scale, so of the memory that reaches one always
    the same share reaches the next one. The last class is open.
    """
    went_on = sum(number * size for number, size in enumerate(classes))
    ended = sum(classes[:-1])
    if not went_on or not ended:
        return 0.0
    return log((went_on + ended) / went_on) / log(BOUNDS_HZ[-1] / BOUNDS_HZ[-2])


def _power(below: float, top: float, edges: Sequence[float]) -> float:
    """Return the power by which memory falls between a class and all above it; 0 if not known."""
    return log((top + below) / top) / log(edges[1] / edges[0]) if top and below else 0.0


def _is_tail(power: float) -> bool:
    return TAIL_POWERS[0] <= power <= TAIL_POWERS[1]


def _tail(top: float, least_hz: float, power: float, page_bytes: int) -> list[Heat]:
    """Return memory that is touched this often and more, or nothing if its power is not a tail's.

    Its rates are too high to be seen, or were seen of too few pages, so they follow those below.
    In a store whose heat falls by Zipf's law a few pages have much of all touches.
    """
    found: list[Heat] = []
    if not _is_tail(power):
        return found
    for step in range(TAIL_STEPS):
        rate, here = least_hz * TAIL_STEP**step, top * TAIL_STEP ** (-power * step)
        beyond = here * TAIL_STEP**-power
        if step == TAIL_STEPS - 1 or beyond < page_bytes:
            return [*found, Heat(rate, here)]
        found.append(Heat(rate * TAIL_STEP**0.5, here - beyond))
    return found


def piece_bytes(lines: Sequence[Line], page_bytes: int = PAGE_BYTES_UNSAID) -> int:
    """Return the size of the pieces in which hot memory lies; 0 if it is scattered by page."""
    hot = _summed(line.hot for line in lines).share or 0.0
    found = 0
    for number, (distance, piece) in enumerate(zip(DISTANCES, PIECES, strict=True)):
        if distance <= page_bytes:
            continue
        near = _summed(line.near[number] for line in lines)
        if near.before < PAIRS_MIN or near.share is None or hot >= 1:
            break
        if (near.share - hot) / (1 - hot) < TOGETHER:
            break
        found = piece
    return found


def drift_per_minute(lines: Sequence[Line]) -> float:
    """Return the share of hot memory that cools down in each minute, as far as it is known."""
    # Some pages leave the hot ones by chance within a minute. The rest of the loss is drift.
    first = _summed(line.lasting[0] for line in lines)
    for number in range(len(LAGS) - 1, 0, -1):
        later = _summed(line.lasting[number] for line in lines)
        if later.before >= FOLLOWED_MIN and first.share and later.share is not None:
            kept = min(1.0, later.share / first.share)
            return float(1.0 - kept ** (1 / (LAGS[number] - LAGS[0])))
    return 0.0


def _summed(counts: Iterable[Kept]) -> Kept:
    total = Kept()
    for one in counts:
        total = total.plus(one)
    return total
