"""One screen of `tierd top`: the daemon's snapshots as lines that fit a terminal."""

from collections.abc import Callable, Sequence
from dataclasses import field

from tierd.frozen import dataclass, replace
from tierd.units import format_rate, format_size
from tierd.views import processview
from tierd.views.plots import Ink, sparkline
from tierd.views.render import event_line
from tierd.views.statusview import (
    LEGEND,
    WIDE,
    Status,
    cold_above,
    hot_below,
    node_lines,
    rate,
    scheme_lines,
    verdict,
    wrapped,
)
from tierd.views.visible import visible
from tierd.views.whoview import Entry, lines

# How many values of a trend are kept: the widest terminal shows this many.
KEPT = 200
LABEL_COLUMNS = 24
# The columns at the right end of a trend for its largest value, in a wide terminal.
MOST_COLUMNS = 16
KEYS = "q quit  space freeze  p processes  +/- speed"


@dataclass(frozen=True, slots=True)
class Trend:
    """The values that are drawn as lines over time, oldest first."""

    up: tuple[float | None, ...] = ()
    down: tuple[float | None, ...] = ()
    hot: tuple[float | None, ...] = ()
    cold: tuple[float | None, ...] = ()


@dataclass(frozen=True, slots=True)
class View:
    """What `top` remembers from one screen to the next."""

    status: Status | None = None
    trend: Trend = field(default_factory=Trend)
    trouble: str = ""
    """Why there is no newer snapshot; empty if there is one."""
    held: bool = False
    every_s: float = 1.0
    who: tuple[Entry, ...] = ()
    """The cgroups with memory, those with the most on slow nodes first."""
    by_process: bool = False
    """Whether processes are shown in place of cgroups."""
    processes: processview.Document | None = None
    """The largest processes; None if they have not been read."""
    who_trouble: str = ""
    """Why who has memory is not known; empty if it is."""


def seen(view: View, status: Status) -> View:
    """Return the view with a snapshot added; the same snapshot is not added twice."""
    if "at" not in status:
        return replace(view, trouble="the daemon is starting")
    if view.status is not None and view.status["at"] == status["at"]:
        return replace(view, trouble="")
    old = view.trend
    trend = Trend(
        up=_with(old.up, rate(status, "promote")),
        down=_with(old.down, rate(status, "demote")),
        hot=_with(old.hot, hot_below(status)),
        cold=_with(old.cold, cold_above(status)),
    )
    return replace(view, status=status, trend=trend, trouble="")


def lost(view: View, why: str) -> View:
    """Return the view when the daemon does not answer: the last snapshot and the trend stay."""
    return replace(view, trouble=why)


def _with(values: Sequence[float | None], value: float | None) -> tuple[float | None, ...]:
    return (*values, value)[-KEPT:]


def frame(view: View, now: float, columns: int, rows: int, ink: Ink) -> list[str]:
    """Return exactly `rows` lines, none wider than `columns`; the last one shows the keys.

    Both are at least 1. The rest is cut off.
    """
    if view.status is None:
        body = [
            "tierd top",
            "",
            f"waiting: {view.trouble or 'no answer yet'}",
            "",
            *_who(view, columns, rows),
        ]
    else:
        body = _body(view, view.status, now, columns, rows, ink)
    told = view.trouble and view.status is not None
    trouble = wrapped(f"!! waiting: {view.trouble}", columns) if told else []
    shown = [*trouble, *body][: rows - 1]
    shown += [""] * (rows - 1 - len(shown))
    held = "  FROZEN" if view.held else ""
    foot = f"{KEYS}  every {view.every_s:g} s{held}"
    return [visible(line, kept="")[:columns] for line in (*shown, foot)]


# Lines of a screen that the cgroups or processes leave to the rest, and how many of them are shown
# even so.
OTHER_ROWS = 22
WHO_MIN = 5


def _who(view: View, columns: int, rows: int) -> list[str]:
    """Return who has memory on slow nodes, or why that is not known."""
    if view.who_trouble:
        by = "process" if view.by_process else "cgroup"
        return wrapped(f"memory by {by}: {view.who_trouble}", columns, "  ")
    most = max(WHO_MIN, rows - OTHER_ROWS)
    if not view.by_process:
        return lines(view.who, columns, most) if view.who else []
    if view.processes is None:
        return ["  memory by process: not read yet"]
    return processview.lines(view.processes, columns, most)


def _body(view: View, status: Status, now: float, columns: int, rows: int, ink: Ink) -> list[str]:
    body = [*wrapped(verdict(status, now), columns), ""]
    body += [*node_lines(status["nodes"], columns), f"  {LEGEND}", ""]
    body += [*trend_lines(view, columns, ink, TRENDS), ""]
    who = _who(view, columns, rows)
    body += [*who, *([""] if who else []), *scheme_lines(status, columns)]
    if status["events"]:
        body += ["", "events"]
        # The newest comes first, so that old events are cut off.
        body += [f"  {event_line(event)}" for event in reversed(status["events"])]
    return body


TRENDS = ("promoted", "demoted", "hot below", "cold above")


def trend_lines(view: View, columns: int, ink: Ink, names: Sequence[str]) -> list[str]:
    """Return a line for each of these trends, in their order; no line for what is not known."""
    known = {
        "promoted": (view.trend.up, format_rate),
        "demoted": (view.trend.down, format_rate),
        "hot below": (view.trend.hot, _size),
        "cold above": (view.trend.cold, _size),
    }
    return [
        line
        for name in names
        for values, shown in [known[name]]
        for line in _trend(name, values, shown, columns, ink)
    ]


def _trend(
    name: str,
    values: Sequence[float | None],
    shown: Callable[[float], str],
    columns: int,
    ink: Ink,
) -> list[str]:
    """Return a line with the value now and the values before; no line if it is not known."""
    if not values or values[-1] is None:
        return []
    room = columns - LABEL_COLUMNS - (MOST_COLUMNS if columns >= WIDE else 0)
    if room < 1:
        return [f"  {name:<10} {shown(values[-1])}"]
    drawn = values[-room:]
    most = max((value for value in drawn if value is not None), default=0.0)
    label = f"  {name:<10} {shown(values[-1])}"
    line = f"{label:<{LABEL_COLUMNS}}{sparkline(drawn, most, ink):<{room}}"
    return [f"{line} most {shown(most)}" if columns >= WIDE else line.rstrip()]


def _size(value: float) -> str:
    return format_size(round(value))
