"""Options and values that several commands take.

A value that is wrong gives an error that says what was expected.
"""

import argparse
from pathlib import Path

from tierd.units import BP_MAX, parse_duration_ms, parse_percent, parse_size

# Sizes of machines that do not exist: the least that a kernel runs with, and more than any has.
SIZE_MIN = 64 << 20
SIZE_MAX = 1 << 50
# Prices and latencies above this are mistakes.
PAIR_MAX = 1e9
# More pairs of turns take longer than anybody waits.
COUNT_MAX = 1000


def json_option(verb: "argparse._ActionsContainer", about: str = "one JSON object") -> None:
    verb.add_argument("--json", action="store_true", help=about)


def simulate_option(verb: "argparse._ActionsContainer") -> None:
    verb.add_argument(
        "--simulate",
        nargs="?",
        const="two-tier",
        metavar="MACHINE",
        help="use a simulated machine (default: two-tier); this machine is not touched",
    )


def for_option(verb: argparse.ArgumentParser, about: str, default: int | None) -> None:
    verb.add_argument(
        "--for",
        dest="for_ms",
        type=duration_ms,
        metavar="DURATION",
        default=default,
        help=about,
    )


def config_option(verb: argparse.ArgumentParser) -> None:
    verb.add_argument(
        "--config",
        type=path_value,
        metavar="FILE",
        help="default: /etc/tierd/tierd.yaml and tierd.d",
    )


def path_value(text: str) -> Path:
    """Return the path; refuse an empty text, which would mean the current directory."""
    if not text:
        raise argparse.ArgumentTypeError("expected a path, found nothing")
    return Path(text)


def root_value(text: str) -> Path:
    """Return the path; refuse one that is no directory, as every file below it would be absent."""
    path = path_value(text)
    if not path.is_dir():
        raise argparse.ArgumentTypeError(
            f"expected a directory with sys/ and proc/ in it, found no {text}; leave out --root to "
            "read this machine, or name the directory machine/ of a report of "
            "`tierd doctor --bundle` that you have unpacked"
        )
    return path


def size_value(text: str) -> int:
    try:
        size = parse_size(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    if not SIZE_MIN <= size <= SIZE_MAX:
        raise argparse.ArgumentTypeError(f"expected a size from 64MiB to 1024TiB, found {text!r}")
    return size


def percent_value(text: str) -> float:
    try:
        bp = parse_percent(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return bp / BP_MAX


def pair_value(text: str) -> tuple[float, float]:
    """Return two positive numbers from a text such as 12,5."""
    parts = text.split(",")
    try:
        fast, slow = (float(part) for part in parts)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"expected two numbers such as 12,5: {text!r}") from error
    if not (0 < fast < PAIR_MAX and 0 < slow < PAIR_MAX):
        raise argparse.ArgumentTypeError(f"expected two positive numbers, found {text!r}")
    return fast, slow


def count_value(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 0 < int(text) <= COUNT_MAX:
        raise argparse.ArgumentTypeError(f"expected a number from 1 to {COUNT_MAX}, found {text!r}")
    return int(text)


def duration_ms(text: str) -> int:
    try:
        return parse_duration_ms(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
