"""A store whose heat is scattered: lays it out, reads it, and computes its best placement.

Values of 512 bytes are read by rank (zipf). Their ranks are shuffled over all pages, as a hash
table shuffles its keys. The heat of a page says nothing about that of its neighbours.
"""

import os
from pathlib import Path

from bench.phase import Phase, Scene
from tests.contract.sets import PAGE, WorkloadSets

STORE = "hot0"
# A hot set in one piece, which gets as many accesses as the store.
BESIDE = "beside"
SCENES = frozenset({Scene.store, Scene.huge_store, Scene.cache, Scene.mixed})

# Touches per page. An emulated processor can do this many, beside the kernel's work for them.
TOUCHES_HZ = 1.0

# So many of the next touches are looked at, whatever the size of the store. They give the share of
# a node within half a percentage point.
LOOKED_AT = 8_192

# A folder on a disk. The folder for all other files is in memory, where the file does not fit.
CACHE_FOLDER = Path("/var/tmp")

# The workload prints shares in parts of a million.
WHOLE = 1e6


def lay_out(
    sets: WorkloadSets, scene: Scene, fast: int, slow: int, fast_bytes: int, hot_bytes: int
) -> None:
    """Fill the fast node with the beginning of a store. The rest of it goes to the slow node."""
    match scene:
        case Scene.store:
            sets.place(STORE, fast, 2 * fast_bytes)
        case Scene.huge_store:
            sets.ask(f"alloc {STORE} {fast} {2 * fast_bytes} thp")
        case Scene.cache:
            path = CACHE_FOLDER / f"tierd-bench-{os.getpid()}"
            sets.ask(f"alloc {STORE} {fast} {fast_bytes * 3 // 2} file={path}")
        case Scene.mixed:
            sets.place(STORE, fast, fast_bytes * 3 // 2)
            sets.place(BESIDE, slow, hot_bytes)
        case _:
            raise ValueError(f"no store in this scene: {scene}")


def pages_on(sets: WorkloadSets, scene: Scene, node: int) -> int:
    """Return how many of the pages that are read are on a node."""
    return sum(sets.where(name).get(node, 0) for name in _names(scene))


def read(sets: WorkloadSets, now: Phase, seed: int, pages_on_fast: int, hot_bytes: int) -> float:
    """Begin to read, with the ranks shuffled by a seed.

    Return the share of the touches that the fast node would serve if it had the hottest pages, as
    many as `pages_on_fast`.
    """
    sets.ask(f"hot {STORE} {TOUCHES_HZ} scattered={now.skew} seed={seed}")
    if now.scene is not Scene.mixed:
        return int(sets.ask(f"best {STORE} {pages_on_fast}")) / WHOLE
    hot_pages = hot_bytes // PAGE
    store_pages = sum(sets.where(STORE).values())
    sets.ask(f"hot {BESIDE} {TOUCHES_HZ * store_pages / hot_pages}")
    best = int(sets.ask(f"best {STORE} {pages_on_fast - hot_pages}")) / WHOLE
    return (1 + best) / 2


def served(sets: WorkloadSets, scene: Scene, node: int, fast_bytes: int) -> float:
    """Return the share of the touches that a node serves, from a sample of the next touches."""
    stride = max(1, 2 * fast_bytes // PAGE // LOOKED_AT)
    shares = [sets.served(name, node, stride) for name in _names(scene)]
    return sum(shares) / len(shares)


def _names(scene: Scene) -> tuple[str, ...]:
    return (STORE, BESIDE) if scene is Scene.mixed else (STORE,)
