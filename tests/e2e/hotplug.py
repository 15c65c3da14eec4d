"""In a guest whose slow node is a memory module: it leaves and comes back while tierd runs."""

import sys
import time
from pathlib import Path
from typing import Any

from tests.contract.sets import PAGE
from tests.e2e import inside
from tests.e2e.inside import MIB, note

SLOW = Path("/sys/devices/system/node/node1")
HOT_BYTES = 24 * MIB
HOT_HZ = 60.0

# tierd gets the uevent of a block, waits 1 to 3 s for the other blocks, and plans. A slow guest
# needs more time.
BOUND_S = 60.0


def blocks() -> list[Path]:
    return sorted(SLOW.glob("memory[0-9]*"), key=lambda path: int(path.name[6:]))


def switch(wanted: list[Path], state: str) -> list[str]:
    """Bring blocks into a state. Return the names of the blocks that refused."""
    refused = []
    for block in wanted:
        if (block / "state").read_text().strip() == state:
            continue
        try:
            (block / "state").write_text("online_movable" if state == "online" else "offline")
        except OSError as error:
            note(f"{block.name}: {error}")
            refused.append(block.name)
    return refused


def planned() -> int:
    """Return how often the daemon has made a new plan because memory came or went."""
    shown = inside.status()
    return sum(event["event"] == "replanned" for event in shown["events"])


def followed(change: int) -> dict[str, Any]:
    """Wait until DAMON's files hold a plan for the machine as it is now."""
    began_s = time.monotonic()

    def agreed() -> bool:
        return planned() >= change and inside.verb("plan", "--diff").returncode == 0

    agreed_in_time = inside.within(agreed, BOUND_S)
    shown = inside.status()
    note(f"{shown['state']}: {shown['reason']}")
    return {
        "followed": agreed_in_time,
        "took_s": round(time.monotonic() - began_s, 1),
        "state": shown["state"],
        "reason": shown["reason"],
        "events": shown["events"],
        "nr_kdamonds": inside.text(inside.COUNT),
        "slow_bytes": inside.total_bytes(1) if SLOW.exists() else 0,
    }


def main() -> int:
    sets = inside.begin()
    note(f"{len(blocks())} blocks, {[(b / 'state').read_text().strip() for b in blocks()]}")
    facts: dict[str, Any] = {"refused": switch(blocks(), "online"), "blocks": len(blocks())}
    facts["tiers"] = inside.verb("tiers").stdout
    facts["neighbourhood_before"] = inside.neighbourhood()
    daemon = inside.started()
    note(facts["tiers"])

    half = blocks()[len(blocks()) // 2 :]
    facts["half_refused"] = switch(half, "offline")
    facts["half"] = followed(1)
    facts["half_back_refused"] = switch(half, "online")
    facts["half_back"] = followed(2)

    facts["all_refused"] = switch(blocks(), "offline")
    began_s = time.monotonic()
    facts["noticed"] = inside.within(lambda: inside.status()["state"] == "degraded", BOUND_S)
    facts["noticed_s"] = round(time.monotonic() - began_s, 1)
    facts["gone"] = inside.status()
    facts["gone_tree"] = inside.text(inside.COUNT)
    note(f"{facts['gone']['state']}: {facts['gone']['reason']}")
    facts["back_refused"] = switch(blocks(), "online")
    inside.within(daemon.active, BOUND_S)
    facts["back"] = followed(2)

    sets.place("hot", 1, HOT_BYTES, only=True)
    sets.heat("hot", HOT_HZ)
    pages = HOT_BYTES // PAGE
    inside.within(lambda: sets.where("hot").get(0, 0) >= 0.9 * pages, 120.0)
    facts["hot"] = sets.where("hot")
    facts["exit"] = daemon.stop()
    facts["neighbourhood_after"] = inside.neighbourhood()
    sets.close()
    inside.tell(facts)
    return 0


if __name__ == "__main__":
    sys.exit(main())
