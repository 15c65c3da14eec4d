"""`tierd simulate` in words and as JSON. Pure."""

from collections.abc import Iterator, Sequence
from textwrap import wrap
from typing import TypedDict

from tierd.frozen import dataclass
from tierd.profile.curve import Guess, Point
from tierd.units import format_size

SCHEMA = "tierd.simulate/1"

# The shares of its time for which a program waits for memory, for the modelled slowdown.
STALL_SHARES = (1.0, 0.5)

METHOD = (
    "Shares are of the touches that DAMON can see, at most one of a page in 50 ms, and that no "
    "cache of a processor answers, if the record says how large these are. Rows marked "
    "`sim` ran tierd's own loop on a simulated kernel; the others lie between these, along the "
    "curve of the best placement. The interval is meant to hold nine of ten (docs/simulate.md)."
)


@dataclass(frozen=True, slots=True)
class Costs:
    """What memory costs per GiB, and how long it takes to answer."""

    fast_ns: int
    slow_ns: int
    fast_price: float | None = None
    slow_price: float | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """The whole answer."""

    about: str
    in_use_bytes: int
    needs_bytes: tuple[tuple[float, int], ...]
    """Shares of the touches, and how much memory has them."""
    points: tuple[Point, ...]
    knee: int | None
    """The index of the knee; None if one size was asked for."""
    target: float | None
    """The share that was asked for."""
    least_bytes: int | None
    """The least fast memory for it; None if no size is enough, or none was asked for."""
    costs: Costs
    doubt: str = ""
    """Why the record is trusted less than one of single pages; empty if it is not."""


def slowdown(served: float, stall_share: float, costs: Costs) -> float:
    """Return how many times as long a program takes, if it waits for memory in this share of it."""
    return 1 + stall_share * (1 - served) * (costs.slow_ns - costs.fast_ns) / costs.fast_ns


def price(row: Point, costs: Costs) -> float | None:
    if costs.fast_price is None or costs.slow_price is None:
        return None
    gib = 1 << 30
    return row.fast_bytes / gib * costs.fast_price + row.slow_bytes / gib * costs.slow_price


def all_fast_price(row: Point, costs: Costs) -> float | None:
    if costs.fast_price is None:
        return None
    return (row.fast_bytes + row.slow_bytes) / (1 << 30) * costs.fast_price


def as_text(answer: Answer, columns: int) -> str:
    """Return the answer in words; what explains it is as wide as the terminal."""
    told = [*_lines(answer), *wrap(METHOD, columns)]
    return "\n".join([*told, "", *wrap(answer.doubt, columns)] if answer.doubt else told)


def _lines(answer: Answer) -> Iterator[str]:
    yield answer.about
    needs = ", ".join(f"{share:.0%} in {format_size(size)}" for share, size in answer.needs_bytes)
    yield f"its touches: {needs}"
    yield ""
    single = answer.knee is None and len(answer.points) == 1
    yield from _one(answer.points[0], answer.costs) if single else _table(answer)
    if answer.target is not None:
        yield ""
        yield _least(answer)
    yield ""


def _least(answer: Answer) -> str:
    if answer.least_bytes is None:
        return f"No size of fast memory serves {answer.target:.1%}."
    row = next(row for row in answer.points if row.fast_bytes == answer.least_bytes)
    text = f"For {answer.target:.1%} the least fast memory is {format_size(answer.least_bytes)}"
    return f"{text}: {_share(row.guess)}." + (
        f" But it cannot be told: {row.cannot_tell}." if row.cannot_tell else ""
    )


def _one(row: Point, costs: Costs) -> Iterator[str]:
    yield f"{format_size(row.fast_bytes)} of fast and {format_size(row.slow_bytes)} of slow memory:"
    if row.cannot_tell:
        yield f"  CANNOT TELL            {row.cannot_tell}"
    yield f"  served by fast memory  {_share(row.guess)}; {row.best:.1%} at best"
    if row.worst_minute is not None:
        yield f"  in the worst minute    {row.worst_minute:.1%}"
    if row.moved_bytes_per_day is not None:
        yield f"  moved                  {format_size(round(row.moved_bytes_per_day))} a day"
    for stall in STALL_SHARES:
        times = slowdown(row.guess.served, stall, costs)
        yield (
            f"  slowdown, modelled     {times:.2f} times, of a program that waits for memory "
            f"{stall:.0%} of its time"
        )
    yield f"                         ({costs.fast_ns} ns for fast, {costs.slow_ns} ns for slow)"
    cost, whole = price(row, costs), all_fast_price(row, costs)
    if cost is not None and whole is not None:
        yield f"  price                  {cost:,.0f}, and {whole:,.0f} if all of it were fast"


