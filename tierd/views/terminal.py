"""The width of the terminal, and whether and where colour is used.

Colour only repeats what a word says: without colour no information is lost.
"""

import os
import re
import sys
from enum import StrEnum

# Text is made for at least and at most this many columns.
COLUMNS_MIN = 60
COLUMNS_MAX = 200
# The size if there is no terminal, for example in a pipe.
COLUMNS = 80
ROWS = 24

# Enter and leave the alternate screen of a terminal, and hide the cursor (xterm and compatible).
ENTER = "\x1b[?1049h\x1b[?25l"
LEAVE = "\x1b[?25h\x1b[?1049l"
_HOME = "\x1b[H"
_CLEAR_LINE = "\x1b[K"
_CLEAR_BELOW = "\x1b[J"


class Colour(StrEnum):
    """The colour codes (SGR) that every terminal with colour has."""

    good = "32"
    warn = "33"
    bad = "31"
    dim = "2"


def columns() -> int:
    """Return the width of the terminal, within the limits above."""
    return min(COLUMNS_MAX, max(COLUMNS_MIN, _columns()))


def _columns() -> int:
    # The same as shutil.get_terminal_size(). Importing shutil would take a tenth of the time of
    # `status`.
    said = os.environ.get("COLUMNS", "")
    if said.isdecimal() and int(said):
        return int(said)
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or COLUMNS
    except (OSError, ValueError):
        return COLUMNS


def shape() -> tuple[int, int]:
    """Return the columns and rows of the terminal at standard output.

    $COLUMNS is not used: it keeps its value when the size of the terminal changes.
    """
    found, rows = os.get_terminal_size(sys.stdout.fileno())
    # Some terminals report no size: then the usual size is assumed.
    return found or COLUMNS, rows or ROWS


def over(frame: str) -> str:
    """Return what draws a frame over the old one. The screen is not cleared, so nothing flickers.

    A terminal that passes keys one by one needs the carriage returns.
    """
    body = frame.replace("\n", _CLEAR_LINE + "\r\n")
    return _HOME + body + _CLEAR_LINE + _CLEAR_BELOW


def has_colour(refused: bool) -> bool:
    """True if the output is a terminal with colour and the user has not refused it (NO_COLOR)."""
    dumb = os.environ.get("TERM", "dumb") == "dumb"
    return not (refused or os.environ.get("NO_COLOR") or dumb) and sys.stdout.isatty()


# These words are coloured at the start of a line: the states of `status` and `top`, the results of
# `doctor`.
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
    """Return the text with states and results in colour."""
    words = "|".join(VERDICTS)
    return re.sub(
        rf"^({words})(?= |:)",
        lambda verdict: f"\x1b[{VERDICTS[verdict[0]]}m{verdict[0]}\x1b[0m",
        text,
        flags=re.MULTILINE,
    )
