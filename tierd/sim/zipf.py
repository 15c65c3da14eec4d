"""Page sets with the heat of a store whose values are accessed by Zipf's law.

The ranks of the values are shuffled over all pages, so the heat of a page is the sum of the heat of
its values. Pages of about equal heat are one set: the simulated memory stores no heat per page.
"""

from itertools import accumulate
from math import log
from random import Random

from tierd.frozen import dataclass
from tierd.sim.machine_model import PAGE_BYTES
from tierd.sim.memory import Memory, PageSet

# Enough pages that the shares of the classes are right within a few percent.
SAMPLED_PAGES = 20_000


@dataclass(frozen=True, slots=True)
class Store:
    """The page sets of a store, the hottest first, each with its bytes."""

    sets: tuple[tuple[PageSet, int], ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(page_set.name for page_set, _ in self.sets)

    def served(self, memory: Memory, node: int) -> float:
        """Return the share of the accesses that a node serves."""
        rates = {page_set.name: page_set.rate_hz for page_set, _ in self.sets}
        here = {name: memory.pages_of_set(name, node) * rate for name, rate in rates.items()}
        everywhere = sum(
            memory.pages_of_set(name, other) * rate
            for name, rate in rates.items()
            for other in memory.nodes
        )
        return sum(here.values()) / everywhere

    def best(self, memory: Memory, node: int) -> float:
        """Return the share that a node would serve if its pages of the store were the hottest."""
        pages = {
            name: sum(memory.pages_of_set(name, one) for one in memory.nodes) for name in self.names
        }
        whole = sum(page_set.rate_hz * pages[page_set.name] for page_set, _ in self.sets)
        left = sum(memory.pages_of_set(name, node) for name in self.names)
        found = 0.0
        for page_set, _ in self.sets:
            taken = min(left, pages[page_set.name])
            found += page_set.rate_hz * taken
            left -= taken
        return found / whole


def store(
    name: str,
    size_bytes: int,
    *,
    skew: float,
    mean_hz: float,
    values_per_page: int = 8,
    classes: int = 24,
    seed: int = 1,
    page_bytes: int = PAGE_BYTES,
) -> Store:
    """Return a store whose pages are accessed `mean_hz` times a second on average."""
    rng = Random(seed)
    count = SAMPLED_PAGES * values_per_page
    heats = [(rank + 1) ** -skew for rank in range(count)]
    rng.shuffle(heats)
    pages = sorted(
        (sum(heats[at : at + values_per_page]) for at in range(0, count, values_per_page)),
        reverse=True,
    )
    scale = mean_hz * SAMPLED_PAGES / sum(pages)
    hottest, coldest = log(pages[0]), log(pages[-1])
    step = (hottest - coldest) / classes or 1.0
    groups: dict[int, list[float]] = {}
    for page in pages:
        groups.setdefault(min(classes - 1, int((hottest - log(page)) / step)), []).append(page)
    # Whole pages for each class, so that the store has its size.
    ends = [
        round(end * size_bytes / page_bytes / SAMPLED_PAGES)
        for end in accumulate(map(len, groups.values()))
    ]
    sizes = [end - begin for begin, end in zip([0, *ends], ends, strict=False)]
    return Store(
        tuple(
            (
                PageSet(f"{name}{number}", scale * sum(group) / len(group), at_random=True),
                pages_ * page_bytes,
            )
            for number, (group, pages_) in enumerate(zip(groups.values(), sizes, strict=True))
            if pages_
        )
    )
