"""What `tierd plan` shows: the intent in words, as a document, and for damo."""

import textwrap
from dataclasses import asdict, replace
from typing import Any

from tierd import daemon, discovery, observe
from tierd.config import Config, Mode
from tierd.plan import Plan
from tierd.sysfs import Sysfs
from tierd.units import format_rate

SCHEMA = "tierd.plan/1"


def make(sysfs: Sysfs, config: Config, *, observe_only: bool = False) -> Plan:
    """The plan that the daemon would make here and now."""
    if observe_only:
        config = replace(config, mode=Mode.observe)
    topology = discovery.discover(sysfs, config.tiers)
    capabilities = observe.probe(sysfs)
    observe.require_migration(capabilities)
    return daemon.make_plan(sysfs, topology, capabilities, config)


def as_text(plan: Plan, columns: int) -> str:
    """In words: what is watched, what moves where, what it costs, what is touched and what not."""
    observes = plan.mode is Mode.observe
    lines = ["tierd would watch"]
    lines += _listed([(watch.id, watch.reason) for watch in plan.watches], columns)
    lines += ["", "and count what it would move" if observes else "and move"]
    lines += _listed([(item.id, item.reason) for item in plan.items], columns)
    lines += ["", *_wrapped(f"steered by: {plan.tuner.loop}: {plan.tuner.reason}", columns)]
    lines += _wrapped(f"at most: {_cost(plan)}", columns)
    if plan.knobs:
        lines += ["", "While it runs it sets, and puts back after"]
        knobs = [(knob.id, f"/{knob.path} = {knob.value}: {knob.reason}") for knob in plan.knobs]
        lines += _listed(knobs, columns)
    if plan.degraded:
        lines += ["", "degraded because"]
        lines += [line for reason in plan.degraded for line in _wrapped(f"  {reason}", columns)]
    lines += ["", *_wrapped(_undone(plan), columns), *_wrapped(LEFT_ALONE, columns), ""]
    return "\n".join([*lines, f"{len(plan.writes)} writes: `tierd plan --writes`"])


LEFT_ALONE = (
    "Left alone: kdamonds that are not tierd's, NUMA balancing, swap, cgroups, and every setting "
    "that is not named here. `tierd doctor` tells how these stand."
)


def _cost(plan: Plan) -> str:
    """What the plan may cost, at the worst."""
    threads = f"{len(plan.kdamonds)} kernel threads watch"
    if plan.mode is Mode.observe:
        return f"{threads}; nothing moves"
    total = sum(item.rate_max_bytes_per_s for item in plan.items)
    return (
        f"{format_rate(total)} over all ways, each byte read once and written once; {threads} and "
        "move, so that programs need not"
    )


def _undone(plan: Plan) -> str:
    back = "".join(f", /{knob.path} is as it was" for knob in plan.knobs)
    return (
        f"Undone when tierd stops, or by `tierd restore`: its {len(plan.kdamonds)} kdamonds are "
        f"removed{back}. Pages stay where they are by then."
    )


def _listed(rows: list[tuple[str, str]], columns: int) -> list[str]:
    width = max((len(name) for name, _ in rows), default=0)
    return [
        line
        for name, text in rows
        for line in textwrap.wrap(
            f"  {name.ljust(width)}  {text}",
            columns,
            subsequent_indent=" " * (width + 4),
            break_long_words=False,
            break_on_hyphens=False,
        )
    ]


def _wrapped(text: str, columns: int) -> list[str]:
    return textwrap.wrap(
        text, columns, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )


def as_document(plan: Plan) -> dict[str, Any]:
    """`tierd plan --json`."""
    return {
        "schema": SCHEMA,
        "mode": plan.mode,
        "tuner": asdict(plan.tuner),
        "watches": [asdict(watch) for watch in plan.watches],
        "items": [asdict(item) for item in plan.items],
        "knobs": [asdict(knob) for knob in plan.knobs],
        "degraded": list(plan.degraded),
        "fingerprint": plan.fingerprint,
        "writes": [asdict(write) for write in plan.writes],
    }
