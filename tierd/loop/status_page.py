"""The web page at / of the metrics port: made from what the loop has published, when somebody asks.

Rules of this file: the text is made at most once per tick, whoever asks and however often. Nothing
that only the page needs is loaded before the first request. Only the thread of the web server
makes it, so it needs no lock.
"""

from base64 import b64encode
from collections.abc import Callable
from pathlib import Path

from tierd.digest import sha256
from tierd.frozen import dataclass
from tierd.record.chronicle import LATELY_S, READING_EVERY_S, HistoryReading, reading_of
from tierd.record.snapshot import Snapshot
from tierd.serving.webserver import Page
from tierd.views.statusview import STALE_S

# How many readings are drawn: one in three of an hour. More would be closer than a reader can see.
READINGS_MAX = 120

FILES = Path(__file__).parent.parent / "views"


@dataclass(frozen=True, slots=True)
class Sources:
    """What the page is made of."""

    snapshots: Callable[[], tuple[Snapshot, ...]]
    """Returns the last snapshots, oldest first; empty before the first tick."""
    readings: Callable[[float, float, int], tuple[HistoryReading, ...]]
    """Returns the readings from one time to another, and at most so many."""
    host: str
    wall_s: Callable[[], float]


@dataclass(slots=True)
class StatusPage:
    """The page, as it was made last."""

    sources: Sources
    _made: Page | None = None
    _of: tuple[Snapshot | None, int] = (None, 0)
    """What `_made` was made of: the newest snapshot, and how stale it was."""

    def __call__(self) -> Page:
        """Return the page of the newest snapshot."""
        snapshots, now = self.sources.snapshots(), self.sources.wall_s()
        newest = snapshots[-1] if snapshots else None
        # If the loop is stuck there is no new snapshot, but the page must say so.
        age = 0 if newest is None else int(max(0.0, now - newest.at) // STALE_S)
        if self._made is None or self._of[0] is not newest or self._of[1] != age:
            self._made, self._of = self._make(snapshots, now), (newest, age)
        return self._made

    def _make(self, snapshots: tuple[Snapshot, ...], now: float) -> Page:
        from tierd.views import page

        newest = snapshots[-1] if snapshots else None
        # The files are small, and in the page cache; in memory they would be there twice.
        style, script = ((FILES / name).read_text() for name in ("page.css", "page.js"))
        readings: tuple[HistoryReading, ...] = ()
        if newest is not None:
            # The snapshot is the last reading. From one just before it no rate could be told.
            until = newest.at - READING_EVERY_S
            before = self.sources.readings(newest.at - LATELY_S, until, READINGS_MAX)
            readings = (*before, reading_of(newest)) if newest.nodes else before
        look = page.Look(newest, snapshots, readings, self.sources.host, now)
        text = page.page(look, style, script)
        return Page(text.encode(), "text/html; charset=utf-8", headers=headers(style, script))


def headers(style: str, script: str) -> tuple[tuple[str, str], ...]:
    """Return headers that forbid a browser everything that this page does not need."""
    policy = (
        "default-src 'none'",
        f"style-src {_hash(style)}",
        f"script-src {_hash(script)}",
        "img-src data:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
    return (
        ("Content-Security-Policy", "; ".join(policy)),
        ("Referrer-Policy", "no-referrer"),
        ("Cross-Origin-Resource-Policy", "same-origin"),
    )


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode())).decode()}'"
