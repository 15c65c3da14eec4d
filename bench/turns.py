"""Splits what a boot told into one document for each contender that had its turn in it. Pure.

All turns of a boot share the program, its data and its driver. Each turn begins with the same
placement of the program's pages.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tests.vm.slow import Mark


def split(
    told: Mapping[str, Any], marks: Sequence[Mark], nodes: Sequence[int]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Return the name and the document of each turn: its seconds, and what the marks at their ends
    say.
    """
    shared = {name: value for name, value in told.items() if name not in ("turns", "served")}
    served = told["served"]
    for position, turn in enumerate(told["turns"]):
        chosen = rows(served, turn["turn_s"], turn["end_s"])
        first, last = (chosen[0], chosen[-1] + 1) if chosen else (0, 0)
        # Mark 0 is made before the first second, and mark N after second N.
        misses = {
            str(node): [mark.misses[i] for mark in marks[first : last + 1]]
            for i, node in enumerate(nodes)
        }
        yield (
            turn["name"],
            {
                **shared,
                "position": position,
                **turn,
                "served": {name: column[first:last] for name, column in served.items()},
                "misses": misses,
                "waited_ns": [mark.waited_ns for mark in marks[first : last + 1]],
            },
        )


def rows(served: Mapping[str, Sequence[float]], begin_s: float, end_s: float) -> list[int]:
    """Return the numbers of the seconds that lie wholly between two moments."""
    return [
        i
        for i, (at, seconds) in enumerate(zip(served["at_s"], served["seconds"], strict=True))
        if at - seconds >= begin_s and at <= end_s
    ]
