"""Kernel series as data: what each shows in its files, and what it answers.

`profiles/<series>.tree` is the recorded listing of its DAMON directory with one of each object,
and `profiles/<series>.json` what tools/capture_profile.py found on the same kernel. What no file
shows, the answers of commands and the behaviour of a running kdamond, is stated here.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from errno import ECANCELED, EINVAL, EPERM
from functools import cache
from importlib.resources import files
from typing import Any

from tierd.errors import TierdError
from tierd.machine import btf
from tierd.sim import kstrto, quirks
from tierd.sim.admin import Keywords, Template, parse_listing, template
from tierd.sim.spec import Quirks

_COMMANDS = (
    "on",
    "off",
    "commit",
    "commit_schemes_quota_goals",
    "update_schemes_stats",
    "update_schemes_tried_bytes",
    "update_schemes_tried_regions",
    "clear_schemes_tried_regions",
    "update_schemes_effective_quotas",
)


class Numbering(Enum):
    """How the directories of tried regions are numbered."""

    each_scheme = auto()
    # In the order of the walk: region after region, and each scheme in its turn.
    whole_walk = auto()
    # In each scheme, but every region counts twice when it comes and once when it goes.
    twice = auto()


class BadCommit(Enum):
    """What a commit of staged values that make no context comes to."""

    ends_kdamond = auto()
    refused = auto()


@dataclass(frozen=True, slots=True)
class Answers:
    """How a series answers the commands of `state`. The defaults are the newest kernel's (7.3)."""

    bad_commit: BadCommit = BadCommit.refused
    # damon_stop() of a kdamond that has ended already; 0 is success.
    off_when_ended: int = 0
    # A command to a kdamond that ran and runs no more.
    command_when_ended: int = ECANCELED
    # clear_schemes_tried_regions needs no kdamond.
    clears_always: bool = True
    numbering: Numbering = Numbering.each_scheme
    # damon_call(), and damos_walk(), of a kdamond that has ended forget to take back their
    # request, so that the next one finds the place taken.
    leaves_call: bool = False
    leaves_walk: bool = False
    # damon_set_regions() wants regions that are not empty, and apart as whole pages.
    checks_regions: bool = True
    # DAMON modules watch from the first RAM to the last, rather than its largest piece, of which
    # they leave out the last byte.
    modules_watch_all: bool = True
    # damon_sysfs_handle_cmd() looks whether there is a context before it follows its pointer.
    checks_context: bool = True
    # memcg_path and path are read and written under DAMON's lock.
    locks_paths: bool = True
    boolean: Callable[[str], bool] = kstrto.boolean
    # damon_start(), and damon_commit_ctx(), want a power of two as the least region.
    start_checks_unit: bool = True
    commit_checks_unit: bool = True
    # damon_start() tries the commit of the context onto an empty one.
    start_tests_commit: bool = True
    tuned_intervals: bool = True
    probe_weights: bool = True
    # What tried_regions/N/ has beside the four files that all series have.
    sz_filter_passed: bool = True
    probe_hits: bool = True


@dataclass(frozen=True, slots=True)
class Field:
    """A line of a meminfo file: name, spaces, width of the figure, what follows."""

    name: str
    spaces: int
    width: int
    after: str

    def line(self, value: int) -> str:
        return f"{self.name}:{' ' * self.spaces}{value:>{self.width}}{self.after}"


@dataclass(frozen=True, slots=True)
class Parameter:
    """A file below parameters/ or /proc/sys: its mode, and its text on a machine at rest."""

    mode: int
    text: str


