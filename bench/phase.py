"""The phases: what the workload does, and for how long. Each phase tests one ability.

N is the size of the fast node. The hot set is 3/16 of it, which is 96 MiB of 512.
"""

from dataclasses import dataclass
from enum import StrEnum

HOT_SHARE = 3 / 16
# A hot set has arrived when this share of the accesses to it reach the fast node.
ARRIVED = 0.95


class Scene(StrEnum):
    """How memory is laid out before a configuration starts."""

    full = "the fast node full of cold memory, the hot set on the slow node"
    half = "the fast node half full of cold memory, the hot set on the slow node"
    inside = "the hot set on the fast node, which cold memory fills up"
    drift = "the fast node full of cold memory, a set with a hot part that moves on the slow node"
    huge = "the fast node full of cold memory, a set of huge pages on the slow node"
    big = "one set of 1.5 N that begins on the fast node"
    store = "a store of 2 N, in values of 512 bytes, that begins on the fast node"
    mixed = "a store of 1.5 N that begins on the fast node, a hot set beside it on the slow node"
    cache = "a store of 1.5 N in a mapped file, that begins on the fast node"
    huge_store = "a store of 2 N in huge pages, that begins on the fast node"


@dataclass(frozen=True, slots=True)
class Phase:
    """One phase. It ends after `bound_s`, or `settle_s` after the hot set has arrived."""

    name: str
    title: str
    scene: Scene
    bound_s: float
    settle_s: float | None = None
    repeats: int = 1
    chained: bool = False
    """True if it goes on in the same boot where the phase before it has ended."""
    skew: float | None = None
    """For a store: how steeply the heat of its values falls by rank (zipf)."""


PHASES = (
    Phase("static", "a hot set on the slow node, the fast node full", Scene.full, 45, 30),
    Phase("shift", "another set becomes hot, three times", Scene.full, 30, 5, 3, chained=True),
    Phase("idle", "nothing is touched any more", Scene.full, 20, chained=True),
    Phase("drift", "the hot part moves on by 1 % of itself a second", Scene.drift, 60),
    Phase("big-uniform", "1.5 N hot, all pages alike", Scene.big, 80),
    Phase("big-zipf", "1.5 N hot, by zipf 0.99", Scene.big, 80),
    Phase("scan", "2 N are touched once each, at 100 MB/s, beside the hot set", Scene.inside, 40),
    Phase("burst", "0.1 N are allocated at once, three times", Scene.inside, 45),
    Phase("thp", "huge pages, of which each eighth small page is hot", Scene.huge, 45, 10),
    Phase("restart", "static, but tierd is killed amid the exchange and started again",
          Scene.full, 45, 10),
    Phase("half-empty", "the fast node has room for all", Scene.half, 45, 10),
    Phase("scattered", "zipf 0.99, ranks shuffled over all values", Scene.store, 100,
          skew=0.99),
    Phase("scattered-shift", "the ranks are shuffled anew", Scene.store, 100, chained=True,
          skew=0.99),
    Phase("scattered-0.8", "zipf 0.8, ranks shuffled over all values", Scene.store, 100,
          skew=0.8),
    Phase("mixed", "half of the accesses to each of the two", Scene.mixed, 100, skew=0.99),
    Phase("page-cache", "scattered, in the page cache", Scene.cache, 100, skew=0.99),
    Phase("scattered-huge", "scattered, in huge pages", Scene.huge_store, 100, skew=0.99),
)  # fmt: skip

BY_NAME = {phase.name: phase for phase in PHASES}


def timelines(names: tuple[str, ...]) -> tuple[tuple[Phase, ...], ...]:
    """Return the boots that these phases need. A boot is the phases that run in it, in order."""
    boots: list[tuple[Phase, ...]] = []
    chain: tuple[Phase, ...] = ()
    for phase in PHASES:
        chain = (*chain, phase) if phase.chained else (phase,)
        if phase.name not in names:
            continue
        if boots and boots[-1] == chain[: len(boots[-1])]:
            boots.pop()
        boots.append(chain)
    return tuple(boots)


def trials(phase: Phase) -> tuple[str, ...]:
    """Return the names of the repeats of a phase in the cells: shift-1, shift-2, shift-3."""
    if phase.repeats == 1:
        return (phase.name,)
    return tuple(f"{phase.name}-{number}" for number in range(1, phase.repeats + 1))
