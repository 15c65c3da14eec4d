"""A kdamond's life: which commands `state` takes before, while and after it runs."""

from collections.abc import Mapping

from tests.contract.behaviour import behaviour, since
from tests.contract.context import CONTEXT, KDAMOND, MIB, Scheme
from tests.contract.staging import (
    ATTRS,
    COMMANDS,
    EVERYTHING,
    LOOK_S,
    SCHEME,
    STATE,
    after_rounds,
    answer,
    answers,
    ended,
    stage,
    until,
)
from tests.contract.subject import KDAMONDS, Subject

# How often to look whether a kdamond has ended.
LAST_LOOKS = 20

_EINVAL = dict.fromkeys(COMMANDS, "EINVAL")
_OK = dict.fromkeys(COMMANDS, "ok")
_CANCELLED = {**dict.fromkeys(COMMANDS, "ECANCELED"), "clear_schemes_tried_regions": "ok"}
# A request that is never served stays registered, so that the next one is refused.
_WALK_LEFT = {
    **_EINVAL,
    "clear_schemes_tried_regions": "ok",
    "update_schemes_tried_regions": "EBUSY",
    "off": "EPERM",
}
_CALL_LEFT = {
    **_WALK_LEFT,
    "commit_schemes_quota_goals": "EBUSY",
    "update_schemes_stats": "EBUSY",
    "update_schemes_effective_quotas": "EBUSY",
    "update_tuned_intervals": "EBUSY",
}
_ENDED = {
    "6.12": {**_EINVAL, "off": "EPERM"},
    "6.16": _CALL_LEFT,
    "6.18": _WALK_LEFT,
    "7.2": {**_CANCELLED, "off": "EPERM"},
    "7.3": {**_CANCELLED, "off": "ok"},
}
_NO_TUNING = {"update_tuned_intervals": "EINVAL"}


@behaviour(
    cites="damon_sysfs_handle_cmd()",
    expect=since(
        {
            "6.12": {**_EINVAL, "off": "EINVAL"},
            "6.16": {**_EINVAL, "clear_schemes_tried_regions": "ok", "off": "EINVAL"},
        }
    ),
)
def never_on(subject: Subject) -> Mapping[str, str]:
    """Before the first `on` commands are EINVAL; since 6.16 clearing needs no kdamond."""
    stage(subject)
    return answers(subject, (*COMMANDS, "off"))


@behaviour(
    cites="damon_sysfs_handle_cmd()",
    expect=since({"6.12": {**_OK, **_NO_TUNING, "on": "EBUSY"}, "6.16": {**_OK, "on": "EBUSY"}}),
)
def while_on(subject: Subject) -> Mapping[str, str]:
    """While a kdamond runs, every command works, and a second `on` is EBUSY."""
    stage(subject).command("on")
    return answers(subject, (*COMMANDS, "on"))


@behaviour(
    cites="damon_sysfs_damon_call(), damon_call(), damon_stop()",
    expect=since(_ENDED),
)
def after_off(subject: Subject) -> Mapping[str, str]:
    """After `off` no command is served; a second `off` is an error until 7.3. On 6.16
    and 6.18 the first refused command stays registered, so that the next one is EBUSY.
    """
    stage(subject).command("on")
    subject.sysfs.write(STATE, "off")
    return answers(subject, (*COMMANDS, "off"))


@behaviour(
    cites="kdamond_need_stop()",
    expect=since(_ENDED),
)
def ended_by_itself(subject: Subject) -> Mapping[str, str]:
    """A kdamond ends when all its target processes have; commands then answer as after `off`."""
    ended(subject)
    return answers(subject, (*COMMANDS, "off"))


@behaviour(
    cites="state_show(), pid_show()",
    expect={"before": ["off", "-1"], "after": ["off", "-1"], "while": "on", "pid": True},
)
def state_and_pid(subject: Subject) -> dict[str, str | bool | list[str]]:
    """`state` and `pid` show whether a kdamond runs: off and -1 if it does not."""

    def shown() -> list[str]:
        return [subject.sysfs.read(f"{KDAMOND}/{name}") for name in ("state", "pid")]

    context = stage(subject)
    before = shown()
    context.command("on")
    on, pid = shown()
    subject.sysfs.write(STATE, "off")
    return {"before": before, "while": on, "pid": int(pid) > 0, "after": shown()}


@behaviour(
    cites="__damon_start(): kthread_run(…, nr_running_ctxs)",
    expect={"names": ["kdamond.0", "kdamond.1"], "restarted": "kdamond.1"},
)
def thread_names(subject: Subject) -> dict[str, str | list[str]]:
    """The thread's name counts the kdamonds that ran when it started; two can be the same."""
    sysfs = subject.sysfs
    sysfs.write(f"{KDAMONDS}/nr_kdamonds", "2")
    for kdamond in (0, 1):
        _minimal(subject, kdamond)
        sysfs.write(f"{KDAMONDS}/{kdamond}/state", "on")
    names = [_name(subject, kdamond) for kdamond in (0, 1)]
    sysfs.write(f"{KDAMONDS}/0/state", "off")
    sysfs.write(f"{KDAMONDS}/0/state", "on")
    return {"names": names, "restarted": _name(subject, 0)}


@behaviour(cites="damon_sysfs_turn_damon_on()", expect=True)
def new_pid(subject: Subject) -> bool:
    """After off and on the thread is a new one: the pid shows the restart."""
    context = stage(subject)
    context.command("on")
    first = context.pid
    context.command("off")
    context.command("on")
    return context.pid != first


