"""In a guest with two sockets: the nearest slow node of a socket is full, and a part of it is hot.

The other socket has room on both of its nodes. Without it no memory could change places.
"""

import sys

from tests.contract.sets import PAGE
from tests.e2e import inside
from tests.e2e.inside import MIB, note

FAST, NEAREST = 0, 2
OTHER_FAST, OTHER_SLOW = 1, 3
HOT_BYTES = 64 * MIB
HOT_HZ = 60.0
HOT_SHARE = 0.8
DOWN_BYTES = 16 * MIB
# What stays free when a node is filled. The kernel needs some of it, and its counts of free memory
# lag: with little left it would end the workload.
LEFT_BYTES = 48 * MIB
PIECE_BYTES_MIN = 8 * MIB
PIECE_BYTES = 128 * MIB
BOUND_S = 300.0


def main() -> int:
    sets = inside.begin()
    sets.place("hot", NEAREST, HOT_BYTES, only=True)
    filled: dict[int, list[str]] = {FAST: [], NEAREST: []}
    for node, names in filled.items():
        while (room := inside.free_bytes(node) - LEFT_BYTES) >= PIECE_BYTES_MIN:
            names.append(f"idle-{node}-{len(names)}")
            # Half of what is left each time: other memory may come meanwhile.
            sets.place(
                names[-1], node, max(PIECE_BYTES_MIN, min(PIECE_BYTES, room // 2)), only=True
            )
    sets.heat("hot", HOT_HZ)
    note(f"free: {[inside.free_bytes(node) // MIB for node in range(4)]} MiB")
    daemon = inside.started()

    def up_bytes() -> int:
        where = sets.where("hot")
        return sum(where.get(node, 0) for node in (FAST, OTHER_FAST)) * PAGE

    def down_bytes() -> int:
        return sum(sets.where(name).get(OTHER_SLOW, 0) for name in filled[FAST]) * PAGE

    inside.within(
        lambda: up_bytes() >= HOT_SHARE * HOT_BYTES and down_bytes() >= DOWN_BYTES, BOUND_S
    )
    facts = {
        "up_bytes": up_bytes(),
        "down_bytes": down_bytes(),
        "hot": sets.where("hot"),
        "why": inside.verb("why", str(FAST)).stdout,
        "applied": {
            one["scheme"]: one["applied_bytes_total"] for one in inside.status()["schemes"]
        },
    }
    assert daemon.stop() == 0
    sets.close()
    note(f"{facts}")
    inside.tell(facts)
    return 0


if __name__ == "__main__":
    sys.exit(main())
