"""The settings of how much moves, and of what is hot and cold, from the schemes of a policy."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from tierd.configuration.config import Config, used_bp_for
from tierd.frozen import dataclass
from tierd.importing.foreign import HOT, MAX, Amount, Context, Given, Goal, Scheme, Unit
from tierd.importing.remarks import Kind, Part, noted, remark
from tierd.importing.sampling_settings import aggregation_us, samples
from tierd.importing.values import fits, settled
from tierd.units import BP_MAX, format_percent

# Bytes: damo's default for the smallest region, which is all regions.
REGION_MIN = 4096

# Bytes that a kdamond moves in one second of its own time, at the very most: one processor copies
# about this much. If the quota of bytes allows more in the quota of time, the time is what limits.
MOVED_BYTES_PER_S_MAX = 10 * 10**9

# The tuner of goals that damo writes if nobody asks for another.
CONSIST = "consist"

# Aggregations: the largest age that the kernel counts to. What damo reports for no maximum is
# above it, but not always the largest number.
AGE_MAX = 2**32 - 1

# damo takes K, KB and KiB for the same.
_AMBIGUOUS = re.compile(r"[0-9] ?[KMGTPE]B?\b")


@dataclass(frozen=True, slots=True)
class Moving:
    """A scheme that moves memory, and where it is."""

    context: Context
    scheme: Scheme

    @property
    def is_hot(self) -> bool:
        """True if the scheme promotes."""
        return self.scheme.action.value == HOT


@dataclass(frozen=True, slots=True)
class _NoRate:
    """Why a scheme has no rate that can be carried over."""

    kind: Kind
    given: tuple[Given[Any], ...]
    why: str


def amounts_moved(moving: Sequence[Moving]) -> list[Part]:
    """Return how much may move, and until when."""
    parts = [*_rates(moving), _pieces(moving)]
    parts += [_weights(one) for one in moving]
    parts += _fill(moving)
    return parts


def patterns(moving: Sequence[Moving]) -> list[Part]:
    """Return what is hot and what is cold."""
    parts = []
    hot = [one for one in moving if one.is_hot]
    cold = [one for one in moving if not one.is_hot]
    accesses = [given for one in hot for given in _least_accesses(one)]
    if accesses:
        parts.append(settled("hot_accesses_min_bp", accesses, max, "the highest share"))
    for field, schemes in (("hot_age_ms_min", hot), ("cold_age_ms_min", cold)):
        ages = [given for one in schemes for given in _least_age(one)]
        if any(one.value for one in ages):
            text = "with a minimum age the kernel does not tune its sampling intervals"
            parts.append(settled(field, ages, max, "the longest time", text))
    parts += [Part({}, tuple(_other_bounds(one))) for one in moving]
    return parts


def _rates(moving: Sequence[Moving]) -> list[Part]:
    quotas = [(one, _rate(one)) for one in moving]
    rates = [rate for _, rate in quotas if isinstance(rate, Given)]
    parts = []
    if rates:
        ambiguous = any(_AMBIGUOUS.search(one.said) for one in rates)
        text = "damo counts in powers of 1024" if ambiguous else ""
        parts.append(settled("rate_max_bytes_per_s", rates, min, "the lowest rate", text))
    value = parts[0].values.get("rate_max_bytes_per_s") if parts else None
    ending = "its default stays in force"
    if value is not None:
        ending = "the limit of the other schemes is for all"
    for one, rate in quotas:
        if isinstance(rate, Given):
            parts.append(_times(one))
        else:
            text = f"{rate.why}: {ending}"
            about = "rate_max_bytes_per_s"
            parts.append(noted(rate.kind, rate.given, text, about=about, value=value))
    return parts


def _rate(one: Moving) -> Given[int] | _NoRate:
    """Return bytes per second, or why there are none."""
    quota = one.scheme.quota
    size, time, reset = quota.size_bytes, quota.time_us, quota.reset_us
    if size is None or not size.value or size.value == MAX:
        given: tuple[Given[Any], ...] = (one.scheme.action,)
        return _NoRate(
            Kind.changed, given, "the policy has no limit of bytes. tierd always has one"
        )
    if time is not None and time.value:
        possible = MOVED_BYTES_PER_S_MAX * time.value // 10**6
        if size.value > possible:
            why = (
                "no kernel moves that much in so short a time, so the limit of time was the real "
                "one. tierd limits bytes per second"
            )
            return _NoRate(Kind.improved, (size, time), why)
    reset_us = MAX if reset is None else reset.value
    if reset_us == 0:
        apply = one.scheme.apply_us
        reset_us = apply.value if apply is not None and apply.value else 0
        reset_us = reset_us or aggregation_us(one.context)
    # Rounded up, so that a rate that became a quota of whole bytes comes back.
    rate = 0 if reset_us == MAX else -(-size.value * 10**6 // max(1, reset_us))
    if not rate:
        why = "this is a limit for all time. tierd limits bytes per second"
        return _NoRate(Kind.changed, (size,), why)
    said_reset = "" if reset is None or reset.said == size.said else f", {reset.said}"
    return Given(rate, f"{size.said}{said_reset}", size.place)


def _times(one: Moving) -> Part:
    time = one.scheme.quota.time_us
    if time is None or not time.value:
        return Part()
    text = "tierd has no limit of working time; `rate_limit` also limits what moving costs"
    return noted(Kind.lost, [time], text)


def _pieces(moving: Sequence[Moving]) -> Part:
    """Return a remark if several schemes move to one node, each with a quota of its own."""
    ways: dict[object, list[Moving]] = {}
    for one in moving:
        for target in one.scheme.targets:
            way = (one.scheme.action.value, one.context.nodes, target.value)
            ways.setdefault(way, []).append(one)
    many = [listed for listed in ways.values() if len(listed) > 1]
    if not many:
        return Part()
    said = [one.scheme.action for listed in many for one in listed]
    text = (
        f"up to {max(map(len, many))} schemes move memory to the same node, each with a quota of "
        "its own. In tierd each node has one limit, for all of its memory"
    )
    return noted(Kind.improved, said, text, about="rate_max_bytes_per_s")


def _weights(one: Moving) -> Part:
    weights = one.scheme.quota.weights
    if weights is None:
        return Part()
    text = "tierd has its own order: what is hottest first, and what has been cold for longest"
    return noted(Kind.lost, [weights], text)


def _fill(moving: Sequence[Moving]) -> list[Part]:
    """Return the headroom and how full promotion makes a node."""
    free: list[Given[int]] = []
    used: list[Given[int]] = []
    parts: list[Part] = []
    goals = [(one, goal) for one in moving for goal in one.scheme.quota.goals]
    for one, goal in goals:
        why = _unsaid(one, goal)
        if why:
            parts.append(noted(Kind.lost, [_said(goal)], why))
        elif one.is_hot:
            used.append(_said(goal))
        else:
            free.append(_said(goal))
    if not goals:
        said = [one.scheme.action for one in moving]
        text = (
            "the policy has no goal, so it moves whether there is room or not. tierd keeps "
            "headroom free on fast nodes, and fills them up to that"
        )
        value = Config().headroom_bp
        parts.append(noted(Kind.improved, said, text, about="headroom_bp", value=value))
    elif free or used:
        tuners = [one.scheme.quota.tuner for one in moving]
        named = [one for one in tuners if one is not None and one.value != CONSIST]
        told: list[Given[Any]] = [*free, *used, *named]
        text = (
            "the policy leaves the amount to the kernel's goals. tierd decides by what is hot and "
            "cold; to leave it to the kernel, set `tuner: kernel`"
        )
        tuner = Config().tuner
        parts.append(noted(Kind.improved, told, text, about="tuner", value=tuner))
    if free:
        parts.append(settled("headroom_bp", free, max, "the largest share"))
    headroom_bp = next((p.values["headroom_bp"] for p in parts if p.values), None)
    if used:
        parts.append(_used(used, headroom_bp))
    return parts


def _used(used: Sequence[Given[int]], headroom_bp: int | None) -> Part:
    """Return how full promotion makes a node; without a goal of free memory, the headroom too."""
    fill = settled("used_bp", used, max, "the largest share")
    if "used_bp" not in fill.values:
        return fill
    used_bp = fill.values["used_bp"]
    kept_bp = Config().headroom_bp if headroom_bp is None else headroom_bp
    if used_bp + kept_bp > BP_MAX:
        return fill
    # tierd fills a node a little further than it frees it, or nothing would change places.
    kept_bp = BP_MAX - used_bp if headroom_bp is None else kept_bp
    if not fits("headroom_bp", kept_bp):
        text = "leaves no headroom: tierd's default stays in force"
        return noted(Kind.changed, used, text, about="used_bp")
    text = (
        f"tierd keeps {format_percent(kept_bp)} free, and promotion fills up to "
        f"{format_percent(used_bp_for(kept_bp))}: the two must overlap, so that hot and cold "
        "memory can change places"
    )
    changed = remark(Kind.changed, used, text, about="headroom_bp", value=kept_bp)
    return Part({"headroom_bp": kept_bp}, (changed,))


def _said(goal: Goal) -> Given[int]:
    """Return the target of a goal in the words of both its metric and its target."""
    metric, target = goal.metric, goal.target
    said = metric.said if metric.said == target.said else f"{metric.said}, {target.said}"
    return Given(target.value, said, metric.place)


def _unsaid(one: Moving, goal: Goal) -> str:
    """Return why tierd has no words for a goal; empty if it has."""
    metric = goal.metric.value
    node = None if goal.node is None else goal.node.value
    if metric == "user_input":
        return "somebody has to feed this goal by hand. tierd feeds its own goals"
    if goal.complement:
        return "tierd has no goals of a complement"
    if metric not in ("node_mem_free_bp", "node_mem_used_bp"):
        return "tierd aims at the free and the used share of nodes only"
    if (metric == "node_mem_used_bp") != one.is_hot:
        return "tierd promotes by the used share of a node, and demotes by the free share"
    sources = [given.value for given in one.context.nodes]
    nodes = [given.value for given in one.scheme.targets] if one.is_hot else sources
    if node is not None and nodes and node not in nodes:
        return f"tierd aims at node {nodes[0]}, whose memory moves, not at node {node}"
    return ""


def _least_accesses(one: Moving) -> Iterator[Given[int]]:
    """Yield the least access count of hot memory, in basis points of the samples."""
    least = one.scheme.accesses.least
    if least is not None:
        yield Given(int(_share(one, least.value) * BP_MAX), least.said, least.place)


def _least_age(one: Moving) -> Iterator[Given[int]]:
    """Yield the minimum age in milliseconds."""
    least = one.scheme.ages.least
    if least is not None:
        us = least.value.value
        if least.value.unit is Unit.aggregations:
            us *= aggregation_us(one.context)
        yield Given(int(us) // 1000, least.said, least.place)


def _aggregations(one: Moving, age: Amount) -> Any:
    """Return an age as a number of aggregations."""
    if age.unit is Unit.aggregations:
        return age.value
    return age.value / max(1, aggregation_us(one.context))


def _share(one: Moving, amount: Amount) -> Any:
    """Return an access count as a share of the samples of an aggregation."""
    if amount.unit is Unit.share:
        return amount.value
    return min(1, amount.value / samples(one.context))


def _other_bounds(one: Moving) -> Iterator[Any]:
    """Yield remarks on the bounds that tierd does not have."""
    scheme = one.scheme
    accesses, ages, sizes = scheme.accesses, scheme.ages, scheme.sizes
    narrow = [sizes.least] if sizes.least is not None and sizes.least.value > REGION_MIN else []
    narrow += [sizes.most] if sizes.most is not None and sizes.most.value < MAX else []
    if narrow:
        yield remark(Kind.lost, narrow, "tierd moves regions of any size")
    if ages.most is not None and _aggregations(one, ages.most.value) < AGE_MAX:
        yield remark(Kind.lost, [ages.most], "tierd has no maximum age")
    most = accesses.most
    if one.is_hot and most is not None and _share(one, most.value) < 1:
        yield remark(Kind.lost, [most], "tierd promotes the hottest first, without an upper limit")
    if not one.is_hot:
        said = [scheme.action if most is None else most]
        if most is None or most.value.value:
            yield remark(Kind.changed, said, "tierd demotes only what had no access at all")
        else:
            yield remark(Kind.carried, said, "tierd demotes the same: what had no access at all")
