"""The settings of `monitoring` and `loop`, from the intervals and regions of a policy."""

from collections.abc import Sequence
from typing import Any

from tierd.configuration.config import SAMPLES_PER_AGGREGATION_MIN, Config
from tierd.importing.foreign import UNSAID, Context, Given
from tierd.importing.remarks import Kind, Part, noted, remark
from tierd.importing.values import fits, settled

# What DAMON and damo take if nobody says otherwise.
SAMPLE_US, AGGREGATION_US, UPDATE_US = 5_000, 100_000, 1_000_000
REGIONS = (10, 1_000)
# Aggregations over which tierd lets the kernel tune its intervals.
TUNED_AGGREGATIONS = 3


def sampling(contexts: Sequence[Context]) -> list[Part]:
    """Return how often DAMON looks and acts, and in how many regions."""
    fastest = min(contexts, key=sample_us)
    parts = [_intervals(fastest), _regions(contexts), *map(_update, contexts)]
    aggr_us = parts[0].values.get("aggr_us", Config().aggr_us)
    others = [
        one.sample_us
        for one in contexts
        if one.sample_us is not None and _key(one) != _key(fastest)
    ]
    if others:
        text = "tierd has the same intervals on all nodes: the shortest are taken"
        parts.append(noted(Kind.changed, others, text, about="sample_us"))
    return [*parts, window(contexts, aggr_us)]


def sample_us(context: Context) -> int:
    """Return the shortest time between two samples."""
    if context.goal is not None:
        return context.goal.sample_us_min.value
    return SAMPLE_US if context.sample_us is None else context.sample_us.value


def aggregation_us(context: Context) -> int:
    """Return the time of an aggregation."""
    return AGGREGATION_US if context.aggr_us is None else context.aggr_us.value


def samples(context: Context) -> int:
    """Return how many samples an aggregation has; tuning does not change that."""
    each_us = max(1, SAMPLE_US if context.sample_us is None else context.sample_us.value)
    if context.goal is not None:
        # damo writes three digits of what the kernel has tuned: 125.120 ms and 2.502 s.
        return max(1, round(aggregation_us(context) / each_us))
    return max(1, aggregation_us(context) // each_us)


def window(contexts: Sequence[Context], aggr_us: int) -> Part:
    """Return how often schemes act: not more often than there is a new count."""
    given = [
        Given(max(1, one.apply_us.value // 1000), one.apply_us.said, one.apply_us.place)
        for context in contexts
        for one in context.schemes
        if one.apply_us is not None and one.apply_us.value
    ]
    part = settled("window_ms", given, min, "the shortest") if given else Part()
    window_ms = part.values.get("window_ms", Config().window_ms)
    if window_ms * 1000 >= aggr_us:
        return part
    longer_ms = -(-aggr_us // 1000)
    said: list[Given[Any]] = [one.aggr_us for one in contexts if one.aggr_us is not None]
    said = said or [one.goal.sample_us_min for one in contexts if one.goal is not None]
    text = "a window must not be shorter than an aggregation: else there is no new count"
    changed = remark(Kind.changed, said, text, about="window_ms", value=longer_ms)
    kept = tuple(one for one in part.remarks if one.kind is not Kind.carried)
    return Part({"window_ms": longer_ms}, (*kept, changed))


def _key(context: Context) -> object:
    goal = context.goal
    return goal or (sample_us(context), aggregation_us(context))


def _intervals(context: Context) -> Part:
    goal = context.goal
    looked = [one for one in (context.sample_us, context.aggr_us) if one is not None]
    given: dict[str, tuple[Any, list[Given[Any]]]]
    if goal is not None:
        aggr_us = samples(context) * goal.sample_us_min.value
        given = {
            "auto_intervals": (True, [goal.aggrs]),
            "access_bp": (goal.access_bp.value, [goal.access_bp]),
            "sample_us": (goal.sample_us_min.value, [goal.sample_us_min]),
            "sample_us_max": (goal.sample_us_max.value, [goal.sample_us_max]),
            "aggr_us": (aggr_us, looked or [goal.sample_us_min]),
        }
    elif (sample_us(context), aggregation_us(context)) == (SAMPLE_US, AGGREGATION_US):
        if not looked:
            return Part()
        text = "DAMON's default. tierd lets the kernel tune its intervals by what it sees"
        return noted(Kind.improved, looked, text, about="auto_intervals", value=True)
    else:
        given = {
            "sample_us": (sample_us(context), looked[:1]),
            "aggr_us": (aggregation_us(context), looked[-1:]),
        }
    values = {field: value for field, (value, _) in given.items()}
    said = [one for _, listed in given.values() for one in listed]
    why = _misfit(values)
    if why:
        return noted(Kind.changed, said, why, about="sample_us")
    remarks = [
        remark(Kind.carried, listed, about=field, value=value)
        for field, (value, listed) in given.items()
    ]
    if goal is None:
        values["auto_intervals"] = False
        text = (
            "the policy has fixed intervals. tierd's own see changes sooner: to use them, remove "
            "the groups monitoring and loop"
        )
        remarks.append(remark(Kind.changed, said, text, about="auto_intervals", value=False))
    elif goal.aggrs.value != TUNED_AGGREGATIONS:
        text = f"tierd always lets the kernel tune over {TUNED_AGGREGATIONS} aggregations"
        remarks.append(remark(Kind.lost, [goal.aggrs], text))
    return Part(values, tuple(remarks))


def _misfit(values: dict[str, Any]) -> str:
    """Return why tierd cannot take these intervals; empty if it can."""
    least_us, most_us = values["sample_us"], values.get("sample_us_max", values["sample_us"])
    if values["aggr_us"] < SAMPLES_PER_AGGREGATION_MIN * least_us:
        return (
            f"tierd needs {SAMPLES_PER_AGGREGATION_MIN} samples per aggregation to tell hot from "
            "warm memory: its own intervals stay in force"
        )
    if most_us < least_us:
        return "the longest interval is less than the shortest: tierd's own stay in force"
    bad = [field for field, value in values.items() if not fits(field, value)]
    # The window, which is not shorter than the aggregation, has the lower limit.
    if bad or not fits("window_ms", -(-values["aggr_us"] // 1000)):
        return "tierd takes no intervals of this length: its own stay in force"
    return ""


def _regions(contexts: Sequence[Context]) -> Part:
    spans = [
        (one.regions.least, one.regions.most)
        for one in contexts
        if one.regions.least is not None and one.regions.most is not None
    ]
    if not spans:
        return Part()
    said = [one for span in spans for one in span]
    pairs = {(least.value, most.value) for least, most in spans}
    if pairs == {REGIONS} and {one.said for one in said} == {UNSAID}:
        return Part()
    if pairs == {REGIONS}:
        text = "DAMON's default. tierd chooses by the size of the node"
        return noted(Kind.improved, said, text, about="regions")
    span = (min(least for least, _ in pairs), max(most for _, most in pairs))
    if not fits("regions", span):
        text = "tierd takes 3 to 100000 regions: it chooses by the size of the node"
        return noted(Kind.changed, said, text, about="regions")
    if len(pairs) > 1:
        text = "tierd has the same bounds on all nodes: the widest are taken"
        return Part(
            {"regions": span}, (remark(Kind.changed, said, text, about="regions", value=span),)
        )
    return Part({"regions": span}, (remark(Kind.carried, said, about="regions", value=span),))


def _update(context: Context) -> Part:
    if context.update_us is None or context.update_us.value == UPDATE_US:
        return Part()
    text = "tierd always uses 60 s, and notices by itself when memory comes or goes"
    return noted(Kind.lost, [context.update_us], text)
