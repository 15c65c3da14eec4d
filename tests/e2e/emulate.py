"""In a guest: the same goals steered by the kernel, and then by tierd, on the same node fill.

Nothing is hot below, so that nothing moves and the fill stays; the promotion scheme's quota grows
by what is missing of its goal, and each of its values is seen.
"""

import sys
import time
from typing import Any

from tests.e2e import inside
from tests.e2e.inside import ADMIN, note

# A tenth of the node is missing: a quota grows by a tenth per window, from a byte to some thousand
# bytes in ninety windows.
FREE_SHARE = 0.1
WINDOWS = 90

# Windows of 200 ms: each is looked at several times.
CONFIG = """tuner: {tuner}
loop: {{window: 200ms}}
monitoring: {{auto_intervals: off}}
"""
LOOK_S = 0.04
BOUND_S = 240.0

PROMOTION = ADMIN / "1/contexts/0/schemes/0"
STATE = ADMIN / "1/state"


def steered_by(tuner: str) -> dict[str, Any]:
    """The quota's values in their order, each once."""
    inside.configure(CONFIG.format(tuner=tuner))
    daemon = inside.started()
    values: list[int] = []
    free: list[int] = []
    end_s = time.monotonic() + BOUND_S
    while len(values) < WINDOWS and time.monotonic() < end_s:
        inside.put(STATE, "update_schemes_effective_quotas")
        value = int(inside.text(PROMOTION / "quotas/effective_bytes") or 0)
        if not values or value != values[-1]:
            values.append(value)
            free.append(inside.free_bytes(0))
        time.sleep(LOOK_S)
    note(f"{tuner}: {len(values)} values, up to {values[-1]}")
    shown = inside.status()
    metric = inside.text(PROMOTION / "quotas/goals/0/target_metric")
    return {
        "values": values,
        "free": free,
        "tuner": shown["tuner"],
        "metric": metric,
        "exit": daemon.stop(),
    }


def main() -> int:
    sets = inside.begin()
    keep = int(inside.total_bytes(0) * FREE_SHARE)
    sets.place("cold", 0, inside.free_bytes(0) - keep)
    facts = {tuner: steered_by(tuner) for tuner in ("kernel", "emulated")}
    facts["total"] = {"bytes": inside.total_bytes(0)}
    sets.close()
    inside.tell(facts)
    return 0


if __name__ == "__main__":
    sys.exit(main())
