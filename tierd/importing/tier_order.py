"""Which nodes are fast and which are slow, by where a policy moves hot and cold memory."""

from collections.abc import Iterator, Sequence
from typing import Any

from tierd.configuration.valuetypes import TIERS_MAX
from tierd.frozen import dataclass
from tierd.importing.foreign import COLD, HOT, Context, Given, Scheme
from tierd.importing.remarks import Kind, Part, noted, remark
from tierd.importing.values import fits
from tierd.units import format_ids

Tiers = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class _Way:
    """One direction between two nodes; a node is None if the policy does not say it."""

    scheme: Scheme
    fast: int | None
    slow: int | None


def tiers(contexts: Sequence[Context]) -> list[Part]:
    """Return the setting `tiers`, and what is to be said about nodes and addresses."""
    ways = [way for one in contexts for way in _ways(one)]
    said = [target for way in ways for target in way.scheme.targets]
    said += [node for one in contexts for node in one.nodes]
    parts = [_addresses(contexts), _one_way(ways)]
    found = _tiers(contexts, ways)
    if found is None or not fits("tiers", found):
        text = (
            "the policy does not say which nodes are fast and which are slow, so the tiers of the "
            "kernel are used. `tierd tiers` shows them; if they are wrong, set `tiers`"
        )
        return [*parts, noted(Kind.changed, said, text, about="tiers")]
    order = ", then ".join(f"node {format_ids(tier)}" for tier in found)
    text = (
        f"by where hot and cold memory goes; fastest first: {order}. tierd moves memory between "
        "neighbouring tiers, and from each node to the nearest one"
    )
    carried = remark(Kind.carried, said, text, about="tiers", value=found)
    return [*parts, Part({"tiers": found}, (carried,)), _skipped(ways, found)]


def _ways(context: Context) -> Iterator[_Way]:
    sources = _sources(context) or (None,)
    for scheme in context.schemes:
        for source in sources:
            for target in scheme.targets:
                if scheme.action.value == HOT:
                    yield _Way(scheme, target.value, source)
                else:
                    yield _Way(scheme, source, target.value)


def _sources(context: Context) -> tuple[int, ...]:
    """Return the nodes that a context watches; empty if the policy does not say it.

    A file has only addresses. But a demotion aims at free memory on the node that it demotes from.
    """
    if context.nodes:
        return tuple(node.value for node in context.nodes)
    aims = (
        goal.node.value
        for scheme in context.schemes
        for goal in scheme.quota.goals
        if goal.node is not None and goal.metric.value == "node_mem_free_bp"
    )
    return tuple(dict.fromkeys(aims))[:1]


def _tiers(contexts: Sequence[Context], ways: Sequence[_Way]) -> Tiers | None:
    """Return the nodes by tier; None if the policy does not say it, or contradicts itself."""
    known = [(way.fast, way.slow) for way in ways if way.fast is not None and way.slow is not None]
    if len(known) == len(ways):
        return _layers(known)
    hot = [way for way in ways if way.scheme.action.value == HOT]
    cold = [way for way in ways if way.scheme.action.value == COLD]
    fast, slow = {way.fast for way in hot}, {way.slow for way in cold}
    # Two tiers, if memory comes from no other nodes than those that memory goes to. If there are
    # more contexts than such nodes, they may watch others.
    from_others = {way.fast for way in cold} - {None} - fast | {way.slow for way in hot} - {
        None
    } - slow
    demoting = sum(any(one.action.value == COLD for one in each.schemes) for each in contexts)
    promoting = sum(any(one.action.value == HOT for one in each.schemes) for each in contexts)
    if fast & slow or from_others or demoting > len(fast) or promoting > len(slow):
        return None
    return tuple(sorted(_numbers(fast))), tuple(sorted(_numbers(slow)))


def _numbers(nodes: set[int | None]) -> list[int]:
    return [node for node in nodes if node is not None]


def _layers(pairs: Sequence[tuple[int, int]]) -> Tiers | None:
    """Return the nodes in layers: each one below all that are faster; None if they form a ring."""
    left = {node for pair in pairs for node in pair}
    layers: list[tuple[int, ...]] = []
    while left and len(layers) < TIERS_MAX:
        layer = left - {slow for fast, slow in pairs if fast in left}
        if not layer:
            return None
        layers.append(tuple(sorted(layer)))
        left -= layer
    return None if left else tuple(layers)


def _skipped(ways: Sequence[_Way], found: Tiers) -> Part:
    """Return a remark if memory skips a tier."""
    rank = {node: number for number, tier in enumerate(found) for node in tier}
    far = [
        way
        for way in ways
        if way.fast is not None and way.slow is not None and rank[way.slow] - rank[way.fast] > 1
    ]
    if not far:
        return Part()
    said = [target for way in far for target in way.scheme.targets]
    text = "skips a tier. tierd moves memory by one tier at a time"
    return noted(Kind.changed, said, text, about="tiers")


def _addresses(contexts: Sequence[Context]) -> Part:
    ranges = [part for one in contexts for part in one.ranges]
    if not ranges:
        return Part()
    count = "an address range" if len(ranges) == 1 else f"{len(ranges)} address ranges"
    text = (
        f"{count} fixed when the policy was written. tierd finds the addresses of each node "
        "itself, at each start and when memory comes or goes"
    )
    first: Given[Any] = Given(None, "regions", ranges[0].place)
    return noted(Kind.improved, [first], text)


def _one_way(ways: Sequence[_Way]) -> Part:
    """Return a remark if the policy moves memory in one direction only."""
    directions = {way.scheme.action.value for way in ways}
    if len(directions) != 1:
        return Part()
    only, other = ("demotes", "promotes") if COLD in directions else ("promotes", "demotes")
    said = [way.scheme.action for way in ways]
    text = f"the policy only {only}. tierd {other} too: it always works in both directions"
    return noted(Kind.changed, said, text)
