"""The options of `damo start`, `damo tune` and `damo args damon`, and how they belong together.

damo counts: the third `--damos_action` is the third scheme, and `--nr_schemes 1 2` says that the
first context has one scheme and the second has two. Newer versions have marks instead, such as
`--damos_scheme`, between which the options stand.
"""

import difflib
from collections.abc import Iterator, Sequence

from tierd.configuration.yamltext import Problem, shown
from tierd.frozen import dataclass
from tierd.importing import amounts
from tierd.importing.shell_text import Command, Word

# Least and most values of each option; None: up to the next option.
Takes = tuple[int, int | None]
_NONE, _ONE, _TWO, _MANY = (0, 0), (1, 1), (2, 2), (1, None)

# The options of which there is one per context.
_PER_CONTEXT: dict[str, Takes] = {
    "--ops": _ONE,
    "--sample": _ONE,
    "--aggr": _ONE,
    "--updr": _ONE,
    "--minr": _ONE,
    "--maxr": _ONE,
    "--monitoring_intervals": (3, 3),
    "--monitoring_intervals_goal": (4, 4),
    "--monitoring_nr_regions_range": _TWO,
}
_PER_TARGET: dict[str, Takes] = {"--target_pid": _ONE, "--regions": _ONE, "--numa_node": _MANY}
_PER_SCHEME: dict[str, Takes] = {
    "--damos_action": _MANY,
    "--damos_sz_region": _TWO,
    "--damos_access_rate": _TWO,
    "--damos_age": _TWO,
    "--damos_apply_interval": _ONE,
    "--damos_quotas": (1, 6),
    "--damos_quota_interval": _ONE,
    "--damos_quota_time": _ONE,
    "--damos_quota_space": _ONE,
    "--damos_quota_weights": (3, 3),
    "--damos_quota_goal": (2, 5),
    "--damos_quota_goal_tuner": _ONE,
    "--damos_filter": _MANY,
    "--damos_wmarks": (5, 5),
}
_COUNTS: dict[str, Takes] = dict.fromkeys(
    ("--nr_ctxs", "--nr_targets", "--nr_schemes", "--damos_nr_quota_goals", "--damos_nr_filters"),
    _MANY,
)
_MARKS: dict[str, Takes] = dict.fromkeys(
    ("--kdamond", "--damon_ctx", "--damon_target", "--damos_scheme", "--probe"), _NONE
)
# What tierd has no words for, by the name of the key in damo's files.
EXTRAS: dict[str, tuple[str, Takes]] = {
    "--refresh_stat": ("refresh_ms", _ONE),
    "--damon_addr_unit": ("addr_unit", _ONE),
    "--ops_addr_unit": ("addr_unit", _ONE),
    "--pause_ctx": ("pause", _MANY),
    "--obsolete_targets": ("obsolete", _MANY),
    "--damos_max_nr_snapshots": ("max_nr_snapshots", _ONE),
    "--damos_quota_fail_charge_ratio": ("fail_charge_denom", _TWO),
    "--probe_prep": ("probes", _ONE),
    "--probe_filter": ("probes", _MANY),
    "--probe_weight": ("probes", _MANY),
    "--nr_probes": ("probes", _MANY),
    "--nr_probe_preps": ("probes", _MANY),
    "--nr_probe_filters": ("probes", _MANY),
    "--sample_primitives": ("sample_control", _MANY),
    "--exp_ops_use_reports": ("sample_control", _ONE),
    "--exp_ops_write_only": ("sample_control", _ONE),
    "--exp_ops_cpus": ("sample_control", _ONE),
    "--exp_ops_tids": ("sample_control", _ONE),
}
# What changes only how damo itself behaves.
_SILENT: dict[str, Takes] = {
    "--monitoring_intervals_autotune": _NONE,
    "--debug_damon": _NONE,
    "--include_child_tasks": _NONE,
    "--format": _ONE,
    "--raw": _NONE,
    "--out": _ONE,
    "--omit_defaults": _NONE,
}
_SHORT = {
    "-s": "--sample",
    "-a": "--aggr",
    "-u": "--updr",
    "-n": "--minr",
    "-m": "--maxr",
    "-r": "--regions",
}
# Options whose value is a policy: that is a file of its own for tierd.
_POLICIES = ("--kdamonds", "--schemes", "-c")

