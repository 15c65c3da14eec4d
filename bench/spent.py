"""Adds up the processor time that processes took in a phase, from single readings. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Spent:
    """The processor time of each pid since its start: at the beginning of the phase, and last seen.

    A process that is gone counts with what was last seen. A process that started in the phase
    counts with all its time.
    """

    at_first: Mapping[int, float]
    at_last: Mapping[int, float] = field(default_factory=dict)

    def seen(self, now: Mapping[int, float]) -> "Spent":
        """Return these times with another reading added."""
        return Spent(self.at_first, {**self.at_last, **now})

    def total_s(self, *, expected: bool) -> float | None:
        """Return the time of all processes; None if there should be one and none was read."""
        if expected and not (self.at_first or self.at_last):
            return None
        spent = sum(last - self.at_first.get(pid, 0.0) for pid, last in self.at_last.items())
        return round(spent, 2)
