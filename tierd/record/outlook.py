"""What tierd would move. `tierd observe` ends with this answer."""

from collections.abc import Iterable

from tierd.frozen import dataclass
from tierd.record.sensed import cold_used_bytes, hot_used_bytes
from tierd.record.snapshot import Snapshot
from tierd.units import format_size

# The answer is the mean of this many snapshots, because sampling is noisy.
LOOKS = 10


@dataclass(frozen=True, slots=True)
class Outlook:
    """Bytes in the wrong place, where they are, and what tierd would do about it."""

    hot_bytes: int
    hot_nodes: tuple[int, ...]
    cold_bytes: int
    cold_nodes: tuple[int, ...]
    promote_bytes: int
    demote_bytes: int


def outlook(looks: Iterable[Snapshot]) -> Outlook | None:
    """Return the mean of the snapshots with sensors; None if there is none."""
    sensed = [
        look
        for look in looks
        if any(n.hot_bytes is not None or n.cold_bytes is not None for n in look.nodes)
    ]
    if not sensed:
        return None
    outlooks = [_of(look) for look in sensed]
    count = len(outlooks)
    return Outlook(
        hot_bytes=sum(one.hot_bytes for one in outlooks) // count,
        hot_nodes=outlooks[-1].hot_nodes,
        cold_bytes=sum(one.cold_bytes for one in outlooks) // count,
        cold_nodes=outlooks[-1].cold_nodes,
        promote_bytes=sum(one.promote_bytes for one in outlooks) // count,
        demote_bytes=sum(one.demote_bytes for one in outlooks) // count,
    )


def _of(look: Snapshot) -> Outlook:
    nodes = {node.numa_node: node for node in look.nodes}
    hot = {
        n: hot_used_bytes(node.size_bytes, node.free_bytes, node.hot_bytes)
        for n, node in nodes.items()
        if node.hot_bytes is not None
    }
    cold = {
        n: cold_used_bytes(node.size_bytes, node.free_bytes, node.cold_bytes)
        for n, node in nodes.items()
        if node.cold_bytes is not None
    }
    up, down = 0, 0
    targets = {one.target_node for one in look.schemes if one.action == "promote"}
    for fast in sorted(targets & set(nodes)):
        node = nodes[fast]
        sources = {
            one.source_node
            for one in look.schemes
            if one.action == "promote" and one.target_node == fast
        }
        waiting = sum(hot.get(source, 0) for source in sources)
        kept = node.headroom_target_bytes or 0
        rises = min(waiting, cold.get(fast, 0) + max(0, node.free_bytes - kept))
        up += rises
        down += min(cold.get(fast, 0), max(0, rises + kept - node.free_bytes))
    return Outlook(
        sum(hot.values()), tuple(sorted(hot)), sum(cold.values()), tuple(sorted(cold)), up, down
    )


def sentence(found: Outlook | None) -> str:
    """Return the answer as a sentence."""
    if found is None:
        return (
            "What is hot and cold was not sensed: it takes a few seconds, and a tuner that senses "
            "it (`tuner: demand`)."
        )
    where_hot, where_cold = _nodes(found.hot_nodes), _nodes(found.cold_nodes)
    text = (
        f"{format_size(found.hot_bytes)} hot on the slow tier{where_hot}, "
        f"{format_size(found.cold_bytes)} cold on the fast tier{where_cold}; tierd would "
    )
    if not found.promote_bytes and not found.demote_bytes:
        return text + "leave everything where it is."
    return (
        f"{text}promote {format_size(found.promote_bytes)} and demote "
        f"{format_size(found.demote_bytes)}."
    )


def _nodes(listed: tuple[int, ...]) -> str:
    return f" ({', '.join(f'node{node}' for node in listed)})" if listed else ""
