"""Finds out whether the existing kdamonds are ours or foreign, by means of the saved state.

DAMON stores no owner. A kdamond is ours in two cases: it runs with a pid that we recorded in this
boot; or each of its files has a value that we wrote, or were just writing when tierd died.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum

from tierd.errors import Conflict
from tierd.kdamonds.kernel import NR_KDAMONDS, Kernel
from tierd.kdamonds.saved import SavedState
from tierd.machine.neighbours import Kdamond, kdamonds
from tierd.plans.changes import steered, tuned, values
from tierd.plans.damon import Action, Write, Writes

# The values of the files of a new kdamond, by the end of the path. All other files hold 0.
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

# The hint for kdamonds whose owner tierd cannot prove: the user may know it.
ALTERED_HINT = (
    f"if nobody else uses DAMON, `echo 0 > /{NR_KDAMONDS}` removes them; then run `tierd restore`, "
    "or start tierd"
)

_MIGRATES = {Action.migrate_hot, Action.migrate_cold}


class Standing(StrEnum):
    """The owner of the existing kdamonds; `none` if there are no kdamonds."""

    none = "none"
    ours = "ours"
    foreign = "foreign"


def default(path: str) -> str:
    """Return the value of a file in a new kdamond."""
    folder, _, name = path.rpartition("/")
    return _DEFAULTS.get(f"{folder.rpartition('/')[2]}/{name}", _DEFAULTS.get(name, _DEFAULT))


def standing(kernel: Kernel, saved: SavedState | None) -> Standing:
    """Return who owns the existing kdamonds. Only reads; `saved` must be of this boot."""
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
    """True if each file holds a value that we wrote or were writing.

    If tierd died during a change, the value of a new file counts as well.
    """
    known = tuple(values(entry) for entry in lists)
    free = frozenset().union(*(_changing(table) for table in known))
    paths = {path for table in known for path in table} - free
    found = kernel.found(sorted(paths))
    return all(
        any(table.get(path) == value for table in known)
        or (not saved.settled and value == default(path))
        for path, value in found.items()
    )


def altered(kernel: Kernel, saved: SavedState) -> tuple[tuple[Write, str], ...]:
    """Return each of our writes whose file now holds another value, with that value.

    The result is empty unless all kdamonds are off, and their directories are those that we made.
    A result that is not empty means: another program has written into our kdamonds, and may use
    them now. So the caller does not change these kdamonds, and keeps the saved state.
    """
    if any(kernel.status(index).on for index in range(kernel.count())):
        return ()
    for writes in (saved.writes, *saved.former):
        ours = values(writes)
        wanted = {path: ours[path] for path in ours.keys() - _changing(ours)}
        found = kernel.found(wanted)
        if found.keys() == wanted.keys():
            differ = (path for path in wanted if found[path] != wanted[path])
            return tuple((Write(path, wanted[path]), found[path]) for path in differ)
    return ()


def _changing(wanted: Mapping[str, str]) -> frozenset[str]:
    """Return the files whose values change without a change of the plan."""
    states = {path for path in wanted if path.endswith("/state")}
    return tuned(wanted) | steered(wanted) | states


def describe(kdamond: Kdamond) -> str:
    """Return a description of a foreign kdamond, with the program that probably made it."""
    running = f"running, pid {kdamond.pid}" if kdamond.running else "off"
    what = ", ".join((*kdamond.operations, *kdamond.actions)) or "empty"
    return f"kdamond {kdamond.index} ({running}: {what}) {_looks_like(kdamond)}"


def _looks_like(kdamond: Kdamond) -> str:
    actions = set(kdamond.actions)
    if not kdamond.operations:
        return "was created by hand, or by a script that has stopped half way"
    if actions & _MIGRATES:
        return "looks like tiering by damo or HMSDK, or a tierd whose state is lost"
    if "paddr" not in kdamond.operations:
        return "looks like damo, which watches a program"
    if actions - {Action.stat}:
        return "looks like damo with a scheme of its own"
    return "looks like damo, which watches physical memory"


def describe_all(found: Iterable[Kdamond]) -> str:
    return "; ".join(describe(kdamond) for kdamond in found)


def require_ours(kernel: Kernel, saved: SavedState) -> None:
    """Raise Conflict if the existing kdamonds are somebody else's."""
    if standing(kernel, saved) is Standing.foreign:
        raise Conflict(
            f"DAMON has been taken over: {describe_all(kdamonds(kernel.sysfs))}",
            "find out who did it; restart tierd when that program has ended",
        )
