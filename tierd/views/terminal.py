"""What is known of the terminal that is written to: how wide it is, and whether it shows colour.

Colour only repeats what a word says, so nothing is lost without it.
"""

import os
import re
import sys
from enum import StrEnum

# Text is drawn for at least and at most so many columns.
COLUMNS_MIN = 60
COLUMNS_MAX = 200
# Where there is no terminal, as in a pipe.
COLUMNS = 80


class Colour(StrEnum):
    """The codes of SGR, which every terminal with colour has."""

    good = "32"
    warn = "33"
    bad = "31"
    dim = "2"


def columns() -> int:
    """How wide the terminal is, within what can be read."""
    return min(COLUMNS_MAX, max(COLUMNS_MIN, _columns()))


def _columns() -> int:
    # As shutil.get_terminal_size() does, whose module takes a tenth of what `status` takes to load.
    said = os.environ.get("COLUMNS", "")
    if said.isdecimal() and int(said):
        return int(said)
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or COLUMNS
    except (OSError, ValueError):
        return COLUMNS


def has_colour(refused: bool) -> bool:
    """Whether colour is wanted, and seen by somebody: see no-color.org."""
    dumb = os.environ.get("TERM", "dumb") == "dumb"
    return not (refused or os.environ.get("NO_COLOR") or dumb) and sys.stdout.isatty()


# Words that are a verdict where a line begins with one: of `status` and `top`, and of `doctor`.
VERDICTS = {
    "ACTIVE": Colour.good,
    "OBSERVING": Colour.good,
    "STARTING": Colour.warn,
    "PAUSED": Colour.warn,
    "STOPPING": Colour.warn,
    "DEGRADED": Colour.bad,
    "STUCK": Colour.bad,
    "!!": Colour.warn,
    "ok": Colour.good,
    "warn": Colour.warn,
    "fail": Colour.bad,
    "skip": Colour.dim,
}


def painted(text: str) -> str:
    """The text with its verdicts in colour."""
    words = "|".join(VERDICTS)
    return re.sub(rf"^({words})(?= |:)", _paint, text, flags=re.MULTILINE)


def _paint(verdict: re.Match[str]) -> str:
    return f"\x1b[{VERDICTS[verdict[0]]}m{verdict[0]}\x1b[0m"