TAKES: dict[str, Takes] = {
    **_PER_CONTEXT,
    **_PER_TARGET,
    **_PER_SCHEME,
    **_COUNTS,
    **_MARKS,
    **_SILENT,
    **{name: takes for name, (_, takes) in EXTRAS.items()},
}

# Contexts, targets and schemes of one command. The kernel takes one context per kdamond, and no
# machine has more nodes with memory than this.
PARTS_MAX = 1024


@dataclass(frozen=True, slots=True)
class Option:
    """An option of the command, with its values."""

    name: str
    word: Word
    values: tuple[Word, ...]

    @property
    def said(self) -> str:
        """The option as its author wrote it."""
        return " ".join((self.name, *(value.text for value in self.values)))


@dataclass(frozen=True, slots=True)
class Counts:
    """How many parts belong to each part, in order."""

    targets: tuple[int, ...]
    """Of each context."""
    schemes: tuple[int, ...]
    """Of each context."""
    goals: tuple[int, ...]
    """Of each scheme."""
    filters: tuple[int, ...]
    """Of each scheme."""


def options(command: Command, problems: list[Problem]) -> Iterator[Option | Word]:
    """Yield the options of a command, and words that belong to no option."""
    words = list(command.words[1:])
    if command.words[0].text == "args":
        words = words[1:]
    while words:
        word = words.pop(0)
        if not _is_option(word):
            yield word
            continue
        name, equals, value = word.text.partition("=")
        name = _SHORT.get(name, name)
        if name in _POLICIES:
            said = f"{name} has a policy of its own: put it into a file, and import that"
            problems.append(Problem(word.place, said))
        if name not in TAKES:
            if name not in _POLICIES:
                problems.append(Problem(word.place, _unknown(name)))
            while words and not _is_option(words[0]):
                words.pop(0)
            continue
        least, most = TAKES[name]
        values = [Word(value, word.place)] if equals else []
        while words and not _is_option(words[0]) and (most is None or len(values) < most):
            values.append(words.pop(0))
        if len(values) < least:
            found = "one" if len(values) == 1 else len(values) or "none"
            wanted = "a value" if least == 1 else f"{least} values"
            problems.append(Problem(word.place, f"{name}: expected {wanted}, found {found}"))
            continue
        yield Option(name, word, tuple(values))


def counts(listed: Sequence[Option], command: Command, problems: list[Problem]) -> Counts:
    """Return how the parts belong together, by the counts or by the marks."""
    number = {name: sum(one.name == name for one in listed) for name in TAKES}
    if any(number[name] for name in ("--kdamond", "--damon_ctx", "--damos_scheme", "--probe")):
        return _marked(listed, command, problems)
    given = {name: _numbers(listed, name, problems) for name in _COUNTS}
    contexts = max(
        1,
        *(number[name] for name in _PER_CONTEXT),
        len(given["--nr_targets"] or ()),
        len(given["--nr_schemes"] or ()),
    )
    targets = max(contexts, *(number[name] for name in _PER_TARGET))
    schemes = number["--damos_action"]
    of_contexts = {"--nr_targets": targets, "--nr_schemes": schemes}
    of_schemes = {
        "--damos_nr_quota_goals": number["--damos_quota_goal"],
        "--damos_nr_filters": number["--damos_filter"],
    }
    shares: dict[str, tuple[int, ...]] = {}
    for name, total in (of_contexts | of_schemes).items():
        parts = contexts if name in of_contexts else schemes
        shares[name] = _share(given[name], total, parts, name, command, problems)
    in_kdamonds = given["--nr_ctxs"]
    if in_kdamonds is not None and sum(in_kdamonds) != contexts:
        said = f"--nr_ctxs: expected a sum of {contexts}, the number of contexts"
        problems.append(Problem(command.place, f"{said}, found {sum(in_kdamonds)}"))
    return Counts(
        shares["--nr_targets"],
        shares["--nr_schemes"],
        shares["--damos_nr_quota_goals"],
        shares["--damos_nr_filters"],
    )


