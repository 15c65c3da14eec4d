"""The nr_* files: each write creates all objects again, even while a kdamond runs."""

from tests.contract.behaviour import behaviour, since
from tests.contract.context import CONTEXT, KDAMOND
from tests.contract.staging import (
    ATTRS,
    EVERYTHING,
    SCHEME,
    STATE,
    after_rounds,
    answer,
    bare,
    rounds,
    stage,
    taken,
)
from tests.contract.subject import KDAMONDS, Subject, enabled

# A file that is not 0 by default below each of the objects that these numbers make.
MADE = {
    f"{KDAMONDS}/nr_kdamonds": f"{KDAMOND}/contexts/nr_contexts",
    f"{KDAMOND}/contexts/nr_contexts": f"{ATTRS}/intervals/sample_us",
    f"{CONTEXT}/targets/nr_targets": f"{CONTEXT}/targets/0/pid_target",
    f"{CONTEXT}/targets/0/regions/nr_regions": f"{CONTEXT}/targets/0/regions/0/end",
    f"{CONTEXT}/schemes/nr_schemes": f"{SCHEME}/quotas/bytes",
    f"{SCHEME}/filters/nr_filters": f"{SCHEME}/filters/0/addr_end",
    f"{SCHEME}/quotas/goals/nr_goals": f"{SCHEME}/quotas/goals/0/target_value",
}


@behaviour(
    cites="damon_sysfs_kdamonds_rm_dirs() and the like, first thing of every nr_*_store()",
    expect={
        "nr_kdamonds": "0",
        "nr_contexts": "5000",
        "nr_targets": "0",
        "nr_regions": "0",
        "nr_schemes": "0",
        "nr_filters": "0",
        "nr_goals": "0",
    },
)
def made_anew(subject: Subject) -> dict[str, str]:
    """Writing the same number again deletes everything that was staged below."""
    seen: dict[str, str] = {}
    for counter in reversed(MADE):
        bare(subject)
        for parent in MADE:
            if parent not in (f"{KDAMONDS}/nr_kdamonds", f"{KDAMOND}/contexts/nr_contexts"):
                subject.sysfs.write(parent, "1")
        subject.sysfs.write(MADE[counter], "1")
        subject.sysfs.write(counter, "1")
        seen[counter.rpartition("/")[2]] = subject.sysfs.read(MADE[counter])
    return seen


@behaviour(
    cites="nr_contexts_store(): at most one context for each kdamond",
    expect={"0": "ok", "1": "ok", "2": "EINVAL", "-1": "EINVAL"},
)
def contexts(subject: Subject) -> dict[str, str]:
    """A kdamond has one context or none."""
    bare(subject)
    path = f"{KDAMOND}/contexts/nr_contexts"
    return {value: taken(subject, path, value) for value in ("0", "1", "2", "-1")}


@behaviour(
    cites="nr_probes_store(): DAMON_MAX_PROBES",
    expect=since({"6.12": {"4": "ENOENT", "5": "ENOENT"}, "7.2": {"4": "ok", "5": "EINVAL"}}),
)
def probes(subject: Subject) -> dict[str, str]:
    """There are at most four monitoring probes."""
    bare(subject)
    return {value: taken(subject, f"{ATTRS}/probes/nr_probes", value) for value in ("4", "5")}


@behaviour(
    cites="nr_kdamonds_store() and the like",
    expect={
        name: {"-1": "EINVAL", "x": "EINVAL", "4294967296": "ERANGE"}
        for name in ("nr_kdamonds", "nr_targets", "nr_schemes", "nr_filters", "nr_goals")
    },
)
def not_a_number_of(subject: Subject) -> dict[str, dict[str, str]]:
    """A number of objects is an int and is not negative."""
    stage(subject)
    paths = (
        f"{KDAMONDS}/nr_kdamonds",
        f"{CONTEXT}/targets/nr_targets",
        f"{CONTEXT}/schemes/nr_schemes",
        f"{SCHEME}/filters/nr_filters",
        f"{SCHEME}/quotas/goals/nr_goals",
    )
    return {
        path.rpartition("/")[2]: {
            value: taken(subject, path, value) for value in ("-1", "x", "4294967296")
        }
        for path in reversed(paths)
    }


@behaviour(
    cites="damon_sysfs_kdamonds_busy()",
    expect={"on": ["EBUSY", "EBUSY", "EBUSY"], "still": "on", "off": "ok"},
)
def kdamonds_while_on(subject: Subject) -> dict[str, str | list[str]]:
    """While any kdamond of the array runs, nr_kdamonds takes no number, not even the same one."""
    stage(subject).command("on")
    path = f"{KDAMONDS}/nr_kdamonds"
    refusals = [taken(subject, path, value) for value in ("0", "1", "2")]
    still = subject.sysfs.read(STATE)
    subject.sysfs.write(STATE, "off")
    return {"on": refusals, "still": still, "off": taken(subject, path, "2")}


@behaviour(cites="damon_sysfs_kdamonds_busy()", expect="ok")
def kdamonds_beside_module(subject: Subject) -> str:
    """The kdamond of a module does not belong to the array: it does not make nr_kdamonds busy."""
    subject.sysfs.write(enabled("damon_reclaim"), "Y")
    return taken(subject, f"{KDAMONDS}/nr_kdamonds", "1")


@behaviour(
    cites="nr_schemes_store(), nr_targets_store(): no look at the running context",
    expect={"taken": ["ok", "ok", "ok"], "state": "on", "same pid": True, "goes on": True},
)
def objects_while_on(subject: Subject) -> dict[str, bool | str | list[str]]:
    """Schemes and targets can be staged again while a kdamond runs; it does not change."""
    context = stage(subject)
    context.command("on")
    pid = context.pid
    numbers = (
        taken(subject, f"{SCHEME}/filters/nr_filters", "1"),
        taken(subject, f"{CONTEXT}/schemes/nr_schemes", "1"),
        taken(subject, f"{CONTEXT}/targets/nr_targets", "0"),
    )
    before = rounds(context)
    after_rounds(context, 3)
    return {
        "taken": list(numbers),
        "state": subject.sysfs.read(STATE),
        "same pid": context.pid == pid,
        "goes on": rounds(context) > before,
    }


@behaviour(
    cites="damon_sysfs_handle_cmd(), damon_sysfs_commit_input(): contexts->nr",
    expect={"commit": "EINVAL", "off": "ok"},
)
def no_context(subject: Subject) -> dict[str, str]:
    """A commit without a context is refused, `off` is not. Other commands are not tried: 6.16
    and 6.18 use the pointer to the missing context, and the kernel crashes.
    """
    stage(subject, EVERYTHING).command("on")
    subject.sysfs.write(f"{KDAMOND}/contexts/nr_contexts", "0")
    return {word: answer(subject, word) for word in ("commit", "off")}
