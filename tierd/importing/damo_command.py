"""Reads the commands of damo in a text: `damo start OPTIONS`, and what stands beside it.

Rules of this file:
1. An option that damo does not have, and a value that it would refuse, is a problem with its place.
2. One command says the policy. With two it is not clear which one is meant.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from tierd.configuration.yamltext import FilePlace, Problem, shown
from tierd.importing import amounts, damo_options, foreign, shell_text
from tierd.importing.damo_options import EXTRAS, Counts, Option
from tierd.importing.foreign import (
    UNSAID,
    Bounds,
    Context,
    Filter,
    ForeignPolicy,
    Given,
    Goal,
    IntervalsGoal,
    Quota,
    Scheme,
)
from tierd.importing.shell_text import Command, ShellText, Word

T = TypeVar("T")

# What damo takes if the options do not say it.
_SAMPLE, _AGGREGATION, _UPDATE = "5ms", "100ms", "1s"
_REGIONS = ("10", "1000")
_TUNING = ("4%", "3", "5ms", "10s")
_NO_TUNING = ("0%", "0", "0us", "0us")

_ALLOWING, _REJECTING = ("allow", "pass"), ("reject", "deny", "block")
_WEIGHTS = ("1", "1", "1")
# Values that a filter needs after its type.
_FILTER_VALUES = {"memcg": 1, "target": 1, "addr": 2, "hugepage_size": 2, "probe_hits_wsum": 2}


def policy(file: str, text: str) -> tuple[ForeignPolicy, tuple[Problem, ...]]:
    """Return the policy in a text with commands, and every problem with it."""
    found = shell_text.read(file, text)
    problems = list(found.problems)
    if problems and not found.commands:
        return ForeignPolicy(()), found.problems
    starts = [one for one in found.commands if one.words[0].text.lower() != "module"]
    if len(starts) != 1:
        lines = ", ".join(str(one.place.line) for one in starts) or "none"
        said = f"expected one `damo start` command, found {len(starts)} (line {lines}): keep one"
        place = starts[1].place if starts else FilePlace(file)
        return ForeignPolicy(()), (*problems, Problem(place, said))
    made = _Builder(starts[0], problems).policy()
    extras = list(made.extras)
    if found.unread_lines:
        said = "1 line" if found.unread_lines == 1 else f"{found.unread_lines} lines"
        extras.append(Given("unread", f"{said} beside the command", starts[0].place))
    return (
        ForeignPolicy(made.contexts, tuple(extras), _damon_stat(found), _demotion(found)),
        tuple(problems),
    )


def _damon_stat(found: ShellText) -> Given[bool] | None:
    """Return True if the text stops damon_stat: `damo module stat write enabled N`."""
    for one in found.commands:
        words = [word.text for word in one.words]
        if words[:4] == ["module", "stat", "write", "enabled"] and len(words) > 4:
            said = f"damo {' '.join(words[:5])}"
            return Given(words[4].upper() in ("N", "0"), said, one.place)
    return None


def _demotion(found: ShellText) -> Given[bool] | None:
    if found.demotion is None:
        return None
    is_on = found.demotion.text.lower() in ("1", "true", "y")
    return Given(is_on, f"demotion_enabled {found.demotion.text}", found.demotion.place)


class _Builder:
    """Builds the policy from the options of one command; adds to the problems."""

    def __init__(self, command: Command, problems: list[Problem]) -> None:
        self._command = command
        self._problems = problems
        self._options: list[Option] = []
        self._by_name: dict[str, list[Option]] = {}
        self._loose: list[Word] = []
        for one in damo_options.options(command, problems):
            if isinstance(one, Option):
                self._options.append(one)
                self._by_name.setdefault(one.name, []).append(one)
            else:
                self._loose.append(one)

    def policy(self) -> ForeignPolicy:
        self._check_loose()
        numbers = damo_options.counts(self._options, self._command, self._problems)
        schemes = self._schemes(numbers)
        extras = [
            Given(EXTRAS[one.name][0], one.said, one.word.place)
            for one in self._options
            if one.name in EXTRAS
        ]
        extras += self._without_effect()
        contexts = []
        first_target = first_scheme = 0
        for index, count in enumerate(numbers.schemes):
            targets = range(first_target, first_target + numbers.targets[index])
            mine = schemes[first_scheme : first_scheme + count]
            contexts.append(self._context(index, targets, tuple(mine)))
            first_target, first_scheme = targets.stop, first_scheme + count
        return ForeignPolicy(tuple(contexts), tuple(extras))

    def _all(self, name: str) -> list[Option]:
        return self._by_name.get(name, [])

    def _of(self, name: str, index: int) -> Option | None:
        """Return the option of a context, a target or a scheme by its number."""
        listed = self._all(name)
        return listed[index] if index < len(listed) else None

    def _check_loose(self) -> None:
        """Report words that belong to no option; the word paddr is the default."""
        for word in self._loose:
            if word.text == "paddr":
                continue
            if word.text.endswith((".yaml", ".json")):
                said = f"the policy is in another file: tierd import {shown(word.text)}"
            else:
                said = f"expected an option, found {shown(word.text)}"
            self._problems.append(Problem(word.place, said))

    def _without_effect(self) -> Iterator[Given[str]]:
        """Yield the parts of a quota that damo does not use without an interval."""
        if self._all("--damos_quota_interval"):
            return
        for name in ("--damos_quota_time", "--damos_quota_space", "--damos_quota_weights"):
            for one in self._all(name):
                yield Given("quota_without_interval", one.said, one.word.place)

    def _given(
        self, option: Option | None, index: int, default: str, parse: Callable[[str], T]
    ) -> Given[T] | None:
        """Return a value of an option, or damo's default, which nobody said."""
        if option is None or index >= len(option.values):
            return Given(parse(default), UNSAID, self._command.place)
        word = option.values[index]
        try:
            return Given(parse(word.text), option.said, word.place)
        except ValueError as error:
            self._problems.append(Problem(word.place, f"{option.name}: {error}"))
            return None

    def _context(self, index: int, targets: range, schemes: tuple[Scheme, ...]) -> Context:
        all_three = self._of("--monitoring_intervals", index)
        both = self._of("--monitoring_nr_regions_range", index)

        def interval(name: str, part: int, default: str) -> Given[int] | None:
            alone = self._of(name, index)
            option, place = (all_three, part) if alone is None else (alone, 0)
            return self._given(option, place, default, amounts.duration_us)

        def bound(name: str, part: int) -> Given[int] | None:
            alone = self._of(name, index)
            option, place = (both, part) if alone is None else (alone, 0)
            return self._given(option, place, _REGIONS[part], amounts.count)

        return Context(
            operations=self._operations(index, targets),
            nodes=tuple(self._nodes(targets)),
            ranges=tuple(self._ranges(targets)),
            sample_us=interval("--sample", 0, _SAMPLE),
            aggr_us=interval("--aggr", 1, _AGGREGATION),
            update_us=interval("--updr", 2, _UPDATE),
            goal=self._intervals_goal(index),
            regions=Bounds(bound("--minr", 0), bound("--maxr", 1)),
            schemes=schemes,
        )

    def _operations(self, index: int, targets: range) -> Given[str]:
        pids = [self._of("--target_pid", one) for one in targets]
        watched = next((one for one in pids if one is not None), None)
        option = self._of("--ops", index)
        if option is None:
            name = "paddr" if watched is None else "vaddr"
            place = self._command.place if watched is None else watched.word.place
            return Given(name, name if watched is None else watched.said, place)
        word = option.values[0]
        if word.text not in foreign.OPERATIONS:
            listed = ", ".join(foreign.OPERATIONS)
            said = f"--ops: expected one of {listed}, found {shown(word.text)}"
            self._problems.append(Problem(word.place, said))
        return Given(word.text, option.said, word.place)

    def _nodes(self, targets: range) -> Iterator[Given[int]]:
        for target in targets:
            option = self._of("--numa_node", target)
            for index in range(len(option.values) if option else 0):
                node = self._given(option, index, "0", amounts.node_id)
                if node is not None:
                    yield node

    def _ranges(self, targets: range) -> Iterator[Given[tuple[int, int]]]:
        for target in targets:
            option = self._of("--regions", target)
            if option is None:
                continue
            for part in option.values[0].text.split():
                start, _, end = part.partition("-")
                try:
                    ends = amounts.size_bytes(start), amounts.size_bytes(end)
                    if ends[0] >= ends[1]:
                        raise ValueError(f"expected START-END, found {shown(part)}")
                    yield Given(ends, option.said, option.word.place)
                except ValueError as error:
                    self._problems.append(Problem(option.values[0].place, f"--regions: {error}"))

    def _intervals_goal(self, index: int) -> IntervalsGoal | None:
        option = self._of("--monitoring_intervals_goal", index)
        autotune = self._all("--monitoring_intervals_autotune")
        defaults = _TUNING if autotune else _NO_TUNING
        given = None if autotune else option
        access = self._given(given, 0, defaults[0], amounts.share_bp)
        aggrs = self._given(given, 1, defaults[1], amounts.count)
        least = self._given(given, 2, defaults[2], amounts.duration_us)
        most = self._given(given, 3, defaults[3], amounts.duration_us)
        if access is None or aggrs is None or least is None or most is None:
            return None
        return IntervalsGoal(access, aggrs, least, most) if access.value and aggrs.value else None

    def _schemes(self, numbers: Counts) -> list[Scheme]:
        actions = self._all("--damos_action")
        goals, filters = self._all("--damos_quota_goal"), self._all("--damos_filter")
        schemes = []
        first_goal = first_filter = 0
        for index, action in enumerate(actions):
            goal_count = numbers.goals[index] if index < len(numbers.goals) else 0
            filter_count = numbers.filters[index] if index < len(numbers.filters) else 0
            mine = goals[first_goal : first_goal + goal_count]
            kept = filters[first_filter : first_filter + filter_count]
            schemes.append(self._scheme(index, action, mine, kept))
            first_goal, first_filter = first_goal + goal_count, first_filter + filter_count
        return schemes

    def _scheme(
        self, index: int, action: Option, goals: Sequence[Option], filters: Sequence[Option]
    ) -> Scheme:
        name, *others = action.values
        if name.text not in foreign.ACTIONS:
            listed = ", ".join(foreign.ACTIONS)
            said = f"{action.name}: expected one of {listed}, found {shown(name.text)}"
            self._problems.append(Problem(name.place, said))
        moves = name.text in foreign.MOVING
        if moves and not others:
            said = f"{name.text} needs the node that memory moves to, as in `{name.text} 1`"
            self._problems.append(Problem(name.place, said))
        if others and not moves:
            said = f"{name.text} takes no further value, found {shown(others[0].text)}"
            self._problems.append(Problem(others[0].place, said))
        # One node, or several nodes that are each followed by a weight.
        places = (1,) if len(others) == 1 else range(1, len(action.values), 2)
        targets = [self._given(action, one, "0", amounts.node_id) for one in places if moves]
        apply = self._of("--damos_apply_interval", index)
        marks = self._of("--damos_wmarks", index)
        return Scheme(
            action=Given(name.text, action.said, action.word.place),
            targets=tuple(one for one in targets if one is not None),
            sizes=self._bounds("--damos_sz_region", index, amounts.size_bytes),
            accesses=self._bounds("--damos_access_rate", index, amounts.accesses),
            ages=self._bounds("--damos_age", index, amounts.age),
            apply_us=self._given(apply, 0, "0", amounts.duration_us),
            quota=self._quota(index, goals),
            watermarks=None if marks is None else self._watermarks(marks),
            filters=tuple(one for option in filters for one in self._filters(option)),
        )

    def _bounds(self, name: str, index: int, parse: Callable[[str], T]) -> Bounds[T]:
        option = self._of(name, index)
        return Bounds(self._given(option, 0, "min", parse), self._given(option, 1, "max", parse))

    def _watermarks(self, option: Option) -> Given[str]:
        metric = option.values[0]
        if metric.text not in foreign.WATERMARKS:
            listed = " or ".join(foreign.WATERMARKS)
            said = f"{option.name}: expected {listed}, found {shown(metric.text)}"
            self._problems.append(Problem(metric.place, said))
        self._given(option, 1, "0", amounts.duration_us)
        for index in (2, 3, 4):
            self._given(option, index, "0", lambda text: amounts.share(text, amounts.PERMIL))
        return Given(metric.text, option.said, option.word.place)

    def _quota(self, index: int, goals: Sequence[Option]) -> Quota:
        whole = self._of("--damos_quotas", index)
        interval = self._of("--damos_quota_interval", index)
        if whole is not None and interval is not None:
            said = "give either --damos_quotas or --damos_quota_interval, not both"
            self._problems.append(Problem(interval.word.place, said))
        if goals and interval is None and (whole is None or len(whole.values) < 3):
            said = "a goal needs a quota with an interval: --damos_quota_interval"
            self._problems.append(Problem(goals[0].word.place, said))

        def part(name: str, at: int, default: str) -> tuple[Option | None, int, str]:
            return (whole, at, default) if interval is None else (self._of(name, index), 0, default)

        tuner = self._of("--damos_quota_goal_tuner", index)
        return Quota(
            time_us=self._given(*part("--damos_quota_time", 0, "0"), amounts.duration_of_ms_us),
            size_bytes=self._given(*part("--damos_quota_space", 1, "0"), amounts.size_bytes),
            reset_us=self._given(
                *part("--damos_quota_interval", 2, "max"), amounts.duration_of_ms_us
            ),
            weights=self._weights(whole, interval, self._of("--damos_quota_weights", index)),
            goals=tuple(one for goal in goals if (one := self._goal(goal)) is not None),
            tuner=None if tuner is None else self._tuner(tuner),
        )

    def _weights(
        self, whole: Option | None, interval: Option | None, alone: Option | None
    ) -> Given[str] | None:
        option, first = (whole, 3) if interval is None else (alone, 0)
        if option is None or len(option.values) <= first:
            return None
        for index in range(first, len(option.values)):
            self._given(option, index, "0", lambda text: amounts.share(text, amounts.PERMIL))
        said = " ".join(word.text for word in option.values[first:])
        return Given("weights", f"weights {said}", option.word.place)

    def _tuner(self, option: Option) -> Given[str]:
        word = option.values[0]
        if word.text not in foreign.TUNERS:
            listed = " or ".join(foreign.TUNERS)
            said = f"{option.name}: expected {listed}, found {shown(word.text)}"
            self._problems.append(Problem(word.place, said))
        return Given(word.text, option.said, word.place)

    def _goal(self, option: Option) -> Goal | None:
        metric, _, *others = option.values
        if metric.text not in foreign.METRICS:
            listed = ", ".join(foreign.METRICS)
            said = f"{option.name}: expected one of {listed}, found {shown(metric.text)}"
            self._problems.append(Problem(metric.place, said))
            return None
        is_share = metric.text in foreign.SHARES
        parse = amounts.share_bp if is_share else amounts.duration_us
        target = self._given(option, 1, "0", parse)
        complement = bool(others) and others[0].text == "complement"
        at = 3 if complement else 2
        of_node = metric.text.startswith("node_mem")
        node = None
        if of_node and len(option.values) <= at:
            said = f"{option.name}: {metric.text} needs the id of a node"
            self._problems.append(Problem(metric.place, said))
        elif of_node:
            node = self._given(option, at, "0", amounts.node_id)
        if target is None:
            return None
        return Goal(Given(metric.text, option.said, option.word.place), target, node, complement)

    def _filters(self, option: Option) -> Iterator[Filter]:
        """Read `reject none memcg /a`, or as older versions have it: `memcg nomatching /a`.

        Some versions take several filters in one option.
        """
        words = [word.text for word in option.values]
        if words[0] not in (*_ALLOWING, *_REJECTING):
            words = self._new_form(option, words)
        while words:
            allow = words.pop(0) in _ALLOWING
            matching = words[:1] not in (["none"], ["non"])
            words = words if matching else words[1:]
            kind = words.pop(0) if words else ""
            wanted = _FILTER_VALUES.get(kind, 0)
            values, words = words[:wanted], words[wanted:]
            said = ""
            if kind not in foreign.FILTERS:
                said = f"expected one of {', '.join(foreign.FILTERS)}, found {shown(kind)}"
            elif len(values) < wanted:
                said = f"{kind} needs {'a value' if wanted == 1 else f'{wanted} values'}"
            elif words and words[0] not in (*_ALLOWING, *_REJECTING):
                said = f"expected allow or reject, found {shown(words[0])}"
            if said:
                self._problems.append(Problem(option.word.place, f"{option.name}: {said}"))
                return
            path = values[0] if kind == "memcg" else ""
            yield Filter(Given(kind, option.said, option.word.place), matching, allow, path)

    def _new_form(self, option: Option, words: list[str]) -> list[str]:
        """Return the words of a filter in the older form as words of the newer one."""
        verdict = _REJECTING[0]
        if words[-1] in (*_ALLOWING, *_REJECTING):
            verdict = words.pop()
        kind, *others = words
        if others[:1] not in (["matching"], ["nomatching"]):
            said = f"{option.name}: expected allow or reject first, found {shown(kind)}"
            self._problems.append(Problem(option.word.place, said))
            return []
        none = [] if others[0] == "matching" else ["none"]
        return [verdict, *none, kind, *others[1:]]
