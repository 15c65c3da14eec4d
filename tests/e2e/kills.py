"""In a guest: kill -9 at moments drawn from a seed, and what is left after each kill.

If no kdamond exists yet, the moment is between the first record on disk and the last kdamond turned
on, because all writes of tierd are there. Else it is at any time from the start of Python on.
"""

import random
import sys
import time
from collections.abc import Callable
from typing import Any

from tests.e2e import inside
from tests.e2e.inside import ADMIN, Daemon, note
from tierd.plans.damon import Command
from tierd.plans.plan import GROWING_INPUT

SEED = 3
KILLS = 20

# Seconds in which Python starts, tierd adopts what runs, and ticks a few times, in a guest.
LATER_S = 5.0


def quotas() -> list[list[str | None]]:
    """Return action, quota and effective quota of each scheme that could move pages.

    Only kdamonds that run count. The kernel updates the effective quotas first.
    """
    found = []
    for kdamond in sorted(ADMIN.glob("[0-9]*")):
        if inside.text(kdamond / "state") != "on":
            continue
        inside.put(kdamond / "state", "update_schemes_effective_quotas")
        for scheme in sorted(kdamond.glob("contexts/0/schemes/[0-9]*")):
            names = ("action", "quotas/bytes", "quotas/effective_bytes")
            action, *limits = (inside.text(scheme / name) for name in names)
            if action != "stat":
                found.append([action, *limits])
    return found


def once(number: int, chance: random.Random, build_s: float) -> dict[str, Any]:
    """Start the daemon, kill it at some moment, and return what is left."""
    before = inside.pids()
    daemon = Daemon(inside.LOG)
    if before:
        at_s = chance.uniform(0, LATER_S)
    elif number % 4:
        at_s = chance.uniform(0, build_s)
        soon(inside.STATE.exists)
    else:
        # Just after the first write to DAMON's files, so that some kills surely fall between two
        # writes.
        at_s = chance.uniform(0, build_s / 4)
        soon(lambda: inside.text(inside.COUNT) != "0")
    time.sleep(at_s)
    daemon.kill()
    return {
        "at_s": round(at_s, 3),
        "before": before,
        "nr": inside.text(inside.COUNT),
        "after": inside.pids(),
        "saved": inside.text(inside.STATE) is not None,
        "quotas": quotas(),
    }


def soon(reached: Callable[[], bool]) -> None:
    """Wait for something that tierd does, and return within milliseconds of it."""
    end_s = time.monotonic() + inside.PATIENCE_S
    while not reached():
        if time.monotonic() > end_s:
            raise inside.Late("tierd recorded nothing")
        time.sleep(0.002)


def built() -> float:
    """Return how many seconds tierd takes from its first record until all kdamonds run."""
    daemon = Daemon(inside.LOG)
    soon(inside.STATE.exists)
    began_s = time.monotonic()
    inside.wait_for("kdamonds", lambda: len(inside.pids()) == 2 and -1 not in inside.pids())
    took_s = time.monotonic() - began_s
    daemon.kill()
    return took_s


def while_growing() -> dict[str, Any]:
    """Kill tierd, let quotas grow to their limits, and then restore as the systemd unit does.

    tierd has inputs by which quotas grow there only for tenths of a second. So they are written
    here.
    """
    inside.started().kill()
    for kdamond in sorted(ADMIN.glob("[0-9]*")):
        for goal in kdamond.glob("contexts/0/schemes/[0-9]*/quotas/goals/0/current_value"):
            inside.put(goal, str(GROWING_INPUT))
        inside.put(kdamond / "state", Command.commit_goals)
    inside.wait_for("quotas to grow", lambda: all(limit == now for _, limit, now in quotas()))
    grown = quotas()
    told = inside.verb("restore", "--after-service", SERVICE_RESULT="signal")
    # A sweep that is closed by `temporal` has no quota at all.
    inside.wait_for("their end", lambda: all(now in ("0", "1") for _, _, now in quotas()))
    return {"grown": grown, "told": [told.returncode, told.stdout], "pids": inside.pids()}


def main() -> int:
    inside.begin()
    chance = random.Random(SEED)
    facts: dict[str, Any] = {"neighbourhood_before": inside.neighbourhood(), "kills": []}
    build_s = built()
    note(f"the tree takes {build_s:.2f} s")
    inside.verb("restore")
    for number in range(KILLS):
        kill = once(number, chance, build_s)
        facts["kills"].append(kill)
        if number % 2:
            # The next start begins without kdamonds, or else all later starts would adopt.
            kill["restored"] = inside.verb("restore").returncode
            kill["left"] = inside.neighbourhood()
        note(f"{kill}")
    facts["growing"] = while_growing()
    note(f"killed while quotas grew: {facts['growing']}")
    held = inside.started()
    facts["pids_running"] = inside.pids()
    held.kill()
    again = inside.started()
    facts["pids_adopted"] = inside.pids()
    facts["diff"] = inside.verb("plan", "--diff").returncode
    facts["reason"] = inside.status()["reason"]
    again.kill()
    restored = inside.verb("restore")
    facts["restored"] = [restored.returncode, restored.stdout + restored.stderr]
    facts["neighbourhood_after"] = inside.neighbourhood()
    inside.tell(facts)
    return 0


if __name__ == "__main__":
    sys.exit(main())
