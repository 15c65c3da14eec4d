"""In a guest: four groups of cgroups share the fast memory, and the loud one has most of it.

Each group is a cgroup with a program of its own. First each should come to its share. Then two
groups go idle, and what they do not use is lent. Then they come back. At last 200 cgroups come and
go within a minute. The times are told as they were; what must happen at all is said by the test.
"""

import json
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Any

from tests.contract.sets import WorkloadSets
from tests.e2e import inside
from tests.e2e.inside import ADMIN, MIB, note

FAST, SLOW = 0, 1
CGROUPS = Path("/sys/fs/cgroup")

LOUD = "loud"
QUIET = ("one", "two", "three")
NAMES = (LOUD, *QUIET)

# What each group has on the fast and on the slow node at first. All of a quiet group fits into its
# share. Both nodes have room left: on a full machine nothing can change places.
LOUD_BYTES = (250 * MIB, 10 * MIB)
QUIET_BYTES = (35 * MIB, 30 * MIB)
# So often each page is touched. Two emulated processors can do that for all groups.
HOT_HZ = 6.0

NEAR = 0.95
# Of what the loud group has below when two groups go idle: so much must come up. That is more than
# is free, so idle memory makes room for it.
LENT = 0.9
# Bounds for patience only. The bars are 60, 30 and 60 seconds. In thirteen boots the three took 29
# to 91, 13 to 300, and 10 to 300 s. Whether a group waits for its next chance, which is half a
# minute, or two of them, is chance, and so is what else the host does. So the test asks for what
# comes at last, and docs/benchmarks/history.md has the times.
SHARE_S_MAX = 300.0
LENT_S_MAX = 300.0

# Cgroups that come and go, and how many are there at a time.
CHURNED, CHURN_S, ALIVE = 200, 60.0, 20
CHURN = "churn"
# Each new cgroup should have its filter within two seconds. On a quiet host the longest wait is 1.2
# to 1.8 s. On a busy one the loop may be away for many seconds, and then all that come meanwhile
# wait, so the test asks for the quickest quarter. An earlier law, by which most waited for 6 s and
# more, fails that too. docs/benchmarks/history.md has the waits.
FILTER_S, FILTER_SHARE = 2.0, 0.25
# Seconds after which no filter may name a cgroup that is gone.
CALM_S = 120.0

CLASSES = ", ".join(f"{name}: {{paths: [/{name}]}}" for name in NAMES)
SHARES = f"shares: {{{CLASSES}}}\n"
# A class that may have nothing has filters all the time.
NOTHING = f'shares: {{{CHURN}: {{paths: [/{CHURN}], ceiling: "0%"}}}}\n'


def fast_bytes(name: str) -> int:
    """Return what a group has on the fast node, by the kernel's count."""
    rows = (CGROUPS / name / "memory.numa_stat").read_text().splitlines()
    anon = next(row.split()[1:] for row in rows if row.startswith("anon "))
    return next(int(word.partition("=")[2]) for word in anon if word.startswith(f"N{FAST}="))


def above() -> dict[str, int]:
    return {name: fast_bytes(name) for name in NAMES}


@dataclass(slots=True)
class Seen:
    """What the groups had on the fast node, second by second, since a moment."""

    began_s: float = field(default_factory=time.monotonic)
    least: dict[str, int] = field(default_factory=above)

    def took_s(self, reached: Callable[[Mapping[str, int]], bool], bound_s: float) -> float | None:
        """Return the seconds until something is reached; None if it is not reached in time."""

        def look() -> bool:
            now = above()
            self.least = {name: min(self.least[name], now[name]) for name in now}
            return reached(now)

        done = inside.within(look, bound_s)
        return round(time.monotonic() - self.began_s, 1) if done else None


def shares() -> dict[str, int]:
    return {one["group"]: int(one["share_bytes"]) for one in inside.status()["groups"]}


def group(program: Path, name: str) -> WorkloadSets:
    """Start the program of a group. Its memory is counted in its cgroup."""
    sets = WorkloadSets(program, Path("/var/tmp"))
    sets.ask("flush 2000")
    folder = CGROUPS / name
    folder.mkdir()
    (folder / "cgroup.procs").write_text(str(sets.pid))
    for node, size in zip((FAST, SLOW), LOUD_BYTES if name == LOUD else QUIET_BYTES, strict=True):
        sets.place(f"on-{node}", node, size, only=True)
    return sets


def heat(sets: WorkloadSets, rate_hz: float) -> None:
    for node in (FAST, SLOW):
        sets.heat(f"on-{node}", rate_hz)


def have(now: Mapping[str, int], share: Mapping[str, int], names: tuple[str, ...]) -> bool:
    return all(now[name] >= NEAR * share[name] for name in names)