@behaviour(
    cites="damon_sysfs_schemes_update_stats()",
    expect={"fresh": True, "stale": True, "updated": True},
)
def stale_stats(subject: Subject) -> dict[str, bool]:
    """The files show the counters of the last update, even if that kdamond has ended, until a
    new kdamond updates them. Its counters begin at 0.
    """

    def shown() -> int:
        return int(subject.sysfs.read(f"{SCHEME}/stats/sz_tried"))

    context = stage(subject)
    context.command("on")
    after_rounds(context, 5)
    fresh = shown()
    context.command("off")
    context.command("on")
    stale = shown()
    context.command("update_schemes_stats")
    return {"fresh": fresh > 0, "stale": stale == fresh, "updated": shown() < fresh}


@behaviour(cites="damon_sysfs_schemes_add_dirs()", expect={"anew": True, "updated": True})
def stats_of_new_files(subject: Subject) -> dict[str, bool]:
    """New files of a scheme show 0, while the counters of the running scheme continue."""
    context = stage(subject)
    context.command("on")
    after_rounds(context, 3)
    before = int(subject.sysfs.read(f"{SCHEME}/stats/sz_tried"))
    subject.sysfs.write(f"{CONTEXT}/schemes/nr_schemes", "1")
    anew = int(subject.sysfs.read(f"{SCHEME}/stats/sz_tried"))
    context.command("update_schemes_stats")
    after = int(subject.sysfs.read(f"{SCHEME}/stats/sz_tried"))
    return {"anew": anew == 0, "updated": after >= before > 0}


# The effects of a commit that is refused.
_KILLS: dict[str, str | bool] = {"commit": "ok", "state": "off", "same kdamond": False}
_REFUSED: dict[str, str | bool] = {"state": "on", "same kdamond": True}


def _bad_commit(subject: Subject, *writes: tuple[str, str]) -> dict[str, str | bool]:
    context = stage(subject)
    context.command("on")
    pid = context.pid
    for path, value in writes:
        subject.sysfs.write(path, value)
    seen = answer(subject, "commit")
    state = _state_at_last(subject)
    return {"commit": seen, "state": state, "same kdamond": context.pid == pid}


def _state_at_last(subject: Subject) -> str:
    """Whether it still runs after the time that a thread needs to be gone, many times over."""
    for _ in range(LAST_LOOKS):
        if subject.sysfs.read(STATE) == "off":
            return "off"
        subject.clock.sleep(LOOK_S)
    return "on"


@behaviour(
    cites="damon_sysfs_commit_input(), damon_set_attrs()",
    expect=since({"6.12": _KILLS, "6.16": {**_REFUSED, "commit": "EINVAL"}}),
)
def bad_attrs_commit(subject: Subject) -> dict[str, str | bool]:
    """A commit of impossible monitoring attributes ends the kdamond on 6.12 without an error for
    the writer. Newer kernels refuse it.
    """
    return _bad_commit(subject, (f"{ATTRS}/nr_regions/min", "2"))


@behaviour(
    cites="damon_sysfs_commit_input(), damon_sysfs_add_schemes()",
    expect=since({"6.12": _KILLS, "6.16": {**_REFUSED, "commit": "ENOMEM"}}),
)
def bad_scheme_commit(subject: Subject) -> dict[str, str | bool]:
    """A commit of a wrong scheme, such as one with a missing cgroup, has the same effect,
    but the errno is ENOMEM.
    """
    return _bad_commit(
        subject,
        (f"{SCHEME}/filters/nr_filters", "1"),
        (f"{SCHEME}/filters/0/type", "memcg"),
        (f"{SCHEME}/filters/0/memcg_path", "/no/such/group"),
    )


@behaviour(
    cites="damon_sysfs_commit_input(): parameters are made before any is taken over",
    expect=since({"6.12": "it has ended", "6.16": str(4 * MIB)}),
)
def bad_commit_takes_nothing(subject: Subject) -> str:
    """A refused commit changes nothing, not even by its correct values."""
    limited = Scheme(bytes=4 * MIB, reset_ms=0)
    context = stage(subject, EVERYTHING, limited)
    context.command("on")
    until(subject, lambda: context.effective()[1] == 4 * MIB)
    subject.sysfs.write(f"{CONTEXT}/schemes/1/quotas/bytes", str(MIB))
    subject.sysfs.write(f"{ATTRS}/nr_regions/min", "2")
    answer(subject, "commit")
    if _state_at_last(subject) == "off":
        return "it has ended"
    after_rounds(context, 3)
    return str(context.effective()[1])


@behaviour(cites="damon_sysfs_build_ctx(), damon_sysfs_turn_damon_on()", expect=["EINVAL", "ok"])
def on_after_refusal(subject: Subject) -> list[str]:
    """A refused `on` has no effect: it works when the value is corrected."""
    stage(subject)
    subject.sysfs.write(f"{ATTRS}/nr_regions/min", "2")
    first = answer(subject, "on")
    subject.sysfs.write(f"{ATTRS}/nr_regions/min", "10")
    return [first, answer(subject, "on")]


def _minimal(subject: Subject, kdamond: int) -> None:
    folder = f"{KDAMONDS}/{kdamond}/contexts"
    subject.sysfs.write(f"{folder}/nr_contexts", "1")
    subject.sysfs.write(f"{folder}/0/operations", "paddr")
    subject.sysfs.write(f"{folder}/0/targets/nr_targets", "1")


def _name(subject: Subject, kdamond: int) -> str:
    pid = subject.sysfs.read(f"{KDAMONDS}/{kdamond}/pid")
    return subject.sysfs.read(f"proc/{pid}/comm")