@dataclass(frozen=True, slots=True)
class Zoneinfo:
    """The names in /proc/zoneinfo, and the lines that are the same for every zone."""

    node: tuple[str, ...]
    zone: tuple[str, ...]
    pageset: tuple[str, ...]
    tail: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Profile:
    """One kernel series."""

    series: str
    release: str
    quirks: Quirks
    answers: Answers
    listing: Mapping[str, str]
    template: Template
    operations: tuple[str, ...]
    commands: tuple[str, ...]
    modules: Mapping[str, Mapping[str, Parameter]]
    modules_on: tuple[str, ...]
    vmstat: tuple[str, ...]
    node_vmstat: tuple[str, ...]
    meminfo: tuple[Field, ...]
    node_meminfo: tuple[Field, ...]
    zoneinfo: Zoneinfo
    sysctl_vm: Mapping[str, Parameter]
    lru_gen: str
    types: bytes = field(repr=False)


_ANSWERS: dict[str, Answers] = {
    "6.12": Answers(
        bad_commit=BadCommit.ends_kdamond,
        off_when_ended=EPERM,
        command_when_ended=EINVAL,
        clears_always=False,
        numbering=Numbering.whole_walk,
        boolean=kstrto.boolean_before_6_16,
        modules_watch_all=False,
        start_checks_unit=False,
        commit_checks_unit=False,
        start_tests_commit=False,
        tuned_intervals=False,
        probe_weights=False,
        sz_filter_passed=False,
        probe_hits=False,
    ),
    "6.16": Answers(
        numbering=Numbering.twice,
        leaves_call=True,
        leaves_walk=True,
        checks_context=False,
        locks_paths=False,
        modules_watch_all=False,
        checks_regions=False,
        off_when_ended=EPERM,
        command_when_ended=EINVAL,
        start_checks_unit=False,
        commit_checks_unit=False,
        start_tests_commit=False,
        probe_weights=False,
        probe_hits=False,
    ),
    "6.18": Answers(
        numbering=Numbering.twice,
        leaves_walk=True,
        checks_context=False,
        locks_paths=False,
        modules_watch_all=False,
        checks_regions=False,
        off_when_ended=EPERM,
        command_when_ended=EINVAL,
        start_checks_unit=False,
        commit_checks_unit=False,
        start_tests_commit=False,
        probe_weights=False,
        probe_hits=False,
    ),
    "7.2": Answers(off_when_ended=EPERM, start_tests_commit=False, probe_weights=False),
    "7.3": Answers(),
}

SERIES = tuple(_ANSWERS)


@cache
def load(series: str) -> Profile:
    """The profile of a series, as "6.12"."""
    if series not in SERIES:
        raise TierdError(f"no kernel profile {series!r}", f"there are: {', '.join(SERIES)}")
    folder = files("tierd.sim") / "profiles"
    raw = json.loads((folder / f"{series}.json").read_text())
    listing = parse_listing((folder / f"{series}.tree").read_text())
    answers = _ANSWERS[series]
    words = {name: tuple(known) for name, known in raw["words"].items()}
    keywords = Keywords(**words, boolean=answers.boolean, locks_paths=answers.locks_paths)
    return Profile(
        series=series,
        release=raw["release"],
        quirks=quirks.SERIES[series],
        answers=answers,
        listing=listing,
        template=template(listing, keywords),
        operations=words["operations"],
        commands=_COMMANDS + (("update_tuned_intervals",) if answers.tuned_intervals else ()),
        modules={name: _parameters(known) for name, known in raw["modules"].items()},
        modules_on=tuple(raw["modules_on"]),
        vmstat=tuple(raw["vmstat"]),
        node_vmstat=tuple(raw["node_vmstat"]),
        meminfo=tuple(Field(*line) for line in raw["meminfo"]),
        node_meminfo=tuple(Field(*line) for line in raw["node_meminfo"]),
        zoneinfo=Zoneinfo(**{name: tuple(known) for name, known in raw["zoneinfo"].items()}),
        sysctl_vm=_parameters(raw["sysctl_vm"]),
        lru_gen=raw["lru_gen"],
        types=btf.encode(raw["btf"]["names"], raw["btf"]["structs"]),
    )


def _parameters(raw: Mapping[str, Any]) -> dict[str, Parameter]:
    return {name: Parameter(int(mode, 8), text) for name, (mode, text) in raw.items()}
