"""Builds an hnswlib index of vectors, and asks for the nearest neighbours of some, by Zipf's law.

`python3 -m bench.ask_index ITEMS SECONDS`, in a guest with slow memory.
"""

import sys
import time
from importlib import import_module

from bench import seconds
from bench.waiting import Switch
from bench.zipf import drawer

# Vectors of this size are common for texts. One fills a page.
DIMENSIONS = 1024
NEIGHBOURS = 10
# Fewer links and a shorter search than usual, because an emulated processor builds the index.
LINKS = 6
BUILD_SEARCH = 12
SEARCH = 16
# Neighbours lie around a centre.
CENTRES = 256
BATCH = 4096


def main() -> None:
    items, length = map(int, sys.argv[1:])
    began_ns = time.monotonic_ns()
    # Both are packages of the guest only.
    numpy, hnswlib = import_module("numpy"), import_module("hnswlib")
    chance = numpy.random.default_rng(1)
    centres = chance.random((CENTRES, DIMENSIONS), dtype=numpy.float32)
    noise = chance.random((BATCH, DIMENSIONS), dtype=numpy.float32)
    index = hnswlib.Index(space="l2", dim=DIMENSIONS)
    index.init_index(max_elements=items, ef_construction=BUILD_SEARCH, M=LINKS)
    for first in range(0, items, BATCH):
        count = min(BATCH, items - first)
        chosen = centres[chance.integers(CENTRES, size=count)]
        index.add_items(chosen + numpy.roll(noise, first // BATCH, axis=1)[:count] / 2)
    index.set_ef(SEARCH)
    index.set_num_threads(1)
    draw = drawer(items, seed=2)

    def ask() -> None:
        index.knn_query(index.get_items([draw()]), k=NEIGHBOURS)

    seconds.filled(began_ns)
    seconds.ask(ask, Switch().mark, length)


if __name__ == "__main__":
    main()
