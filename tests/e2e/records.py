"""In a guest: profiles, with a hot set of known size on the slow node.

Of `tierd record`; or, with `--by-region`, of a running tierd, and of damon_stat if there is one.
"""

import sys
from pathlib import Path
from typing import Any

from tests.e2e import inside
from tests.e2e.inside import MIB

HOT_BYTES = 256 * MIB
# One emulated processor can touch so many pages so often.
HOT_HZ = 4.0
PROFILE = Path("/tmp/profile.jsonl")
KEPT = Path("/var/lib/tierd/profile.jsonl")


def by_page() -> dict[str, Any]:
    before = inside.neighbourhood()
    done = inside.verb("record", str(PROFILE), "--for", "2m")
    return {
        "record": [done.returncode, done.stdout, done.stderr],
        "left": [before, inside.neighbourhood()],
        "profile": inside.text(PROFILE),
    }


def by_region() -> dict[str, Any]:
    facts: dict[str, Any] = {"damon_stat": None}
    if inside.text(inside.DAMON_STAT) is not None:
        inside.put(inside.DAMON_STAT, "Y")
        done = inside.verb("record", str(PROFILE), "--damon-stat", "--for", "1m")
        facts["damon_stat"] = {
            "record": [done.returncode, done.stdout, done.stderr],
            "profile": inside.text(PROFILE),
            "kdamonds": inside.text(inside.COUNT),
        }
    # A minute begins with the first tick, and all of tierd starts slowly here.
    done = inside.verb("observe", "--for", "100s")
    facts["observe"] = [done.returncode, done.stderr]
    facts["profile"] = inside.text(KEPT)
    return facts


def main() -> int:
    sets = inside.begin()
    inside.configure("")
    sets.place("hot", 1, HOT_BYTES, only=True)
    sets.heat("hot", HOT_HZ)
    facts = by_region() if "--by-region" in sys.argv else by_page()
    inside.tell({**facts, "where": sets.where("hot")})
    return 0


if __name__ == "__main__":
    sys.exit(main())
