"""The file of a profile: JSON lines, a header and then one line for each stretch of minutes. Pure.

There are no addresses, no names and no paths in it. Memory is in 1/10000 of its tier, so a line
says as much about a large machine as about a small one, and takes as little room.
"""

import json
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, TypedDict

from tierd.errors import TierdError
from tierd.frozen import dataclass
from tierd.profile.panel import DISTANCES, LAGS, Kept
from tierd.profile.rates import CLASSES, CLOSE_CLASSES
from tierd.record import fields
from tierd.units import BP_MAX

SCHEMA = "tierd.profile/1"

# A year of lines of one minute is as much as anybody records.
LINES_MAX = 366 * 1440
LINE_CHARS_MAX = 4096
TIERS_MAX = 16
MINUTES_MAX = 366 * 1440
COUNT_MAX = 1 << 32
FILE_BYTES_MAX = 64 << 20

# Profiles without the size of a page were made before it was written, nearly all on machines with
# pages of 4 KiB.
PAGE_BYTES_UNSAID = 4096

HINT = "`tierd record FILE` makes one; schema/profile.schema.json describes it"


NONE_KEPT = Kept()


class Source(StrEnum):
    """Who counted the touches. Another source would be trusted less, and has another name."""

    panel = "panel"
    """Single pages, each watched by itself (`tierd record`)."""
    sensors = "sensors"
    """Regions, as the schemes of the daemon that only count have counted them."""
    damon_stat = "damon_stat"
    """Regions, as the kernel's module damon_stat has counted them (`record --damon-stat`)."""


@dataclass(frozen=True, slots=True)
class Header:
    """What all lines of a profile have in common."""

    source: Source
    began_at: float
    """Seconds since the epoch, a whole minute."""
    tier_bytes: tuple[int, ...]
    """The memory of each tier, the fastest first."""
    pages: int
    """How many pages stand for the machine; 0 if none were watched one by one."""
    cache_bytes: int = 0
    """The caches of all processors that are the last before memory; 0 if that is not known."""
    page_bytes: int = PAGE_BYTES_UNSAID


@dataclass(frozen=True, slots=True)
class Line:
    """Some minutes that were alike. Shares are of the memory of a tier, or of the machine."""

    minute: int
    """Minutes since the beginning."""
    minutes: int
    heat: tuple[tuple[float, ...], ...]
    """For each tier: the share of its memory in each class of `rates`."""
    used: tuple[float, ...]
    """For each tier: the share of its memory that is in use."""
    idle: tuple[float | None, ...] = (None,) * len(LAGS)
    """The share of all memory that was not touched for 2, 4 and 10 minutes; free memory too."""
    lasting: tuple[Kept, ...] = (NONE_KEPT,) * len(LAGS)
    hot: Kept = NONE_KEPT
    near: tuple[Kept, ...] = (NONE_KEPT,) * len(DISTANCES)
    close: tuple[int, ...] = ()
    """Of the hottest pages: how many a closer look found in each of its classes; or nothing."""
    alloc_bytes_per_s: int = 0
    pressure: float = 0.0
    """The share of the time in which some task waited for memory."""
    major_faults_per_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Profile:
    """A whole profile."""

    header: Header
    lines: tuple[Line, ...]

    @property
    def minutes(self) -> int:
        return sum(line.minutes for line in self.lines)


class HeaderDocument(TypedDict):
    """The first line of a profile."""

    schema: str
    source: Source
    began_at: float
    """When it began, in seconds since the epoch, as a whole minute."""
    tier_bytes: list[int]
    """The memory of each tier, the fastest first."""
    pages: int
    """How many pages stand for the machine; 0 if none were watched one by one."""
    cache_bytes: int
    """The caches of all processors that are the last before memory; 0 if that is not known."""
    page_bytes: int
    """The size of a page. Without it, pages have 4096 bytes."""
    bounds_hz: list[float]
    """The bounds between the classes of heat, in touches of a page per second."""


class LineDocument(TypedDict):
    """Some minutes that were alike, as one line of a profile."""

    m: int
    """Minutes since the beginning."""
    n: int
    """How many minutes."""
    h: list[list[int]]
    """Heat: for each tier the memory in each class, coldest first, in 1/10000 of the tier."""
    u: list[int]
    """For each tier the memory in use, in 1/10000 of the tier."""
    i: list[int | None]
    """Memory that was idle for 2, 4 and 10 minutes, in 1/10000 of all; null if not known."""
    l: list[list[int]]  # noqa: E741 - a name of one letter is one byte in each line
    """Lasting: of so many pages that were hot 1, 3 and 9 minutes before, so many are hot now."""
    x: list[list[int]]
    """Of so many pages so many are hot: of all pages, and of those whose mate is hot, where the
    mate is 64 KiB, 1 MiB and 16 MiB away."""
    c: list[int]
    """Pages of the hottest class that were looked at more closely: how many are touched less than
    28, 50, 90, 160, 280 and 500 times per second, and how many more often; empty if none were."""
    a: int
    """Memory that is allocated, in bytes per second."""
    p: int
    """Memory pressure, in 1/10000 of the time."""
    f: float
    """Major faults per second."""


