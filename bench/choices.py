"""Lists of names on a command line."""

import argparse
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

T = TypeVar("T")


def among(known: Iterable[str]) -> Callable[[str], tuple[str, ...]]:
    """Return a parser for a list of these names with commas, or for `all`."""
    names = tuple(known)

    def read(text: str) -> tuple[str, ...]:
        asked = names if text == "all" else tuple(text.split(","))
        unknown = [name for name in asked if name not in names]
        if unknown:
            raise argparse.ArgumentTypeError(f"{unknown[0]!r} is none of {', '.join(names)}, all")
        return asked

    return read


def named(by_name: Mapping[str, T]) -> Callable[[str], tuple[T, ...]]:
    """Return a parser for the same list that gives what has these names."""
    names = among(by_name)
    return lambda text: tuple(by_name[name] for name in names(text))
