"""What a running kdamond reports: updates by command, updates by itself, and a pause."""

from tests.contract.behaviour import behaviour, since
from tests.contract.context import CONTEXT, KDAMOND, MIB, Goal, Scheme
from tests.contract.staging import (
    EVERYTHING,
    SCHEME,
    after_rounds,
    rounds,
    stage,
    until,
)
from tests.contract.subject import Subject

REFRESH_MS = 100
# So many refreshes or intervals fit in, whatever else the machine does meanwhile.
QUIET_S = 1.0


@behaviour(
    cites="damos_walk_call_walk(), damon_sysfs_schemes_tried_regions_upd_one()",
    expect={"whole target": True, "total_bytes": True, "in order": True, "after clear": []},
)
def tried_regions(subject: Subject) -> dict[str, bool | list[str]]:
    """update_schemes_tried_regions shows each region that a scheme takes in its next interval, and
    their size; clear_schemes_tried_regions removes them.
    """
    context = stage(subject)
    context.command("on")
    shown = context.tried_regions(0)
    folder = f"{SCHEME}/tried_regions"
    total = int(subject.sysfs.read(f"{folder}/total_bytes"))
    context.command("clear_schemes_tried_regions")
    left = [name for name in subject.sysfs.listdir(folder) if name.isdigit()]
    size_bytes = sum(region.end - region.start for region in shown)
    starts = [region.start for region in shown]
    return {
        "whole target": size_bytes == context.size_bytes,
        "total_bytes": total == size_bytes,
        "in order": starts == sorted(starts),
        "after clear": left,
    }


@behaviour(
    cites="damos_sysfs_populate_region_dir(): nr_regions++ of kobject_init_and_add()",
    expect=since({"6.12": ["0", "1", "2"], "6.16": ["1", "3", "5"], "7.2": ["0", "1", "2"]}),
)
def numbers_of_tried_regions(subject: Subject) -> list[str]:
    """The directories of tried regions are numbered from 0; 6.16 and 6.18 count each twice."""
    context = stage(subject)
    context.command("on")
    # By then the one region that there was at first has been split into several.
    after_rounds(context, 10)
    context.command("update_schemes_tried_regions")
    names = subject.sysfs.listdir(f"{SCHEME}/tried_regions")
    return [str(number) for number in sorted(int(name) for name in names if name.isdigit())[:3]]


@behaviour(
    cites="damon_sysfs_repeat_call_fn()",
    expect=since({"6.12": "no refresh_ms", "6.18": {"off": "0", "refreshed": True}}),
)
def refreshed(subject: Subject) -> str | dict[str, str | bool]:
    """With refresh_ms the files of statistics are updated by themselves; otherwise they are not."""
    context = stage(subject)
    path = f"{SCHEME}/stats/sz_tried"
    if not subject.sysfs.exists(f"{KDAMOND}/refresh_ms"):
        return "no refresh_ms"
    context.command("on")
    subject.clock.sleep(QUIET_S)
    unasked = subject.sysfs.read(path)
    context.command("off")
    subject.sysfs.write(f"{KDAMOND}/refresh_ms", str(REFRESH_MS))
    context.command("on")
    until(subject, lambda: subject.sysfs.read(path) != "0")
    return {"off": unasked, "refreshed": True}


@behaviour(
    cites="kdamond_fn(): ctx->pause",
    expect=since(
        {"6.12": "no pause", "7.2": {"stands still": True, "same kdamond": True, "goes on": True}}
    ),
)
def pause(subject: Subject) -> str | dict[str, bool]:
    """A paused kdamond applies nothing, serves commands, and continues as the same thread."""
    context = stage(subject)
    path = f"{CONTEXT}/pause"
    if not subject.sysfs.exists(path):
        return "no pause"
    context.command("on")
    pid = context.pid
    after_rounds(context, 3)
    subject.sysfs.write(path, "Y")
    context.command("commit")
    before = rounds(context)
    subject.clock.sleep(QUIET_S)
    stands_still = rounds(context) == before
    subject.sysfs.write(path, "N")
    context.command("commit")
    after_rounds(context, 3)
    return {"stands still": stands_still, "same kdamond": context.pid == pid, "goes on": True}


@behaviour(
    cites="damos_sysfs_add_quota_score(): a goal without a target value is skipped",
    expect={"with": "begins small", "without": str(4 * MIB)},
)
def goal_without_target(subject: Subject) -> dict[str, str]:
    """A goal whose target is 0 is ignored: the quota is `bytes` from the beginning."""
    seen: dict[str, str] = {}
    for name, target in (("with", 10_000), ("without", 0)):
        goal = Goal(current_value=9_999, target_value=target)
        context = stage(subject, EVERYTHING, Scheme(bytes=4 * MIB, goals=(goal,)))
        context.command("on")
        after_rounds(context, 3)
        effective = context.effective()[1]
        seen[name] = "begins small" if 0 < effective < MIB else str(effective)
        context.command("off")
    return seen
