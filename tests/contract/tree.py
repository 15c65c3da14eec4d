"""The files of DAMON's sysfs directory: their names, first values and permissions."""

from collections.abc import Iterator
from importlib.resources import files

from tests.contract.behaviour import SERIES, Told, behaviour, since
from tests.contract.context import CONTEXT, KDAMOND
from tests.contract.staging import ATTRS, SCHEME, bare, taken
from tests.contract.subject import KDAMONDS, Subject, errno_of
from tierd.sysfs import Sysfs

# In this order each makes the directory of the next.
ONE_OF_EACH = (
    f"{CONTEXT}/targets/nr_targets",
    f"{CONTEXT}/schemes/nr_schemes",
    f"{ATTRS}/probes/nr_probes",
    f"{SCHEME}/filters/nr_filters",
    f"{SCHEME}/core_filters/nr_filters",
    f"{SCHEME}/ops_filters/nr_filters",
    f"{SCHEME}/quotas/goals/nr_goals",
    f"{SCHEME}/dests/nr_dests",
)


def listing(sysfs: Sysfs, folder: str) -> Iterator[tuple[str, str]]:
    """Every file below a directory with its text, lines joined by a space."""
    for name in sysfs.listdir(folder):
        path = f"{folder}/{name}"
        if is_folder(sysfs, path):
            yield from listing(sysfs, path)
        else:
            yield path.removeprefix(f"{KDAMONDS}/"), " ".join(sysfs.read(path).split("\n")).strip()


def is_folder(sysfs: Sysfs, path: str) -> bool:
    """Whether there are names below it."""
    return errno_of(lambda: sysfs.listdir(path)) == "ok"


def recorded(series: str) -> Told:
    """The listing that was recorded on that series, one "path = value" on a line."""
    text = (files("tierd.sim") / "series" / f"damon-{series}.tree").read_text()
    pairs = (line.partition(" =") for line in text.splitlines())
    known: dict[str, str] = {path: value.strip() for path, _, value in pairs}
    return Told(known, f"{len(known)} files as recorded")


@behaviour(
    cites="damon_sysfs_kdamonds_add_dirs(), damon_sysfs_scheme_add_dirs()",
    expect=since({series: recorded(series) for series in SERIES}),
)
def one_of_each(subject: Subject) -> dict[str, str]:
    """With one of each object the tree is the same as the recorded one, in each file and each
    default.
    """
    sysfs = bare(subject)
    for path in ONE_OF_EACH:
        if sysfs.exists(path):
            sysfs.write(path, "1")
    return dict(listing(sysfs, KDAMONDS))


@behaviour(
    cites="damon_sysfs_kdamond_add_dirs()",
    expect=since(
        {
            "6.12": ["contexts/nr_contexts", "pid", "state"],
            "6.18": ["contexts/nr_contexts", "pid", "refresh_ms", "state"],
        }
    ),
)
def new_kdamond(subject: Subject) -> list[str]:
    """A new kdamond has no context."""
    subject.sysfs.write(f"{KDAMONDS}/nr_kdamonds", "1")
    return [path.removeprefix("0/") for path, _ in listing(subject.sysfs, KDAMOND)]


@behaviour(cites="damon_sysfs_regions_add_dirs()", expect={"start": "0", "end": "0"})
def new_region(subject: Subject) -> dict[str, str]:
    """A new region of a target is empty."""
    sysfs = bare(subject)
    sysfs.write(f"{CONTEXT}/targets/nr_targets", "1")
    sysfs.write(f"{CONTEXT}/targets/0/regions/nr_regions", "1")
    return _relative(sysfs, f"{CONTEXT}/targets/0/regions/0")


@behaviour(
    cites="damon_sysfs_filters_add_dirs()",
    expect=since(
        {
            "6.12": "no probes",
            "7.2": {"type": "anon", "matching": "N", "allow": "N", "path": ""},
        }
    ),
)
def new_probe_filter(subject: Subject) -> dict[str, str] | str:
    """A new filter of a monitoring probe rejects pages that are not anonymous."""
    sysfs = bare(subject)
    if not sysfs.exists(f"{ATTRS}/probes"):
        return "no probes"
    sysfs.write(f"{ATTRS}/probes/nr_probes", "1")
    sysfs.write(f"{ATTRS}/probes/0/filters/nr_filters", "1")
    return _relative(sysfs, f"{ATTRS}/probes/0/filters/0")


@behaviour(
    cites="kernfs_fop_open(): KERNFS_ROOT_EXTRA_OPEN_PERM_CHECK",
    expect=dict.fromkeys(
        ("pid", "avail_operations", "effective_bytes", "nr_tried", "total_bytes"), "EACCES"
    ),
)
def read_only(subject: Subject) -> dict[str, str]:
    """Files that only report cannot be written, not even by root."""
    sysfs = bare(subject)
    sysfs.write(f"{CONTEXT}/schemes/nr_schemes", "1")
    paths = (
        f"{KDAMOND}/pid",
        f"{CONTEXT}/avail_operations",
        f"{SCHEME}/quotas/effective_bytes",
        f"{SCHEME}/stats/nr_tried",
        f"{SCHEME}/tried_regions/total_bytes",
    )
    return {path.rpartition("/")[2]: taken(subject, path, "1") for path in paths}


@behaviour(cites="kobject_put() of damon_sysfs_*_rm_dirs()", expect={"read": "ENOENT", "kept": []})
def removed(subject: Subject) -> dict[str, str | list[str]]:
    """Writing 0 to nr_kdamonds removes all directories."""
    sysfs = bare(subject)
    sysfs.write(f"{KDAMONDS}/nr_kdamonds", "0")
    left = [name for name in sysfs.listdir(KDAMONDS) if name != "nr_kdamonds"]
    return {"read": errno_of(lambda: sysfs.read(f"{KDAMOND}/state")), "kept": left}


def _relative(sysfs: Sysfs, folder: str) -> dict[str, str]:
    prefix = folder.removeprefix(f"{KDAMONDS}/") + "/"
    return {path.removeprefix(prefix): value for path, value in listing(sysfs, folder)}