def _is_option(word: Word) -> bool:
    return word.text.startswith("-") and not word.text[1:2].isdigit()


def _unknown(name: str) -> str:
    close = difflib.get_close_matches(name[:100], TAKES, n=1)
    return f"unknown option {shown(name)}" + (f", did you mean {close[0]}?" if close else "")


def _numbers(
    listed: Sequence[Option], name: str, problems: list[Problem]
) -> tuple[int, ...] | None:
    """Return the values of an option that counts. If it is given twice, the last one counts."""
    given = [one for one in listed if one.name == name]
    if not given:
        return None
    found = []
    for word in given[-1].values:
        try:
            number = amounts.count(word.text)
            if number > PARTS_MAX:
                raise ValueError(f"expected at most {PARTS_MAX}, found {shown(word.text)}")
            found.append(number)
        except ValueError as error:
            problems.append(Problem(word.place, f"{name}: {error}"))
    return tuple(found)


def _share(
    given: tuple[int, ...] | None,
    total: int,
    parts: int,
    name: str,
    command: Command,
    problems: list[Problem],
) -> tuple[int, ...]:
    """Return how many of `total` each part has; only one part needs no option for that."""
    if given is None:
        if parts > 1 and total:
            problems.append(
                Problem(command.place, f"{name} is needed: {total} belong to {parts} parts")
            )
        return (total, *[0] * (parts - 1))
    if sum(given) != total or len(given) > max(parts, 1):
        said = f"{name}: expected a sum of {total}, in at most {parts} numbers"
        problems.append(Problem(command.place, f"{said}, found {' '.join(map(str, given))}"))
    return (*given, *[0] * (parts - len(given)))


def _marked(listed: Sequence[Option], command: Command, problems: list[Problem]) -> Counts:
    """Count the options between the marks. damo puts missing marks before the first option."""
    names = [one.name for one in listed]
    missing = [mark for mark in ("--damon_target", "--damon_ctx") if mark not in names]
    if missing == ["--damon_target"]:
        said = "--damon_target is needed after each --damon_ctx"
        problems.append(Problem(command.place, said))
    targets, schemes = ([0], [0]) if "--damon_ctx" in missing else ([], [])
    if "--damon_target" in missing and targets:
        targets[0] = 1
    goals: list[int] = []
    filters: list[int] = []
    counted = {
        "--damon_target": targets,
        "--damos_action": schemes,
        "--damos_quota_goal": goals,
        "--damos_filter": filters,
    }
    if "--damos_scheme" not in names and names.count("--damos_action") == 1:
        goals, filters = [0], [0]
        counted |= {"--damos_quota_goal": goals, "--damos_filter": filters}
    for one in listed:
        if one.name == "--damon_ctx":
            targets.append(0)
            schemes.append(0)
        elif one.name == "--damos_scheme":
            goals.append(0)
            filters.append(0)
        elif one.name in counted:
            numbers = counted[one.name]
            if numbers:
                numbers[-1] += 1
            else:
                of_context = one.name in ("--damon_target", "--damos_action")
                mark = "--damon_ctx" if of_context else "--damos_scheme"
                said = f"{one.name}: expected the mark {mark} somewhere before it"
                problems.append(Problem(one.word.place, said))
    return Counts(tuple(targets), tuple(schemes), tuple(goals), tuple(filters))
