"""In an arm64 guest: a hot set on the slow node, `tierd run`, and the end.

This process holds the memory itself, because no C program is built for this architecture. It reads
all of it again and again. Before each pass it changes the protection of all of it and back: more
pages than the kernel flushes one by one, so that the emulated processor forgets every translation
(docs/testing.md).
"""

import ctypes
import os
import sys
import threading
import time
from collections import Counter
from typing import Any

from tests.e2e import inside
from tests.e2e.inside import MIB, note
from tests.vm.guard import require_guest
from tierd.machine import discovery
from tierd.machine.bound_memory import BoundMemory, bound, node_of
from tierd.sysfs import RealSysfs

FAST, SLOW = 0, 1
HOT_BYTES = 48 * MIB

# The kernel flushes up to PTRS_PER_PTE pages one by one (MAX_DVM_OPS): 512 of 4 KiB, or 2048 of
# 16 KiB. The memory has more of both.
PIECES = 192

ARRIVED_SHARE = 0.9
ARRIVAL_S_MAX = 300.0

# From asm-generic/mman-common.h. Huge pages would be few, and each would move at once.
MADV_NOHUGEPAGE = 15
PROT_READ, PROT_READ_WRITE = 1, 3


def where(memory: BoundMemory) -> dict[int, int]:
    """Return how many of the pieces of the memory are on each node."""
    step = memory.size_bytes // PIECES
    return dict(Counter(node_of(memory.address + piece * step) for piece in range(PIECES)))


def heat(memory: BoundMemory, ended: threading.Event) -> None:
    libc = ctypes.CDLL(None)
    address = ctypes.c_void_p(memory.address)
    size = ctypes.c_size_t(memory.size_bytes)
    while not ended.is_set():
        libc.mprotect(address, size, PROT_READ)
        libc.mprotect(address, size, PROT_READ_WRITE)
        libc.memchr(address, 1, size)


def main() -> int:
    require_guest()
    topology = discovery.survey(RealSysfs(), None)
    facts: dict[str, Any] = {
        "kernel": os.uname().release,
        "page_bytes": topology.page_bytes,
        "tiers": [[tier.name, list(tier.nodes)] for tier in topology.tiers],
        "neighbourhood_before": inside.neighbourhood(),
    }
    note(f"{facts}")
    with bound(SLOW, HOT_BYTES) as memory:
        libc = ctypes.CDLL(None)
        # Pages that are huge already are split when they move, or move whole: both is correct.
        libc.madvise(
            ctypes.c_void_p(memory.address), ctypes.c_size_t(memory.size_bytes), MADV_NOHUGEPAGE
        )
        facts["placed"] = where(memory)
        ended = threading.Event()
        reader = threading.Thread(target=heat, args=(memory, ended), daemon=True)
        reader.start()
        daemon = inside.started()
        note("active")
        began_s = time.monotonic()
        wanted = ARRIVED_SHARE * PIECES
        inside.within(lambda: where(memory).get(FAST, 0) >= wanted, ARRIVAL_S_MAX)
        facts["arrived"] = where(memory)
        note(f"{facts['arrived']} after {time.monotonic() - began_s:.0f} s")
        facts["status"] = inside.status()
        facts["exit"] = daemon.stop()
        ended.set()
        reader.join()
    facts["neighbourhood_after"] = inside.neighbourhood()
    inside.tell(facts)
    return 0


if __name__ == "__main__":
    sys.exit(main())
