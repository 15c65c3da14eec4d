"""How many pages of each cell are accessed within a sample, and the sums over ranges of cells."""

from collections.abc import Callable, Iterable
from itertools import accumulate

# Sums are kept for so many cells together: a sweep changes few of them between two samples.
_CHUNK = 256


class CellShares:
    """The accessed pages of each cell within a sample, on average."""

    def __init__(self, sample_us: int, cells: int, pages: Callable[[int], float]) -> None:
        self.sample_us = sample_us
        self.changes = 0
        """How many changes of cells it knows."""
        self._by_cell = [0.0] * cells
        # The sums over the cells of each chunk before each cell, and over the chunks before each.
        self._inner: list[list[float]] = [[] for _ in range(-(-cells // _CHUNK))]
        self._outer: list[float] = []
        self.update(range(cells), pages)

    def update(self, cells: Iterable[int], pages: Callable[[int], float]) -> None:
        """Ask again for the pages of some cells."""
        chunks = set()
        for cell in cells:
            self._by_cell[cell] = pages(cell)
            chunks.add(cell // _CHUNK)
        for chunk in chunks:
            mine = self._by_cell[chunk * _CHUNK : (chunk + 1) * _CHUNK]
            self._inner[chunk] = list(accumulate(mine, initial=0.0))
        if chunks:
            self._outer = list(accumulate((sums[-1] for sums in self._inner), initial=0.0))

    def before(self, position: float) -> float:
        """Return the sum over the cells before a position, which may be within a cell."""
        cell = int(position)
        if cell >= len(self._by_cell):
            return self._outer[-1]
        chunk, at = divmod(cell, _CHUNK)
        sums = self._inner[chunk]
        return self._outer[chunk] + sums[at] + (sums[at + 1] - sums[at]) * (position - cell)
