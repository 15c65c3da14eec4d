"""Translates a foreign policy into settings of tierd. Pure.

Rules of this file:
1. Every part of the policy that is not a default ends in a setting or in a remark.
2. What tierd does better is not carried over, and a remark says so. In doubt less memory moves.
3. The result is a valid configuration.
"""

from collections.abc import Iterator, Sequence

from tierd.errors import Unsupported
from tierd.frozen import replace
from tierd.importing import scheme_settings, scope_settings, tier_order
from tierd.importing.foreign import MOVING, Context, ForeignPolicy, Given
from tierd.importing.remarks import Kind, Part, joined, noted, remark
from tierd.importing.sampling_settings import sampling
from tierd.importing.scheme_settings import Moving

_EXTRAS = {
    "refresh_ms": "tierd asks for statistics when it needs them",
    "addr_unit": "tierd counts addresses in bytes",
    "pause": "use `tierd pause`",
    "obsolete": "tierd has no targets to remove",
    "max_nr_snapshots": "tierd works until it is stopped",
    "probes": "tierd uses no probes",
    "ops_attrs": "tierd lets DAMON look at page tables, for all processors and threads",
    "sample_control": "tierd lets DAMON look at page tables, for all processors and threads",
    "fail_charge_denom": "tierd charges a failed try at almost nothing, where the kernel can",
    "quota_without_interval": "damo itself ignores it without --damos_quota_interval",
    "unread": "not read: only `damo start`, `damo module stat` and demotion_enabled are",
}


def translate(policy: ForeignPolicy) -> Part:
    """Return the settings and the remarks; raise Unsupported if the policy moves no memory."""
    contexts = [_only_moving(one) for one in policy.contexts if one.operations.value == "paddr"]
    contexts = [one for one in contexts if one.schemes]
    if not contexts:
        raise Unsupported(
            "the policy has no scheme that moves physical memory between nodes",
            "tierd can take over schemes with the action migrate_hot or migrate_cold and the "
            "operations paddr",
        )
    moving = [Moving(one, scheme) for one in contexts for scheme in one.schemes]
    return joined(
        (
            *tier_order.tiers(contexts),
            *scheme_settings.amounts_moved(moving),
            *scheme_settings.patterns(moving),
            *sampling(contexts),
            scope_settings.scope(moving),
            *_neighbours(policy),
            *_left_out(policy),
            *(_several_targets(one) for one in moving),
            *(_watermarks(one) for one in moving),
            _own_schemes(moving),
        )
    )


def _only_moving(context: Context) -> Context:
    schemes = tuple(one for one in context.schemes if one.action.value in MOVING and one.targets)
    return replace(context, schemes=schemes)


def _left_out(policy: ForeignPolicy) -> Iterator[Part]:
    """Yield remarks on what is left out as a whole, and on what tierd has no words for."""
    for context in policy.contexts:
        if context.operations.value != "paddr":
            text = "tierd watches the physical memory of the machine, not single programs"
            yield _lost(context.operations, text)
            continue
        for scheme in context.schemes:
            if scheme.action.value == "stat":
                text = "tierd counts by itself: `tierd observe` shows what would move"
                yield _lost(scheme.action, text)
            elif scheme.action.value not in MOVING:
                yield _lost(scheme.action, "tierd only moves memory between nodes")
    for extra in policy.extras:
        yield _lost(extra, _EXTRAS[extra.value])


def _neighbours(policy: ForeignPolicy) -> Iterator[Part]:
    stat, demotion = policy.stops_damon_stat, policy.demotes_in_reclaim
    if stat is not None and stat.value:
        text = "tierd starts it again at its end"
        said = remark(Kind.carried, [stat], text, about="manage_damon_stat", value=True)
        yield Part({"manage_damon_stat": True}, (said,))
    elif stat is not None:
        yield _lost(stat, "tierd cannot run beside damon_stat")
    if demotion is not None and demotion.value:
        text = "tierd puts it back at its end"
        said = remark(Kind.carried, [demotion], text, about="manage_demotion_enabled", value=True)
        yield Part({"manage_demotion_enabled": True}, (said,))
    elif demotion is not None:
        yield _lost(demotion, "tierd can switch it on, not off")


def _own_schemes(moving: Sequence[Moving]) -> Part:
    text = (
        "each scheme becomes schemes of tierd's own between the same nodes. Others beside them "
        "count what is hot and cold. docs/import.md says which of DAMON's files differ, and why"
    )
    return noted(Kind.improved, [one.scheme.action for one in moving], text)


def _several_targets(one: Moving) -> Part:
    if len(one.scheme.targets) < 2:
        return Part()
    text = "tierd has no weights of target nodes: memory goes to the nearest ones, in equal parts"
    return noted(Kind.lost, one.scheme.targets, text)


def _watermarks(one: Moving) -> Part:
    marks = one.scheme.watermarks
    if marks is None or marks.value == "none":
        return Part()
    text = "tierd is not switched on and off by free memory: it always keeps the headroom"
    return _lost(marks, text)


def _lost(given: Given[str] | Given[bool], text: str) -> Part:
    return noted(Kind.lost, [given], text)
