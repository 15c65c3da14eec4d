"""Show a run to a person who watches: as lines, or as a live screen with a summary at its end."""

import logging
import sys
import termios
import tty
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from tierd.record import outlook
from tierd.record.snapshot import Snapshot, State
from tierd.units import format_percent, format_size
from tierd.views import plots, terminal, window
from tierd.views.scene import Scene
from tierd.views.window import Watched

Look = Callable[[], Scene] | None
"""Returns what a simulated machine does now. A real machine does not tell: None."""

# How much must have moved, or have become hot or cold, before there is another line: a share of the
# fastest tier. With a tenth, a machine that is filled anew prints some ten lines, however large it
# is.
NEWS_SHARE = 0.1

# Ticks without a move after which a line says that all is at rest, and how much must have moved
# before. Between two rounds of a tuner nothing moves for a tick or two.
REST_TICKS = 5
REST_SHARE = 0.01


log = logging.getLogger("tierd")


class Lines:
    """Prints a line when something has changed, and none when nothing has."""

    def __init__(self, scene: Look, url: str | None, say: Callable[[str], None]) -> None:
        self._scene, self._say = scene, say
        self._seen = Watched("", None)
        if url is not None:
            say(f"Or in a browser: {url}")
        self._said: tuple[Any, ...] | None = None
        self._said_moved = (0, 0)
        self._moved = (0, 0)
        self._still_ticks = 0

    def show(self, snapshot: Snapshot, up: int, down: int) -> None:
        scene = self._scene() if self._scene else None
        self._seen = window.watched(self._seen, snapshot, scene, up, down)
        moved = self._seen.moved
        self._still_ticks = self._still_ticks + 1 if moved == self._moved else 0
        self._moved = moved
        now = _changes(snapshot, scene)
        if now != self._said or self._has_moved(snapshot):
            text = _observed(snapshot) if snapshot.state is State.observing else self._text()
            self._say(f"{snapshot.at - self._seen.began_s:4.0f} s | {text}")
            self._said, self._said_moved = now, moved

    def _has_moved(self, snapshot: Snapshot) -> bool:
        fast_bytes = _fast_bytes(snapshot)
        news = sum(self._moved) - sum(self._said_moved)
        at_rest = self._still_ticks == REST_TICKS
        return news >= fast_bytes * NEWS_SHARE or (at_rest and news >= fast_bytes * REST_SHARE)

    def _text(self) -> str:
        seen = self._seen
        assert seen.snapshot is not None
        parts = []
        if seen.scene is not None:
            share = seen.scene.hot_share_fast
            hot = "nothing is hot" if share is None else f"hot set {share:4.0%} on the fast tier"
            parts = [f"{seen.scene.act.name:<9} | {hot:<28}"]
        (up, down), (up_said, down_said) = seen.moved, self._said_moved
        free = ", ".join(
            f"node{node.numa_node} {format_percent(node.free_bytes * 10_000 / node.size_bytes)}"
            for node in seen.snapshot.nodes
            if node.size_bytes
        )
        parts += [
            str(seen.snapshot.state),
            f"up {format_size(up)} (+{format_size(up - up_said)}), "
            f"down {format_size(down)} (+{format_size(down - down_said)})",
            f"free: {free}",
        ]
        return " | ".join(parts)

    def end(self) -> None:
        if self._seen.chapters:
            self._say(window.summary(self._seen))
            self._seen = Watched("", None)


def _changes(snapshot: Snapshot, scene: Scene | None) -> tuple[Any, ...]:
    """Return what makes a new line if it differs. Sizes are coarse: in tenths of the fast tier."""
    parts: list[Any] = [snapshot.state]
    if scene is not None:
        parts += [scene.number, scene.round]
    if snapshot.state is State.observing:
        found = outlook.outlook((snapshot,))
        step = max(1.0, _fast_bytes(snapshot) * NEWS_SHARE)
        sizes = (found.hot_bytes, found.cold_bytes) if found else ()
        parts += [round(size / step) for size in sizes]
    return tuple(parts)


def _fast_bytes(snapshot: Snapshot) -> int:
    """Return the size of the nodes that others promote to."""
    targets = {one.target_node for one in snapshot.schemes if one.action == "promote"}
    return sum(node.size_bytes for node in snapshot.nodes if node.numa_node in targets)


def _observed(snapshot: Snapshot) -> str:
    found = outlook.outlook((snapshot,))
    seen = (
        f"{format_size(found.hot_bytes)} hot on slower nodes, "
        f"{format_size(found.cold_bytes)} cold on faster nodes"
        if found
        else "nothing is known yet"
    )
    return f"{snapshot.state} | {seen}"


class Screen:
    """Draws over the whole terminal at each tick, and gives it back at the end with a summary.

    Log lines would break the picture. Events are in the picture; of the log, warnings and what was
    restored are kept for the end.
    """

    def __init__(
        self,
        scene: Look,
        seen: Watched,
        say: Callable[[str], None],
        *,
        colour: bool,
    ) -> None:
        self._scene, self._seen, self._say = scene, seen, say
        self._colour = colour
        self._ink = plots.ink_for(sys.stdout.encoding)
        self._handlers = list(log.handlers)
        self._kept = Kept()
        self._keys = sys.stdin.fileno() if sys.stdin.isatty() else None
        self._before = None if self._keys is None else termios.tcgetattr(self._keys)
        self._open = True
        log.handlers[:] = [self._kept]
        if self._keys is not None:
            # Keys are not shown. Ctrl-C stays a signal.
            tty.setcbreak(self._keys)
        self._draw(terminal.ENTER)

    def show(self, snapshot: Snapshot, up: int, down: int) -> None:
        scene = self._scene() if self._scene else None
        self._seen = window.watched(self._seen, snapshot, scene, up, down)
        with suppress(OSError):
            lines = window.frame(self._seen, *terminal.shape(), self._ink)
            frame = "\n".join(lines)
            self._draw(terminal.over(terminal.painted(frame) if self._colour else frame))

    def _draw(self, text: str) -> None:
        # If the terminal is gone, tierd gets a signal and ends; tiering must not fail before.
        with suppress(OSError):
            sys.stdout.write(text)
            sys.stdout.flush()

    def end(self) -> None:
        if not self._open:
            return
        self._open = False
        self._draw(terminal.LEAVE)
        if self._keys is not None and self._before is not None:
            with suppress(termios.error):
                termios.tcsetattr(self._keys, termios.TCSADRAIN, self._before)
        log.handlers[:] = self._handlers
        for record in self._kept.records:
            log.handle(record)
        self._say(window.summary(self._seen))


# Records that are kept while a screen is drawn. A daemon in trouble may log one at each tick.
RECORDS_MAX = 50

# What happens while a daemon ends. The screen shows nothing any more then.
AT_THE_END = ("restored", "left")


class Kept(logging.Handler):
    """Keeps the newest records that a person should see after the screen is gone."""

    def __init__(self) -> None:
        super().__init__()
        self.records: deque[logging.LogRecord] = deque(maxlen=RECORDS_MAX)

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.WARNING or getattr(record, "event", "") in AT_THE_END:
            self.records.append(record)
