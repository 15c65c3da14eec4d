"""Failures to save totals, counts and history. They are reported, and end nothing.

Rules of this file:
1. Tiering goes on without bookkeeping, and a restore never waits for it.
2. Each failure is counted by the name of its file. The loop reports when the failures of a file
   begin, and when they end.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from tierd.errors import TierdError

FAILED = "bookkeeping_failed"
RECOVERED = "bookkeeping_recovered"


class News(NamedTuple):
    """An event and its text, which the loop reports."""

    event: str
    text: str


@dataclass(slots=True)
class Bookkeeping:
    """The state of each file. Only the thread of the loop uses it."""

    _failing: set[Path] = field(default_factory=set)
    _news: list[News] = field(default_factory=list)
    _failures: list[str] = field(default_factory=list)

    def keep(self, path: Path, write: Callable[[], None]) -> bool:
        """Save a file, and return whether that succeeded."""
        try:
            write()
        except TierdError as error:
            self.failed(path, str(error))
            return False
        if path in self._failing:
            self._failing.remove(path)
            self._news.append(News(RECOVERED, f"{path} is kept again"))
        return True

    def failed(self, path: Path, why: str) -> None:
        """Note that a file could not be saved, or that its content is lost."""
        self._failures.append(path.name)
        if path not in self._failing:
            self._failing.add(path)
            self._news.append(News(FAILED, why))

    def news(self) -> tuple[News, ...]:
        """Return the news that have not been reported yet."""
        found = tuple(self._news)
        self._news.clear()
        return found

    def failures(self) -> tuple[str, ...]:
        """Return the file name of each failure that has not been counted yet."""
        found = tuple(self._failures)
        self._failures.clear()
        return found
