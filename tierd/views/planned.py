"""What `tierd plan` shows: the intent in words, as a document, and for damo."""

import textwrap
from dataclasses import asdict, dataclass
from typing import Any

from tierd.configuration.config import Mode
from tierd.plans.damon import Writes
from tierd.plans.plan import Item, KdamondItem, Knob, Plan, TunerChoice
from tierd.units import format_rate

SCHEMA = "tierd.plan/1"


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


@dataclass(frozen=True, slots=True)
class Document:
    """What tierd would do, as `tierd plan --json` tells it."""

    schema: str
    mode: Mode
    tuner: TunerChoice
    watches: tuple[KdamondItem, ...]
    items: tuple[Item, ...]
    knobs: tuple[Knob, ...]
    degraded: tuple[str, ...]
    """What this kernel cannot do of it, each with the reason."""
    fingerprint: str
    """Equal for plans that leave the kernel alike."""
    writes: Writes
    """Every write to the kernel, in order."""


def as_document(plan: Plan) -> dict[str, Any]:
    """`tierd plan --json`."""
    return asdict(
        Document(
            SCHEMA,
            plan.mode,
            plan.tuner,
            plan.watches,
            plan.items,
            plan.knobs,
            plan.degraded,
            plan.fingerprint,
            plan.writes,
        )
    )
