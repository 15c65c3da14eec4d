"""Readings that vary by chance, and how far their average may be from the truth. Pure."""

from math import sqrt

from tierd.frozen import dataclass

# The average of readings that vary by chance may be off by so many times what one reading differs
# from the one before, over the square root of their number.
NOISE = 2.0


@dataclass(frozen=True, slots=True)
class Series:
    """Readings that vary by chance: their average, and by how much they differ."""

    count: int = 0
    average: float = 0.0
    last: float = 0.0
    step: float = 0.0
    """How much a reading differed from the one before, on average."""

    @property
    def noise(self) -> float:
        """How far the average may be from the truth, by chance."""
        return self.noise_of(self.count)

    def noise_of(self, count: float) -> float:
        """Return how far the average of so many such readings may be from the truth, by chance."""
        return NOISE * self.step / sqrt(max(1, count))

    def plus(self, reading: float) -> "Series":
        count = self.count + 1
        step = abs(reading - self.last) if self.count else 0.0
        return Series(
            count,
            self.average + (reading - self.average) / count,
            reading,
            self.step + (step - self.step) / max(1, self.count),
        )