def header_text(header: Header, bounds_hz: Iterable[float]) -> str:
    document: HeaderDocument = {
        "schema": SCHEMA,
        "source": header.source,
        "began_at": header.began_at,
        "tier_bytes": list(header.tier_bytes),
        "pages": header.pages,
        "cache_bytes": header.cache_bytes,
        "page_bytes": header.page_bytes,
        "bounds_hz": list(bounds_hz),
    }
    return json.dumps(document)


def line_text(line: Line) -> str:
    document: LineDocument = {
        "m": line.minute,
        "n": line.minutes,
        "h": [_bps(tier) for tier in line.heat],
        "u": _bps(line.used),
        "i": [None if one is None else round(one * BP_MAX) for one in line.idle],
        "l": [[one.before, one.now] for one in line.lasting],
        "x": [[one.before, one.now] for one in (line.hot, *line.near)],
        "c": list(line.close),
        "a": line.alloc_bytes_per_s,
        "p": round(line.pressure * BP_MAX),
        "f": round(line.major_faults_per_s, 1),
    }
    return json.dumps(document, separators=(",", ":"))


def _bps(shares: Iterable[float]) -> list[int]:
    return [round(share * BP_MAX) for share in shares]


class NoProfile(TierdError):
    """A text is no profile."""


def parse(name: str, text: str) -> Profile:
    """Return the profile in a text; `name` is how errors call it."""
    head, _, rest = text.partition("\n")
    lines = [line for line in rest.splitlines() if line]
    if len(lines) > LINES_MAX:
        raise NoProfile(f"{name}: more than {LINES_MAX} lines", HINT)
    try:
        header = _header(fields.document(head[:LINE_CHARS_MAX]))
    except (ValueError, KeyError, TypeError) as error:
        raise NoProfile(f"{name}:1: not the header of a profile: {error!r}", HINT) from error
    found: list[Line] = []
    for number, line in enumerate(lines, 2):
        try:
            found.append(_line(fields.document(line), len(header.tier_bytes)))
        except (ValueError, KeyError, TypeError) as error:
            # A recorder that was killed may have left half a line at the end.
            if number == len(lines) + 1 and not text.endswith("\n"):
                break
            raise NoProfile(f"{name}:{number}: not a line of a profile: {error!r}", HINT) from error
    return Profile(header, tuple(found))


def _header(raw: Mapping[str, Any]) -> Header:
    if raw["schema"] != SCHEMA:
        raise ValueError(f"its schema is {raw['schema']!r}, expected {SCHEMA!r}")
    tiers = tuple(fields.whole(one) for one in fields.rows(raw["tier_bytes"], TIERS_MAX))
    if not tiers or not all(tiers):
        raise ValueError("a tier without memory")
    page_bytes = fields.whole(raw.get("page_bytes", PAGE_BYTES_UNSAID))
    if not page_bytes:
        raise ValueError("pages without a size")
    return Header(
        Source(fields.name(raw["source"])),
        fields.seconds(raw["began_at"]),
        tiers,
        fields.whole(raw["pages"], COUNT_MAX),
        fields.whole(raw.get("cache_bytes", 0)),
        page_bytes,
    )


def _line(raw: Mapping[str, Any], tiers: int) -> Line:
    heat = tuple(_shares(one, CLASSES) for one in _list(raw["h"], tiers))
    hot, *near = (_kept(one) for one in _list(raw["x"], 1 + len(DISTANCES)))
    minutes = fields.whole(raw["n"], MINUTES_MAX)
    if not minutes:
        raise ValueError("a line of no minutes")
    return Line(
        minute=fields.whole(raw["m"], MINUTES_MAX),
        minutes=minutes,
        heat=heat,
        used=_shares(raw["u"], tiers),
        idle=tuple(None if one is None else _share(one) for one in _list(raw["i"], len(LAGS))),
        lasting=tuple(_kept(one) for one in _list(raw["l"], len(LAGS))),
        hot=hot,
        near=tuple(near),
        close=_close(raw.get("c", [])),
        alloc_bytes_per_s=fields.whole(raw["a"]),
        pressure=_share(raw["p"]),
        major_faults_per_s=fields.seconds(raw["f"]),
    )


def _close(raw: object) -> tuple[int, ...]:
    return tuple(fields.whole(one, COUNT_MAX) for one in _list(raw, CLOSE_CLASSES)) if raw else ()


def _list(raw: object, count: int) -> list[Any]:
    found = fields.rows(raw, count)
    if len(found) != count:
        raise ValueError(f"expected {count} entries, found {len(found)}")
    return found


def _shares(raw: object, count: int) -> tuple[float, ...]:
    return tuple(_share(one) for one in _list(raw, count))


def _share(raw: object) -> float:
    # Shares that were rounded may add up to a little more than all.
    return fields.whole(raw, BP_MAX + 1) / BP_MAX


def _kept(raw: object) -> Kept:
    before, now = (fields.whole(one, COUNT_MAX) for one in _list(raw, 2))
    if now > before:
        raise ValueError("more pages are left than there were")
    return Kept(before, now)
