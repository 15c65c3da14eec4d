"""Kdamonds that are staged file by file, for behaviours about single files and commands."""

from collections.abc import Callable, Iterable, Mapping

from tests.contract.context import (
    AGGR_US,
    CONTEXT,
    KDAMOND,
    SAMPLE_US,
    SLOW,
    Context,
    Scheme,
    node_ranges,
)
from tests.contract.subject import KDAMONDS, Subject, errno_of
from tierd.sysfs import Sysfs

ATTRS = f"{CONTEXT}/monitoring_attrs"
SCHEME = f"{CONTEXT}/schemes/0"
STATE = f"{KDAMOND}/state"

LOOK_S = 0.05
LOOKS_MAX = 400

# Takes every region at every tick, and does nothing to it.
EVERYTHING = Scheme()

# Every command of `state` that some series has, besides `on` and `off`.
COMMANDS = (
    "commit",
    "commit_schemes_quota_goals",
    "update_schemes_stats",
    "update_schemes_tried_bytes",
    "update_schemes_tried_regions",
    "clear_schemes_tried_regions",
    "update_schemes_effective_quotas",
    "update_tuned_intervals",
)


def bare(subject: Subject) -> Sysfs:
    """One kdamond with one context that nothing was written to."""
    subject.sysfs.write(f"{KDAMONDS}/nr_kdamonds", "1")
    subject.sysfs.write(f"{KDAMOND}/contexts/nr_contexts", "1")
    return subject.sysfs


def stage(subject: Subject, *schemes: Scheme, nid: int = SLOW) -> Context:
    """One kdamond, ready to be turned on: the memory of a node, and a scheme that takes it all."""
    sysfs = bare(subject)
    sysfs.write(f"{CONTEXT}/operations", "paddr")
    sysfs.write(f"{ATTRS}/intervals/sample_us", str(SAMPLE_US))
    sysfs.write(f"{ATTRS}/intervals/aggr_us", str(AGGR_US))
    ranges = node_ranges(sysfs, nid)
    regions(subject, *ranges)
    context = Context(subject, ranges, ())
    context.stage(*(schemes or (EVERYTHING,)))
    return context


def regions(subject: Subject, *ranges: tuple[int, int]) -> None:
    """One target, of these ranges."""
    subject.sysfs.write(f"{CONTEXT}/targets/nr_targets", "1")
    folder = f"{CONTEXT}/targets/0/regions"
    subject.sysfs.write(f"{folder}/nr_regions", str(len(ranges)))
    for index, (start, end) in enumerate(ranges):
        subject.sysfs.write(f"{folder}/{index}/start", str(start))
        subject.sysfs.write(f"{folder}/{index}/end", str(end))


def answer(subject: Subject, word: str, kdamond: int = 0) -> str:
    """Return the result of a command: "ok" or the name of an errno."""
    return taken(subject, f"{KDAMONDS}/{kdamond}/state", word)


def taken(subject: Subject, path: str, value: str) -> str:
    """Return the result of a write: "ok" or the name of an errno."""
    return errno_of(lambda: subject.sysfs.write(path, value))


def answers(subject: Subject, words: Iterable[str] = COMMANDS) -> Mapping[str, str]:
    """Return the result of each command."""
    return {word: answer(subject, word) for word in words}


def until(subject: Subject, happened: Callable[[], bool]) -> None:
    """Look until it has happened, a bounded number of times."""
    for _ in range(LOOKS_MAX):
        if happened():
            return
        subject.clock.sleep(LOOK_S)
    raise AssertionError(f"did not happen in {LOOKS_MAX} looks")


def rounds(context: Context) -> int:
    """Return how often the first scheme was applied; it takes everything."""
    return context.stats()[0].sz_tried // context.size_bytes


def after_rounds(context: Context, more: int) -> None:
    """Wait until the first scheme, which takes everything, was applied this many times more."""
    goal = rounds(context) + more
    context.until(lambda: rounds(context) >= goal)


def ended(subject: Subject) -> None:
    """Return a kdamond that was on and ended by itself, because it has no target process."""
    bare(subject)
    subject.sysfs.write(STATE, "on")
    until(subject, lambda: subject.sysfs.read(STATE) == "off")
