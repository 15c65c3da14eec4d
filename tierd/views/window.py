"""One frame of the live screen of `tierd run --demo`, and the summary at its end."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from tierd.frozen import dataclass, replace
from tierd.record.snapshot import Snapshot, document
from tierd.units import format_duration_us, format_percent, format_size
from tierd.views import screen
from tierd.views.plots import Ink, sparkline
from tierd.views.render import event_line
from tierd.views.scene import Chapter, Scene, chapters_text, told
from tierd.views.screen import LABEL_COLUMNS, View
from tierd.views.statusview import (
    BAR_CELLS_MAX,
    FREE,
    HOT,
    LEGEND,
    USED,
    Status,
    cpu_share,
    how,
    node_lines,
    wrapped,
)
from tierd.views.visible import visible
from tierd.views.whyview import goes_by_page

# The legend of bars that show where the hot data really is.
TRUE_LEGEND = f"{USED} used   {HOT} hot   {FREE} free   | headroom"


@dataclass(frozen=True, slots=True)
class Watched:
    """What was seen since the start."""

    head: str
    """What runs, and on which machine."""
    url: str | None
    view: View = field(default_factory=View)
    shares: tuple[float | None, ...] = ()
    """The share of hot data that was in fast memory, oldest first."""
    chapters: tuple[Chapter, ...] = ()
    scene: Scene | None = None
    snapshot: Snapshot | None = None
    began_s: float = 0.0
    before: tuple[int, int] = (0, 0)
    """The bytes that earlier daemons have moved up and down."""
    moved: tuple[int, int] = (0, 0)
    """The bytes that this daemon has moved up and down."""


def watched(seen: Watched, snapshot: Snapshot, scene: Scene | None, up: int, down: int) -> Watched:
    """Return what was seen, with one more snapshot. `up` and `down` are the totals of bytes."""
    first = seen.snapshot is None
    before = (up, down) if first else seen.before
    began_s = snapshot.at if first else seen.began_s
    shares, chapters = seen.shares, seen.chapters
    if scene is not None:
        shares = (*shares, scene.hot_share_fast)[-screen.KEPT :]
        chapters = told(chapters, scene, snapshot.at - began_s)
    return replace(
        seen,
        view=screen.seen(seen.view, document(snapshot)),
        shares=shares,
        chapters=chapters,
        scene=scene,
        snapshot=snapshot,
        began_s=began_s,
        before=before,
        moved=(up - before[0], down - before[1]),
    )


def frame(seen: Watched, columns: int, rows: int, ink: Ink) -> list[str]:
    """Return exactly `rows` lines, none wider than `columns`; the last one says how to stop it."""
    foot = "Ctrl-C stops it and puts everything back"
    foot = f"{seen.url}   {foot}" if seen.url else foot
    status = seen.view.status
    # Without the full stop it fits a terminal of 80 columns.
    body = [*wrapped(seen.head.rstrip("."), columns)]
    body += ["", "tierd is starting"] if status is None else _body(seen, status, columns, ink)
    body = body[: rows - 1]
    body += [""] * (rows - 1 - len(body))
    return [visible(line, kept="")[:columns] for line in (*body, foot)]


def _body(seen: Watched, status: Status, columns: int, ink: Ink) -> list[str]:
    lines = wrapped(f"{str(status['state']).upper()}: {how(status)}", columns)
    nodes, legend = status["nodes"], LEGEND
    if seen.scene is not None:
        lines += ["", *_program(seen.scene, columns)]
        if seen.scene.hot_share_fast is not None:
            hot = dict(seen.scene.hot_bytes)
            nodes = [
                {**node, "hot_bytes": hot.get(node["numa_node"], 0), "cold_bytes": None}
                for node in nodes
            ]
            legend = TRUE_LEGEND
    lines += ["", *node_lines(nodes, columns), f"  {legend}", ""]
    lines += screen.trend_lines(seen.view, columns, ink, ("promoted", "demoted"))
    if seen.scene is not None:
        lines += _shares(seen.shares, columns, ink)
    lines += ["", *_reasons(status, columns)]
    if status["events"]:
        lines += ["", "events"]
        # The newest comes first, so that old events are cut off.
        lines += [f"  {event_line(event)}" for event in reversed(status["events"])]
    return lines


def _program(scene: Scene, columns: int) -> list[str]:
    left = f"{math.ceil(scene.left_s)} s to go"
    head = f"the program, {scene.number} of {scene.acts}: {scene.act.name} ({left})"
    share = scene.hot_share_fast
    if share is None:
        fill = "nothing is hot now"
    else:
        cells = max(1, min(BAR_CELLS_MAX, columns - 45))
        full = round(share * cells)
        fill = f"hot data [{HOT * full}{FREE * (cells - full)}] {share:4.0%} is in fast memory"
    return [head, *wrapped(scene.act.about, columns, "  "), f"  {fill}"]


def _shares(shares: Sequence[float | None], columns: int, ink: Ink) -> list[str]:
    room = columns - LABEL_COLUMNS - screen.MOST_COLUMNS
    now = shares[-1] if shares else None
    label = f"  {'hot, fast':<10} {'-' if now is None else f'{now:.0%}'}"
    if room < 1:
        return [label]
    return [f"{label:<{LABEL_COLUMNS}}{sparkline(shares[-room:], 1.0, ink)}".rstrip()]


def _reasons(status: Status, columns: int) -> list[str]:
    """Return what each scheme does and why: first those that move something now, closed ones last.

    On a small screen the last ones are cut off.
    """

    def place(one: Mapping[str, Any]) -> tuple[bool, bool, bool]:
        said = one["reason"] or ""
        moves = said and one["applied_bytes_per_s"]
        return not moves, said.startswith("closed"), goes_by_page(one)

    schemes = sorted(status["schemes"], key=place)
    lines = ["what moves, and why"]
    for one in schemes:
        mark = ">" if one["applied_bytes_per_s"] else " "
        lines += wrapped(f"{mark} {one['scheme']}: {one['reason']}", columns, " ")
    return lines


def summary(seen: Watched) -> str:
    """Return what happened between the first snapshot and the last."""
    if seen.snapshot is None:
        return "tierd has ended before it saw anything."
    status = document(seen.snapshot)
    took = format_duration_us(max(1, round((seen.snapshot.at - seen.began_s) * 1e6)))
    up, down = seen.moved
    line = (
        f"In {took} tierd promoted {format_size(up)} and demoted {format_size(down)}; "
        f"its kdamonds used {format_percent(cpu_share(status) * 10_000)} of a CPU."
    )
    return "\n".join([line, *([chapters_text(seen.chapters)] if seen.chapters else [])])
