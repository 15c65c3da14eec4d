"""The smallest change that makes one list of writes out of another.

Rules of this file:
1. Pure: what the kernel holds now comes in as text by path.
2. A count (nr_*) that changes empties its directory, so all that is below is written again.
3. What DAMON itself writes (tuned intervals) or what is a reading (current_value) is no difference.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum

from tierd.machine.observe import KDAMONDS
from tierd.plans.damon import Write, Writes


class Kind(IntEnum):
    """How much must happen for a change to take effect, least first."""

    none = 0
    goals = 1
    """commit_schemes_quota_goals: touches no timer, no region, no statistics."""
    commit = 2
    """commit: keeps regions, their ages and statistics; on some kernels timers start again."""
    restart = 3
    """off, a new tree, on: everything learned is lost."""


# Differences that a commit does not carry over on every kernel: a goal that is new has a value out
# of thin air on 6.12 (damos_commit_quota_goals()), and a node number that is not copied on 6.16.
_STRUCTURE = re.compile(
    r"/(nr_(kdamonds|contexts|targets|schemes|goals)|operations|goals/\d+/(target_metric|nid))$"
)
_COUNT = re.compile(r"/nr_(kdamonds|contexts|targets|regions|schemes|goals|filters)$")
_GOAL_VALUE = re.compile(r"/quotas/goals/\d+/target_value$")
_READING = re.compile(r"/quotas/goals/\d+/current_value$")
_TUNED = re.compile(r"/intervals/(sample_us|aggr_us)$")
_INTERVALS_GOAL = "intervals_goal/access_bp"
_KDAMOND = re.compile(re.escape(KDAMONDS) + r"/(\d+)/")


@dataclass(frozen=True, slots=True)
class Change:
    """What to write, in order, and what must follow on which kdamonds."""

    kind: Kind
    stage: Writes
    kdamonds: tuple[int, ...]


def kdamond_of(path: str) -> int | None:
    """The index of the kdamond that a path belongs to; None for nr_kdamonds."""
    match = _KDAMOND.match(path)
    return None if match is None else int(match[1])


def is_state(write: Write) -> bool:
    return write.path.endswith("/state")


def is_count(path: str) -> bool:
    """Whether writing there makes the numbered directories beside it, empty."""
    return _COUNT.search(path) is not None


def values(writes: Iterable[Write]) -> dict[str, str]:
    return {write.path: write.value for write in writes}


def tuned(wanted: Mapping[str, str]) -> frozenset[str]:
    """The interval files that the kernel may change by itself under this list of writes."""
    return frozenset(
        path
        for path in wanted
        if _TUNED.search(path)
        and wanted.get(f"{path.rpartition('/')[0]}/{_INTERVALS_GOAL}", "0") != "0"
    )


def difference(found: Mapping[str, str], wanted: Writes) -> Change:
    """The change from what is found to what is wanted; what is not found is absent."""
    loose = _loose(found, values(wanted))
    emptied: set[str] = set()
    stage: list[Write] = []
    kind = Kind.none
    for write in wanted:
        if is_state(write):
            continue
        renewed = any(write.path.startswith(folder) for folder in emptied)
        differs = write.path not in loose and found.get(write.path) != write.value
        if not (renewed or differs):
            continue
        stage.append(write)
        if is_count(write.path):
            emptied.add(write.path.rpartition("/")[0] + "/")
        kind = max(kind, _kind(write.path) if differs else Kind.none)
    touched = {kdamond_of(write.path) for write in stage} - {None}
    return Change(
        kind, tuple(stage), tuple(sorted(index for index in touched if index is not None))
    )


def _loose(found: Mapping[str, str], wanted: Mapping[str, str]) -> frozenset[str]:
    """Paths whose value is not ours to insist on.

    Intervals are tuned only while the goal they are tuned by stays: a new goal starts them over.
    """
    free = set()
    for path in tuned(wanted):
        folder = path.rpartition("/")[0]
        goal = [p for p in wanted if p.startswith(f"{folder}/intervals_goal/")]
        if all(found.get(p) == wanted[p] for p in goal):
            free.add(path)
    return frozenset(free | {path for path in wanted if _READING.search(path)})


def _kind(path: str) -> Kind:
    if _STRUCTURE.search(path):
        return Kind.restart
    return Kind.goals if _GOAL_VALUE.search(path) else Kind.commit
