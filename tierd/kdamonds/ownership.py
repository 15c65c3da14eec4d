"""Whose kdamonds are there: ours, as the saved state proves, or somebody else's.

DAMON keeps no owner. A kdamond is ours if it runs with a pid that we noted in this boot, or if
every value below it is one that we wrote, or were writing when we died.
"""

from collections.abc import Iterable
from enum import StrEnum

from tierd.kdamonds.kernel import NR_KDAMONDS, Kernel
from tierd.kdamonds.saved import SavedState
from tierd.machine.neighbours import Kdamond
from tierd.plans.changes import tuned, values
from tierd.plans.damon import Action, Writes

# What new objects hold. Other files start at 0, and paths at nothing.
_DEFAULTS = {
    "sample_us": "5000",
    "aggr_us": "100000",
    "update_us": "60000000",
    "nr_regions/min": "10",
    "nr_regions/max": "1000",
    "operations": "vaddr",
    "pause": "N",
    "action": "stat",
    "target_nid": "-1",
    "goal_tuner": "consist",
    "target_metric": "user_input",
    "metric": "none",
    "type": "anon",
    "matching": "N",
    "allow": "N",
    "memcg_path": "",
}
_DEFAULT = "0"

_MIGRATES = {Action.migrate_hot, Action.migrate_cold}


class Standing(StrEnum):
    """What the kdamonds that exist are to us."""

    none = "none"
    ours = "ours"
    foreign = "foreign"


def default(path: str) -> str:
    """What a file of a new object holds."""
    folder, _, name = path.rpartition("/")
    return _DEFAULTS.get(f"{folder.rpartition('/')[2]}/{name}", _DEFAULTS.get(name, _DEFAULT))


def standing(kernel: Kernel, saved: SavedState | None) -> Standing:
    """Whether the kdamonds that exist are ours; only reads. `saved` is of this boot."""
    count = kernel.count()
    if count == 0:
        return Standing.none
    if saved is None:
        return Standing.foreign
    lists = (saved.writes, *saved.former)
    if str(count) not in {values(entry).get(NR_KDAMONDS) for entry in lists}:
        return Standing.foreign
    statuses = [kernel.status(index) for index in range(count)]
    if any(status.on and status.pid in saved.pids for status in statuses):
        return Standing.ours
    return Standing.ours if _ours_by_content(kernel, saved, lists) else Standing.foreign


def _ours_by_content(kernel: Kernel, saved: SavedState, lists: tuple[Writes, ...]) -> bool:
    """Whether every file holds what we wrote, or were writing, or what a new one holds.

    The last only counts while a change was under way.
    """
    known = tuple(values(entry) for entry in lists)
    free = frozenset().union(*(tuned(table) for table in known))
    paths = {path for table in known for path in table if not _moves(path)} - free
    found = kernel.found(sorted(paths))
    return all(
        any(table.get(path) == value for table in known)
        or (not saved.settled and value == default(path))
        for path, value in found.items()
    )


def _moves(path: str) -> bool:
    """Whether a file changes by commands rather than by settings."""
    return path.endswith(("/state", "/current_value"))


def describe(kdamond: Kdamond) -> str:
    """A kdamond that is not ours, and whose it looks like."""
    running = f"running, pid {kdamond.pid}" if kdamond.running else "off"
    what = ", ".join((*kdamond.operations, *kdamond.actions)) or "empty"
    return f"kdamond {kdamond.index} ({running}: {what}) {_looks_like(kdamond)}"


def _looks_like(kdamond: Kdamond) -> str:
    actions = set(kdamond.actions)
    if not kdamond.operations:
        return "was created by hand or by a script that has not gone on"
    if actions & _MIGRATES:
        return "looks like tiering by damo or HMSDK, or a tierd whose state is lost"
    if "paddr" not in kdamond.operations:
        return "looks like damo watching a program"
    if actions - {Action.stat}:
        return "looks like damo with a scheme of its own"
    return "looks like damo watching physical memory"


def describe_all(kdamonds: Iterable[Kdamond]) -> str:
    return "; ".join(describe(kdamond) for kdamond in kdamonds)