def shared(groups: Mapping[str, WorkloadSets]) -> dict[str, Any]:
    """Let the groups come to their shares, lend what two of them do not use, and give it back."""
    facts: dict[str, Any] = {"before": above()}
    seen = Seen()
    share = {name: sum(QUIET_BYTES) for name in QUIET}
    facts["share_s"] = seen.took_s(lambda now: have(now, share, QUIET), SHARE_S_MAX)
    facts |= {"with_shares": above(), "shares": shares(), "least": seen.least}
    note(f"shares: {facts}")

    idle, busy = QUIET[:2], QUIET[2]
    before = above()
    wanted = before[LOUD] + LENT * (sum(LOUD_BYTES) - before[LOUD])
    for name in idle:
        heat(groups[name], 0.0)
    seen = Seen()
    facts["lent_s"] = seen.took_s(lambda now: now[LOUD] >= wanted, LENT_S_MAX)
    facts |= {"before_lent": before, "lent": above()}
    note(f"lent: {facts['lent_s']} s, {facts['lent']}")

    for name in idle:
        heat(groups[name], HOT_HZ)
    back = Seen()
    facts["back_s"] = back.took_s(lambda now: have(now, share, QUIET), SHARE_S_MAX)
    facts |= {"back": above(), "busy_least": min(seen.least[busy], back.least[busy])}
    note(f"back: {facts['back_s']} s, {facts['back']}")
    return facts


def filtered() -> set[str]:
    """Return the cgroups that have a filter of DAMON."""
    paths = ADMIN.glob("*/contexts/*/schemes/*/*filters/*/memcg_path")
    return {inside.text(path) or "" for path in paths}


def churn() -> dict[str, Any]:
    """Make and remove cgroups, and see how long each waits for its filter."""
    top = CGROUPS / CHURN
    alive: dict[str, float] = {}
    waited: list[float] = []
    gone: set[str] = set()
    missed: list[str] = []
    began_s = time.monotonic()
    for number in range(CHURNED):
        time.sleep(max(0.0, began_s + number * CHURN_S / CHURNED - time.monotonic()))
        now_s, known = time.monotonic(), filtered()
        waited += [round(now_s - alive.pop(name), 1) for name in list(alive) if name in known]
        alive[f"/{CHURN}/{number}"] = now_s
        (top / str(number)).mkdir()
        if number >= ALIVE:
            name = f"/{CHURN}/{number - ALIVE}"
            (top / str(number - ALIVE)).rmdir()
            gone.add(name)
            if alive.pop(name, None) is not None and name not in filtered():
                missed.append(name)
    took_s = round(time.monotonic() - began_s, 1)
    inside.within(lambda: not gone & filtered(), CALM_S)
    left = sorted(gone & filtered())
    kept = {f"/{CHURN}/{number}" for number in range(CHURNED - ALIVE, CHURNED)}
    inside.within(lambda: kept <= filtered(), CALM_S)
    return {
        "churn_s": took_s,
        "waited": sorted(waited),
        "missed": missed,
        "leaked": left,
        "followed": len(kept & filtered()),
    }


def waited_s(churned: Mapping[str, Any]) -> float:
    """Return the wait for a filter that FILTER_SHARE of all cgroups did not exceed.

    Some never had one. Where the guest was late to make cgroups, its seconds are longer.
    """
    waits, enough = churned["waited"], int(FILTER_SHARE * CHURNED)
    if len(waits) < enough:
        return inf
    pace: float = max(1.0, churned["churn_s"] / CHURN_S)
    longest: float = waits[enough - 1]
    return longest / pace


def main() -> int:
    sets = inside.begin()
    (CGROUPS / "cgroup.subtree_control").write_text("+memory")
    groups = {name: group(sets.program, name) for name in NAMES}
    for one in groups.values():
        heat(one, HOT_HZ)
    inside.configure(SHARES)
    daemon = inside.started()
    facts = shared(groups)
    facts["degraded"] = inside.status()["degraded"]
    facts["exit"] = daemon.stop()
    for one in groups.values():
        one.close()

    top = CGROUPS / CHURN
    top.mkdir()
    (top / "cgroup.subtree_control").write_text("+memory")
    inside.configure(NOTHING)
    daemon = inside.started()
    facts["churn"] = churn()
    note(f"churn: {json.dumps(facts['churn'])}")
    status = inside.status()
    facts["state"] = status["state"]
    facts["died"] = [one for one in status["events"] if one["event"] == "kdamond_died"]
    facts["churn_exit"] = daemon.stop()
    inside.tell(facts)
    return 0


if __name__ == "__main__":
    sys.exit(main())
