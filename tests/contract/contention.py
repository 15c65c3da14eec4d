"""Other users of DAMON: another writer of the same files, and DAMON's own modules."""

from collections.abc import Mapping

from tests.contract.behaviour import SERIES, Told, behaviour, since
from tests.contract.context import CONTEXT, KDAMOND, Scheme
from tests.contract.staging import ATTRS, SCHEME, STATE, answer, stage, taken
from tests.contract.subject import (
    KDAMONDS,
    MODULES,
    Subject,
    enabled,
    errno_of,
    modules_enabled,
    patiently,
    text,
)
from tierd.sim.kernel_series import load

# A command that waits for an apply or an aggregation of this length is still waiting when the
# other party looks.
LONG_US = 3_000_000


def _attempts(subject: Subject) -> dict[str, str]:
    sysfs = subject.sysfs
    return {
        "read state": errno_of(lambda: sysfs.read(STATE)),
        "read pid": errno_of(lambda: sysfs.read(f"{KDAMOND}/pid")),
        "read memcg_path": errno_of(lambda: sysfs.read(f"{SCHEME}/filters/0/memcg_path")),
        "write memcg_path": taken(subject, f"{SCHEME}/filters/0/memcg_path", "/"),
        "write nr_kdamonds": taken(subject, f"{KDAMONDS}/nr_kdamonds", "1"),
        "write nr_targets": taken(subject, f"{CONTEXT}/targets/nr_targets", "1"),
        "update": answer(subject, "update_schemes_stats"),
        "read bytes": errno_of(lambda: sysfs.read(f"{SCHEME}/quotas/bytes")),
        "write bytes": taken(subject, f"{SCHEME}/quotas/bytes", "4096"),
    }


_BUSY = {
    "read state": "EBUSY",
    "read pid": "EBUSY",
    "read memcg_path": "EBUSY",
    "write memcg_path": "EBUSY",
    "write nr_kdamonds": "EBUSY",
    "write nr_targets": "EBUSY",
    "update": "EBUSY",
    "read bytes": "ok",
    "write bytes": "ok",
}


# memcg_path_show() takes the lock on 7.2 and where that was backported, which 6.12.107 has.
_PATH_UNLOCKED = {**_BUSY, "read memcg_path": "ok", "write memcg_path": "ok"}


@behaviour(
    cites="damon_sysfs_lock: mutex_trylock(); memcg_path_show()",
    expect=since({"6.12": _BUSY, "6.16": _PATH_UNLOCKED, "7.2": _BUSY}),
)
def while_regions_are_asked_for(subject: Subject) -> Mapping[str, str]:
    """While another user's command is served, every operation that takes DAMON's lock is EBUSY,
    reads of `state` and `pid` too. Plain values do not need the lock.
    """
    stage(subject, Scheme(apply_us=LONG_US))
    subject.sysfs.write(f"{SCHEME}/filters/nr_filters", "1")
    subject.sysfs.write(STATE, "on")
    # The kdamond has begun its interval, and on 6.12 has turned to the command by then.
    return subject.during(STATE, "update_schemes_tried_regions", lambda: _attempts(subject))


@behaviour(
    cites="damon_sysfs_handle_cmd(): 6.12 lets the lock go while it waits; kdamond_call()",
    expect=since(
        {
            "6.12": {
                **_BUSY,
                "read state": "ok",
                "read pid": "ok",
                "read memcg_path": "ok",
                "write memcg_path": "ok",
                "write nr_targets": "ok",
            },
            "6.16": _PATH_UNLOCKED,
            "7.2": _BUSY,
        }
    ),
)
def while_a_commit_waits(subject: Subject) -> Mapping[str, str]:
    """A commit waits for a sample. On 6.12 it waits for an aggregation without the lock: others
    may read, but not write a command.
    """
    stage(subject)
    subject.sysfs.write(f"{ATTRS}/intervals/aggr_us", str(LONG_US))
    subject.sysfs.write(f"{ATTRS}/intervals/sample_us", str(LONG_US))
    subject.sysfs.write(f"{SCHEME}/filters/nr_filters", "1")
    subject.sysfs.write(STATE, "on")
    return subject.during(STATE, "commit", lambda: _attempts(subject))


@behaviour(cites="damon_sysfs_lock", expect="on")
def busy_passes(subject: Subject) -> str:
    """EBUSY does not mean that the kdamond has ended: it is still on after the other command."""
    stage(subject, Scheme(apply_us=LONG_US))
    subject.sysfs.write(STATE, "on")
    subject.during(
        STATE,
        "update_schemes_tried_bytes",
        lambda: errno_of(lambda: subject.sysfs.read(STATE)),
    )
    return patiently(subject, lambda: subject.sysfs.read(STATE))


