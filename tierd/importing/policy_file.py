"""Reads damo's files, JSON or YAML, from their tree; HMSDK's generator writes the same.

Rules of this file:
1. An unknown key, and a value that damo would refuse, is a problem with its place.
2. A key that is absent or null has damo's default. What damo only reports, such as statistics, is
   not read.
3. Old names of keys are known too: `filter_pass` is `allow`, `target_value_bp` is `target_value`.
4. `damo args damon` writes a mapping with the key kdamonds, and `damo report damon` its list alone.
"""

import difflib
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from tierd.configuration.yamltext import (
    FilePlace,
    Problem,
    YamlList,
    YamlMapping,
    YamlNode,
    YamlScalar,
    YamlUnusable,
    shown,
)
from tierd.importing import amounts, foreign
from tierd.importing.foreign import (
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

T = TypeVar("T")

_KDAMOND = ("contexts", "refresh_ms", "state", "pid")
_CONTEXT = (
    *("ops", "targets", "intervals", "nr_regions", "schemes"),
    *("addr_unit", "probes", "sample_control", "ops_attrs", "pause"),
)
_TARGET = ("pid", "regions", "obsolete")
_REGION = ("start", "end", "nr_accesses", "age", "probe_hits", "sz_filter_passed")
_INTERVALS = ("sample_us", "aggr_us", "ops_update_us", "intervals_goal")
_INTERVALS_GOAL = ("access_bp", "aggrs", "min_sample_us", "max_sample_us")
_SPAN = ("min", "max")
_SCHEME = (
    *("action", "target_nid", "dests", "access_pattern", "apply_interval_us", "quotas"),
    *("watermarks", "filters", "stats", "tried_regions", "tried_bytes"),
)
_DESTINATION = ("id", "weight")
_PATTERN = ("sz_bytes", "nr_accesses", "age")
_QUOTA = (
    *("time_ms", "sz_bytes", "reset_interval_ms", "goals", "goal_tuner", "weights"),
    *("effective_sz_bytes", "fail_charge_num", "fail_charge_denom"),
)
_WEIGHTS = ("sz_permil", "nr_accesses_permil", "age_permil")
_GOAL = (
    *("metric", "target_value", "current_value", "nid", "memcg_path", "complement"),
    *("target_value_bp", "current_value_bp"),
)
_WATERMARKS = ("metric", "interval_us", "high_permil", "mid_permil", "low_permil")
_FILTER = (
    *("filter_type", "matching", "allow", "filter_pass", "memcg_path", "address_range"),
    *("damon_target_idx", "hugepage_size", "probe_hits_wsum_range"),
)
_PRIMITIVES = {"page_table": True, "page_fault": False}

# Alternatives that a message lists; a longer list would hide what was found.
LISTED_MAX = 12


def policy(root: YamlNode | None, file: str) -> tuple[ForeignPolicy, tuple[Problem, ...]]:
    """Return the policy in a file, and every problem with it."""
    reader = _Reader()
    if root is None:
        reader.problems.append(Problem(FilePlace(file), "is empty: expected the key kdamonds"))
    contexts = []
    for kdamond in _kdamonds(reader, root):
        keys = reader.table(kdamond, "a kdamond", _KDAMOND)
        reader.extra(keys, "refresh_ms", amounts.count, 0)
        contexts += [
            _context(reader, one) for one in reader.items(keys.get("contexts"), "contexts")
        ]
    return ForeignPolicy(tuple(contexts), tuple(reader.extras)), tuple(reader.problems)


def _kdamonds(reader: "_Reader", root: YamlNode | None) -> tuple[YamlNode, ...]:
    if isinstance(root, YamlList):
        return root.nodes
    top = reader.table(root, "a policy", ("kdamonds",))
    if isinstance(root, YamlMapping) and not reader.problems and "kdamonds" not in top:
        reader.problems.append(Problem(root.place, "expected the key kdamonds"))
    return reader.items(top.get("kdamonds"), "kdamonds")


class _Reader:
    """Reads parts of the tree; keeps the problems, and what tierd has no words for."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.extras: list[Given[str]] = []

    def table(
        self,
        node: YamlNode | None,
        what: str,
        known: Sequence[str],
        needed: Sequence[str] = (),
    ) -> dict[str, tuple[YamlScalar, YamlNode]]:
        """Return the entries of a mapping that are not null, by key."""
        if node is None or isinstance(node, YamlUnusable) or _is_null(node):
            return {}
        if not isinstance(node, YamlMapping):
            self.problems.append(Problem(node.place, f"expected {what}, found {_what(node)}"))
            return {}
        found = {}
        for key, value in node.entries:
            if key.text not in known:
                self.problems.append(Problem(key.place, _unknown(key.text, what, known)))
            elif not _is_null(value):
                found[key.text] = (key, value)
        missing = [key for key in needed if key not in found]
        if missing and node.entries:
            self.problems.append(Problem(node.place, f"{what} needs {' and '.join(missing)}"))
        return found

    def items(self, entry: tuple[YamlScalar, YamlNode] | None, what: str) -> tuple[YamlNode, ...]:
        """Return the members of a list."""
        if entry is None or isinstance(entry[1], YamlUnusable):
            return ()
        if not isinstance(entry[1], YamlList):
            found = _what(entry[1])
            self.problems.append(
                Problem(entry[1].place, f"expected a list of {what}, found {found}")
            )
            return ()
        return entry[1].nodes

    def value(
        self,
        keys: dict[str, tuple[YamlScalar, YamlNode]],
        key: str,
        parse: Callable[[str], T],
    ) -> Given[T] | None:
        """Return the value of a key, or None if it is absent or has a problem."""
        if key not in keys:
            return None
        name, node = keys[key]
        if isinstance(node, YamlUnusable):
            return None
        if not isinstance(node, YamlScalar):
            self.problems.append(
                Problem(node.place, f"{key}: expected a value, found {_what(node)}")
            )
            return None
        try:
            return Given(parse(node.text), f"{key} {node.text.strip()}", name.place)
        except ValueError as error:
            self.problems.append(Problem(node.place, f"{key}: {error}"))
            return None

    def extra(
        self,
        keys: dict[str, tuple[YamlScalar, YamlNode]],
        key: str,
        parse: Callable[[str], T],
        default: T,
    ) -> None:
        """Keep a value that tierd has no words for, unless it is the default."""
        given = self.value(keys, key, parse)
        if given is not None and given.value != default:
            self.extras.append(Given(key, given.said, given.place))


def _context(reader: _Reader, node: YamlNode) -> Context:
    keys = reader.table(node, "a context", _CONTEXT)
    intervals = reader.table(_node(keys, "intervals"), "intervals", _INTERVALS)
    reader.extra(keys, "addr_unit", amounts.size_bytes, 1)
    reader.extra(keys, "pause", amounts.switch, False)
    for key in ("probes", "ops_attrs"):
        if key in keys and not _is_empty(keys[key][1]):
            reader.extras.append(Given(key, key, keys[key][0].place))
    _sample_control(reader, keys)
    return Context(
        operations=reader.value(keys, "ops", _word("operations", foreign.OPERATIONS))
        or Given("paddr", "paddr", node.place),
        ranges=tuple(_ranges(reader, keys)),
        sample_us=reader.value(intervals, "sample_us", amounts.duration_us),
        aggr_us=reader.value(intervals, "aggr_us", amounts.duration_us),
        update_us=reader.value(intervals, "ops_update_us", amounts.duration_us),
        goal=_intervals_goal(reader, _node(intervals, "intervals_goal")),
        regions=_bounds(reader, _node(keys, "nr_regions"), "nr_regions", amounts.count),
        schemes=tuple(_scheme(reader, one) for one in reader.items(keys.get("schemes"), "schemes")),
    )


def _sample_control(reader: _Reader, keys: dict[str, tuple[YamlScalar, YamlNode]]) -> None:
    control = reader.table(
        _node(keys, "sample_control"), "sample_control", ("primitives_enabled", "sample_filters")
    )
    primitives = reader.table(
        _node(control, "primitives_enabled"), "primitives_enabled", tuple(_PRIMITIVES)
    )
    for name, default in _PRIMITIVES.items():
        given = reader.value(primitives, name, amounts.switch)
        if given is not None and given.value != default:
            reader.extras.append(Given("sample_control", given.said, given.place))
    if reader.items(control.get("sample_filters"), "sample_filters"):
        reader.extras.append(
            Given("sample_control", "sample_filters", control["sample_filters"][0].place)
        )


def _ranges(
    reader: _Reader, keys: dict[str, tuple[YamlScalar, YamlNode]]
) -> Iterator[Given[tuple[int, int]]]:
    for target in reader.items(keys.get("targets"), "targets"):
        parts = reader.table(target, "a target", _TARGET)
        reader.extra(parts, "obsolete", amounts.switch, False)
        for region in reader.items(parts.get("regions"), "regions"):
            ends = reader.table(region, "a region", _REGION, _REGION[:2])
            start = reader.value(ends, "start", amounts.size_bytes)
            end = reader.value(ends, "end", amounts.size_bytes)
            if start is None or end is None:
                continue
            if start.value >= end.value:
                said = f"the region ends at {end.value}, before its start at {start.value}"
                reader.problems.append(Problem(end.place, said))
            yield Given((start.value, end.value), start.said, start.place)


def _intervals_goal(reader: _Reader, node: YamlNode | None) -> IntervalsGoal | None:
    keys = reader.table(node, "intervals_goal", _INTERVALS_GOAL, _INTERVALS_GOAL)
    access = reader.value(keys, "access_bp", amounts.share_bp)
    aggrs = reader.value(keys, "aggrs", amounts.count)
    least = reader.value(keys, "min_sample_us", amounts.duration_us)
    most = reader.value(keys, "max_sample_us", amounts.duration_us)
    if access is None or aggrs is None or least is None or most is None:
        return None
    # The kernel tunes nothing if one of these is 0.
    return IntervalsGoal(access, aggrs, least, most) if access.value and aggrs.value else None


def _scheme(reader: _Reader, node: YamlNode) -> Scheme:
    keys = reader.table(node, "a scheme", _SCHEME)
    pattern = reader.table(_node(keys, "access_pattern"), "access_pattern", _PATTERN)
    action = reader.value(keys, "action", _word("action", foreign.ACTIONS))
    target = reader.value(keys, "target_nid", amounts.node_id)
    destinations = [
        reader.value(
            reader.table(one, "a destination", _DESTINATION, ("id",)), "id", amounts.node_id
        )
        for one in reader.items(keys.get("dests"), "dests")
    ]
    targets = tuple(one for one in (target, *destinations) if one is not None)
    if (
        action is not None
        and action.value in foreign.MOVING
        and not targets
        and "target_nid" not in keys
    ):
        reader.problems.append(Problem(action.place, f"{action.value} needs target_nid"))
    marks = reader.table(_node(keys, "watermarks"), "watermarks", _WATERMARKS)
    for name in _WATERMARKS[2:]:
        reader.value(marks, name, lambda text: amounts.share(text, amounts.PERMIL))
    return Scheme(
        action=action or Given("stat", "stat", node.place),
        targets=targets,
        sizes=_bounds(reader, _node(pattern, "sz_bytes"), "sz_bytes", amounts.size_bytes),
        accesses=_bounds(reader, _node(pattern, "nr_accesses"), "nr_accesses", amounts.accesses),
        ages=_bounds(reader, _node(pattern, "age"), "age", amounts.age),
        apply_us=reader.value(keys, "apply_interval_us", amounts.duration_us),
        quota=_quota(reader, _node(keys, "quotas")),
        watermarks=reader.value(marks, "metric", _word("metric", foreign.WATERMARKS)),
        filters=tuple(_filters(reader, reader.items(keys.get("filters"), "filters"))),
    )


def _bounds(
    reader: _Reader, node: YamlNode | None, name: str, parse: Callable[[str], T]
) -> Bounds[T]:
    keys = reader.table(node, name, _SPAN, _SPAN)
    least, most = reader.value(keys, "min", parse), reader.value(keys, "max", parse)
    named = [
        None if one is None else Given(one.value, f"{name}.{one.said}", one.place)
        for one in (least, most)
    ]
    return Bounds(*named)


def _quota(reader: _Reader, node: YamlNode | None) -> Quota:
    keys = reader.table(node, "quotas", _QUOTA)
    reader.extra(keys, "fail_charge_denom", amounts.count, 0)
    reader.value(keys, "fail_charge_num", amounts.count)
    weights = reader.table(_node(keys, "weights"), "weights", _WEIGHTS)
    shares = [
        reader.value(weights, name, lambda text: amounts.share(text, amounts.PERMIL))
        for name in _WEIGHTS
    ]
    said = ", ".join(one.said for one in shares if one is not None)
    return Quota(
        time_us=reader.value(keys, "time_ms", amounts.duration_of_ms_us),
        size_bytes=reader.value(keys, "sz_bytes", amounts.size_bytes),
        reset_us=reader.value(keys, "reset_interval_ms", amounts.duration_of_ms_us),
        weights=Given("weights", said, keys["weights"][0].place) if said else None,
        goals=tuple(_goals(reader, reader.items(keys.get("goals"), "goals"))),
        tuner=reader.value(keys, "goal_tuner", _word("goal_tuner", foreign.TUNERS)),
    )


def _goals(reader: _Reader, nodes: Sequence[YamlNode]) -> Iterator[Goal]:
    for node in nodes:
        keys = reader.table(node, "a goal", _GOAL)
        if keys and not keys.keys() & {"target_value", "target_value_bp"}:
            reader.problems.append(Problem(node.place, "a goal needs target_value"))
        metric = reader.value(keys, "metric", _word("metric", foreign.METRICS)) or Given(
            "user_input", "user_input", node.place
        )
        is_share = metric.value in foreign.SHARES
        parse = amounts.share_bp if is_share else amounts.duration_us
        old = reader.value(keys, "target_value_bp", amounts.count)
        target = reader.value(keys, "target_value", parse) or old
        complement = reader.value(keys, "complement", amounts.switch)
        if target is not None:
            yield Goal(
                metric,
                target,
                reader.value(keys, "nid", amounts.node_id),
                complement is not None and complement.value,
            )


def _filters(reader: _Reader, nodes: Sequence[YamlNode]) -> Iterator[Filter]:
    for node in nodes:
        keys = reader.table(node, "a filter", _FILTER)
        kind = reader.value(keys, "filter_type", _word("filter_type", foreign.FILTERS))
        matching = reader.value(keys, "matching", amounts.switch)
        allow = reader.value(keys, "allow", amounts.switch) or reader.value(
            keys, "filter_pass", amounts.switch
        )
        path = reader.value(keys, "memcg_path", str)
        if kind is None:
            if "filter_type" not in keys and keys:
                reader.problems.append(Problem(node.place, "a filter needs filter_type"))
            continue
        if kind.value == "memcg" and path is None:
            reader.problems.append(Problem(kind.place, "a memcg filter needs memcg_path"))
        # damo reports an empty path for other filters.
        of_cgroup = path if kind.value == "memcg" else None
        yield Filter(
            kind if of_cgroup is None else Given(kind.value, of_cgroup.said, of_cgroup.place),
            matching is None or matching.value,
            allow is not None and allow.value,
            "" if of_cgroup is None else of_cgroup.value,
        )


def _word(name: str, known: Sequence[str]) -> Callable[[str], str]:
    """Return a parser of one of these words."""

    def parse(text: str) -> str:
        # damo 3.4 reports goal_tuner with the line end of the kernel's file.
        word = text.strip()
        if word not in known:
            raise ValueError(f"expected one of {', '.join(known)}, found {shown(text)}")
        return word

    assert len(known) <= LISTED_MAX, name
    return parse


def _node(keys: dict[str, tuple[YamlScalar, YamlNode]], key: str) -> YamlNode | None:
    return keys[key][1] if key in keys else None


def _unknown(key: str, what: str, known: Sequence[str]) -> str:
    if len(known) == 1:
        return f"unknown key {shown(key)} in {what}: expected {known[0]}"
    close = difflib.get_close_matches(key[:100], known, n=1)
    return f"unknown key {shown(key)} in {what}" + (f", did you mean {close[0]}?" if close else "")


def _is_null(node: YamlNode) -> bool:
    return isinstance(node, YamlScalar) and node.is_null


def _is_empty(node: YamlNode) -> bool:
    """True if the node is a list or a mapping without anything in it."""
    if isinstance(node, YamlList):
        return not node.nodes
    return isinstance(node, YamlMapping) and not node.entries


def _what(node: YamlNode) -> str:
    if isinstance(node, YamlScalar):
        return shown(node.text)
    return "a list" if isinstance(node, YamlList) else "a mapping"
