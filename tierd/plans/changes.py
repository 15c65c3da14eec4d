"""The smallest change from what the kernel holds to a list of writes.

Rules of this file:
1. Pure: the values of the kernel's files are an argument, as text by path.
2. Writing another count (nr_*) empties its directory, so all files below it are written again.
3. Files that DAMON itself writes (tuned intervals), readings (current_value) and gates are not
   compared.
"""

import re
from collections.abc import Iterable, Mapping
from enum import IntEnum

from tierd.frozen import dataclass
from tierd.machine.features import KDAMONDS
from tierd.plans.damon import Write, Writes


class ChangeMethod(IntEnum):
    """What a change needs to take effect, from least to most."""

    none = 0
    goals = 1
    """The command commit_schemes_quota_goals. DAMON keeps its timers, regions and statistics."""
    commit = 2
    """The command commit. DAMON keeps its regions and statistics; some kernels restart timers."""
    restart = 3
    """The kdamonds are turned off, built anew and turned on. DAMON loses its regions."""


# Files that a commit does not carry over on every kernel. 6.12 gives a new goal an undefined value
# (damos_commit_quota_goals()), and 6.16 does not copy the node number of a goal.
_STRUCTURE = re.compile(
    r"/(nr_(kdamonds|contexts|targets|schemes|goals)|operations|goals/\d+/(target_metric|nid))$"
)
_COUNT = re.compile(r"/nr_(kdamonds|contexts|targets|regions|schemes|goals|filters)$")
_GOAL_VALUE = re.compile(r"/quotas/goals/\d+/target_value$")
_READING = re.compile(r"/quotas/goals/\d+/current_value$")
_GATE = re.compile(r"/watermarks/(high|mid)$")
_QUOTA = "/quotas/bytes"
_TUNED = ("/intervals/sample_us", "/intervals/aggr_us")
_INTERVALS_GOAL = "intervals_goal/access_bp"
_KDAMOND = re.compile(re.escape(KDAMONDS) + r"/(\d+)/")


@dataclass(frozen=True, slots=True)
class Change:
    """The writes of a change, in order, and the kdamonds that need a command after them."""

    method: ChangeMethod
    stage: Writes
    kdamonds: tuple[int, ...]


def kdamond_of(path: str) -> int | None:
    """Return the index of the kdamond that a path belongs to; None for nr_kdamonds."""
    match = _KDAMOND.match(path)
    return None if match is None else int(match[1])


def is_state(write: Write) -> bool:
    return write.path.endswith("/state")


def is_count(path: str) -> bool:
    """True if writing the file makes new, empty, numbered directories beside it."""
    return _COUNT.search(path) is not None


def is_gate(path: str) -> bool:
    """True if the file opens and closes a gated scheme."""
    return _GATE.search(path) is not None


def is_filter(path: str) -> bool:
    """True if the file belongs to the filters of a scheme."""
    return "/schemes/" in path and "filters/" in path


def is_input(path: str) -> bool:
    """True if the file tells a scheme what to do now: the reading of a goal, or a gate."""
    return _READING.search(path) is not None or is_gate(path)


def steered(paths: Iterable[str]) -> frozenset[str]:
    """Return the files whose values tierd changes without a change of the plan.

    These are inputs, and the quotas of gated schemes, which set their speeds.
    """
    inputs = {path for path in paths if is_input(path)}
    speeds = {_GATE.sub(_QUOTA, path) for path in inputs if is_gate(path)}
    return frozenset(inputs | speeds)


def values(writes: Iterable[Write]) -> dict[str, str]:
    """Return the values of the writes by path."""
    return {write.path: write.value for write in writes}


def tunes_itself(writes: Iterable[Write]) -> frozenset[int | None]:
    """Return the kdamonds whose intervals the kernel itself may change after these writes."""
    intervals = (write for write in writes if "/intervals/" in write.path)
    return frozenset(kdamond_of(path) for path in tuned(values(intervals)))


def tuned(wanted: Mapping[str, str]) -> frozenset[str]:
    """Return the interval files that the kernel itself may change under these values."""
    return frozenset(
        path
        for path in wanted
        if path.endswith(_TUNED)
        and wanted.get(f"{path.rpartition('/')[0]}/{_INTERVALS_GOAL}", "0") != "0"
    )


def difference(found: Mapping[str, str], wanted: Writes) -> Change:
    """Return the change from the values found to those wanted. `found` lacks absent files."""
    loose = _loose(found, values(wanted))
    emptied: set[str] = set()
    stage: list[Write] = []
    method = ChangeMethod.none
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
        method = max(method, _method(write.path) if differs else ChangeMethod.none)
    touched = {kdamond_of(write.path) for write in stage} - {None}
    return Change(
        method, tuple(stage), tuple(sorted(index for index in touched if index is not None))
    )


def _loose(found: Mapping[str, str], wanted: Mapping[str, str]) -> frozenset[str]:
    """Return the files that may hold another value than wanted.

    These are readings, gates, and intervals that the kernel tunes. If the goal of that tuning
    changes, the intervals must start over, so they are not among them.
    """
    free = set()
    for path in tuned(wanted):
        folder = path.rpartition("/")[0]
        goal = [p for p in wanted if p.startswith(f"{folder}/intervals_goal/")]
        if all(found.get(p) == wanted[p] for p in goal):
            free.add(path)
    return frozenset(free | {path for path in wanted if is_input(path)})


def _method(path: str) -> ChangeMethod:
    if _STRUCTURE.search(path):
        return ChangeMethod.restart
    return ChangeMethod.goals if _GOAL_VALUE.search(path) else ChangeMethod.commit