@behaviour(
    cites="CONFIG_DAMON_STAT_ENABLED_DEFAULT",
    expect=since(
        {
            "6.12": {"damon_reclaim": "N", "damon_lru_sort": "N"},
            "6.18": {"damon_stat": "Y", "damon_reclaim": "N", "damon_lru_sort": "N"},
        }
    ),
)
def modules_at_boot(subject: Subject) -> Mapping[str, str]:
    """If damon_stat is built in, it runs from boot on."""
    return dict(subject.at_boot)


def _parameters(series: str) -> Told:
    known = {module: sorted(names) for module, names in load(series).modules.items()}
    numbers = ", ".join(f"{len(names)} of {module}" for module, names in sorted(known.items()))
    return Told(known, f"{numbers}, as recorded")


@behaviour(
    cites="module_param() of mm/damon/{stat,reclaim,lru_sort}.c",
    expect=since({series: _parameters(series) for series in SERIES}),
)
def module_parameters(subject: Subject) -> dict[str, list[str]]:
    """DAMON's modules have the recorded parameters."""
    return {
        module: list(subject.sysfs.listdir(f"sys/module/{module}/parameters"))
        for module in MODULES
        if subject.sysfs.exists(f"sys/module/{module}/parameters")
    }


@behaviour(
    cites="damon_start(): running_exclusive_ctxs",
    expect=since(
        {
            "6.12": {"damon_reclaim": "EBUSY", "damon_lru_sort": "EBUSY"},
            "6.18": {"damon_stat": "EBUSY", "damon_reclaim": "EBUSY", "damon_lru_sort": "EBUSY"},
        }
    ),
)
def on_beside_module(subject: Subject) -> dict[str, str]:
    """While one of DAMON's modules runs, `on` is EBUSY."""
    seen: dict[str, str] = {}
    stage(subject)
    for module in modules_enabled(subject.sysfs):
        subject.sysfs.write(enabled(module), "Y")
        seen[module] = answer(subject, "on")
        subject.sysfs.write(enabled(module), "N")
    return seen


@behaviour(
    cites="damon_start(): nr_running_ctxs; damon_stat_enabled_store()",
    expect=since(
        {
            "6.12": {"damon_reclaim": "EBUSY", "damon_lru_sort": "EBUSY"},
            "6.18": {"damon_stat": "EBUSY", "damon_reclaim": "EBUSY", "damon_lru_sort": "EBUSY"},
        }
    ),
)
def module_beside_kdamond(subject: Subject) -> dict[str, str]:
    """While a kdamond runs, enabling a module is EBUSY."""
    stage(subject).command("on")
    seen = {
        module: taken(subject, enabled(module), "Y") for module in modules_enabled(subject.sysfs)
    }
    for module in seen:
        subject.sysfs.write(enabled(module), "N")
    return seen


@behaviour(
    cites="damon_stat_enabled_store(), damon_stat_stop()",
    expect=since(
        {
            "6.12": "no damon_stat",
            "6.18": {"stopped": "N", "on": "ok", "off": "ok", "again": "ok", "runs": "Y"},
        }
    ),
)
def damon_stat(subject: Subject) -> str | dict[str, str]:
    """damon_stat can be stopped, others can then use DAMON, and it can be started again."""
    path = enabled("damon_stat")
    if text(subject.sysfs, path) is None:
        return "no damon_stat"
    subject.sysfs.write(path, "Y")
    subject.sysfs.write(path, "N")
    stopped = subject.sysfs.read(path)
    stage(subject)
    on, off = answer(subject, "on"), answer(subject, "off")
    again = taken(subject, path, "Y")
    return {
        "stopped": stopped,
        "on": on,
        "off": off,
        "again": again,
        "runs": subject.sysfs.read(path),
    }


@behaviour(
    cites="damon_stat_kdamond_pid_load(), damon_reclaim_kdamond_pid_load()",
    expect={"before": "-1", "while": "kdamond.0", "after": "-1"},
)
def module_pid(subject: Subject) -> dict[str, str]:
    """kdamond_pid is the pid of the module's thread, or -1 if there is none."""
    path = "sys/module/damon_reclaim/parameters/kdamond_pid"
    before = subject.sysfs.read(path)
    subject.sysfs.write(enabled("damon_reclaim"), "Y")
    pid = subject.sysfs.read(path)
    name = subject.sysfs.read(f"proc/{pid}/comm")
    subject.sysfs.write(enabled("damon_reclaim"), "N")
    return {"before": before, "while": name, "after": subject.sysfs.read(path)}