def _share(guess: Guess) -> str:
    return f"{guess.served:.1%} ({guess.low:.0%} to {guess.high:.0%})"


def _table(answer: Answer) -> Iterator[str]:
    priced = answer.costs.fast_price is not None and answer.costs.slow_price is not None
    heads = ["fast", "slow", "served", "interval", "best", "worst", "moved/day", "slowdown"]
    heads += ["price"] if priced else []
    heads.append("")
    rows = [heads]
    for number, row in enumerate(answer.points):
        cells = [
            format_size(row.fast_bytes),
            format_size(row.slow_bytes),
            f"{row.guess.served:.1%}",
            f"{row.guess.low:.0%}-{row.guess.high:.0%}",
            f"{row.best:.1%}",
            "-" if row.worst_minute is None else f"{row.worst_minute:.0%}",
            "-" if row.moved_bytes_per_day is None else format_size(round(row.moved_bytes_per_day)),
            f"{slowdown(row.guess.served, 1.0, answer.costs):.2f}x",
        ]
        cost = price(row, answer.costs)
        cells += [f"{cost:,.0f}"] if cost is not None else []
        marks = [
            "sim" if row.simulated else "",
            "knee" if number == answer.knee else "",
            f"cannot tell: {row.cannot_tell}" if row.cannot_tell else "",
        ]
        rows.append([*cells, ", ".join(filter(None, marks))])
    yield from _aligned(rows)
    costs = answer.costs
    yield ""
    yield (
        f"The slowdown is modelled: of a program that does nothing but wait for memory of "
        f"{costs.fast_ns} and {costs.slow_ns} ns."
    )


def _aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    for row in rows:
        cells = [cell.rjust(width) for cell, width in zip(row, widths, strict=False)]
        yield "  ".join([*cells, row[-1]]).rstrip()


class RowDocument(TypedDict):
    """One size of fast memory."""

    fast_bytes: int
    slow_bytes: int
    served_ratio: float
    """The share that fast memory serves of the touches that reach memory."""
    served_low_ratio: float
    served_high_ratio: float
    best_ratio: float
    """What a perfect placement would serve."""
    simulated: bool
    """True if tierd's loop ran at this size; else the figures lie between those of other sizes."""
    worst_minute_ratio: float | None
    moved_bytes_per_day: float | None
    modelled_slowdown_ratio: float
    """Of a program that does nothing but wait for memory; modelled, not measured."""
    price: float | None
    cannot_tell: str
    """Why the figures cannot be trusted; empty if they can."""


class Document(TypedDict):
    """What a machine of another size would do."""

    schema: str
    about: str
    in_use_bytes: int
    fast_ns: int
    slow_ns: int
    target_ratio: float | None
    least_fast_bytes: int | None
    """The least fast memory for the target."""
    knee_fast_bytes: int | None
    """The size from which more fast memory helps less."""
    sizes: list[RowDocument]
    method: str
    doubt: str
    """Why the record is trusted less than one of single pages; empty if it is not."""


def as_document(answer: Answer) -> Document:
    return {
        "schema": SCHEMA,
        "about": answer.about,
        "in_use_bytes": answer.in_use_bytes,
        "fast_ns": answer.costs.fast_ns,
        "slow_ns": answer.costs.slow_ns,
        "target_ratio": answer.target,
        "least_fast_bytes": answer.least_bytes,
        "knee_fast_bytes": None if answer.knee is None else answer.points[answer.knee].fast_bytes,
        "sizes": [_row(row, answer.costs) for row in answer.points],
        "method": METHOD,
        "doubt": answer.doubt,
    }


def _row(row: Point, costs: Costs) -> RowDocument:
    return {
        "fast_bytes": row.fast_bytes,
        "slow_bytes": row.slow_bytes,
        "served_ratio": round(row.guess.served, 4),
        "served_low_ratio": round(row.guess.low, 4),
        "served_high_ratio": round(row.guess.high, 4),
        "best_ratio": round(row.best, 4),
        "simulated": row.simulated,
        "worst_minute_ratio": None if row.worst_minute is None else round(row.worst_minute, 4),
        "moved_bytes_per_day": row.moved_bytes_per_day,
        "modelled_slowdown_ratio": round(slowdown(row.guess.served, 1.0, costs), 4),
        "price": price(row, costs),
        "cannot_tell": row.cannot_tell,
    }
