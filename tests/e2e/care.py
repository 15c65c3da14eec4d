"""In a guest: the configuration changes and kdamonds die while the daemon runs."""

import signal
import sys
import time
from functools import partial
from typing import Any

from tests.e2e import inside
from tests.e2e.inside import ADMIN, Daemon, note

GOOD = "neighbours: {demotion_enabled: on}\n"
FASTER = "neighbours: {demotion_enabled: on}\nrate_limit: 50MB/s\n"
SLOWER = "neighbours: {demotion_enabled: on}\nrate_limit: 20MB/s\n"
BAD = "rate_limt: 50MB/s\n"

# After each death tierd waits twice as long as after the one before, beginning with a second.
DEATHS = 3


def quota() -> int:
    """Return the quota of the first scheme that moves pages. The schemes before it only count."""
    schemes = sorted(ADMIN.glob("0/contexts/0/schemes/[0-9]*"))
    first = next(scheme for scheme in schemes if inside.text(scheme / "action") != "stat")
    return int(inside.text(first / "quotas/bytes") or 0)


def events(name: str) -> list[dict[str, Any]]:
    return [event for event in inside.status()["events"] if event["event"] == name]


def reloads(daemon: Daemon) -> dict[str, Any]:
    """Load good and bad configurations, by the command and by the signal."""
    seen: dict[str, Any] = {"at_first": quota(), "pids": inside.pids()}
    inside.configure(FASTER)
    good = inside.verb("reload")
    seen["good"] = [good.returncode, good.stdout + good.stderr, quota()]
    inside.configure(BAD)
    bad = inside.verb("reload")
    seen["bad"] = [bad.returncode, bad.stdout + bad.stderr, quota()]
    daemon.process.send_signal(signal.SIGHUP)
    inside.wait_for("the refusal", lambda: len(events("reload_failed")) == 2)
    seen["bad_by_signal"] = [quota(), daemon.process.poll(), inside.status()["state"]]
    inside.configure(SLOWER)
    daemon.process.send_signal(signal.SIGHUP)
    # DAMON's file has the new value before the change is complete. The event comes when it is.
    inside.wait_for("the second reload", lambda: len(events("reload")) == 2)
    seen["good_by_signal"] = quota()
    seen["pids_after"] = inside.pids()
    return seen


def deaths() -> dict[str, Any]:
    """Turn a kdamond off again and again, and measure how long tierd waits to turn it on."""
    waits = []
    for death in range(1, DEATHS + 1):
        inside.put(ADMIN / "0/state", "off")
        began_s = time.monotonic()
        inside.wait_for("another start", partial(started, death))
        waits.append(round(time.monotonic() - began_s, 2))
        note(f"started again after {waits[-1]}")
    inside.wait_for("no trouble", lambda: inside.status()["state"] == "active")
    shown = inside.status()
    return {
        "waits": waits,
        "died": [event["at"] for event in events("kdamond_died")],
        "started": [event["at"] for event in events("kdamond_started")],
        "kdamonds": shown["kdamonds"],
        "pids": inside.pids(),
        "text": inside.verb("status").stdout,
        "diff": inside.verb("plan", "--diff").returncode,
    }


def started(times: int) -> bool:
    kdamonds = inside.status()["kdamonds"]
    return bool(kdamonds) and kdamonds[0]["restarts_total"] >= times


def main() -> int:
    inside.begin()
    inside.configure(GOOD)
    facts: dict[str, Any] = {"neighbourhood_before": inside.neighbourhood()}
    daemon = inside.started()
    facts["neighbourhood_running"] = inside.neighbourhood()
    second = inside.verb("run")
    facts["second"] = [second.returncode, second.stderr]
    facts["reloads"] = reloads(daemon)
    facts["deaths"] = deaths()
    facts["exit"] = daemon.stop()
    facts["neighbourhood_after"] = inside.neighbourhood()
    inside.configure(BAD)
    refused = inside.verb("run")
    facts["bad_start"] = [refused.returncode, refused.stderr]
    inside.tell(facts)
    return 0


if __name__ == "__main__":
    sys.exit(main())
