"""The output of `tierd plan`: the plan in words, and as a JSON document."""

import textwrap
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from tierd.configuration.config import CgroupMode, Mode
from tierd.frozen import dataclass
from tierd.plans.damon import Writes
from tierd.plans.groups import describe_group
from tierd.plans.plan import (
    HintFaults,
    Knob,
    Migration,
    Plan,
    PromoterChoice,
    TunerChoice,
    Watch,
)
from tierd.plans.scope import describe_match
from tierd.units import format_percent, format_rate

SCHEMA = "tierd.plan/1"


def as_text(plan: Plan, columns: int, hinted: Callable[[str], str] = str) -> str:
    """Return the plan in words: what is watched and moved, the cost, and what is changed.

    `hinted` adds options such as --run-dir to the commands in a text. This comes before the text
    is broken into lines, as it makes the text longer.
    """
    observes = plan.mode is Mode.observe
    lines = ["tierd would watch"]
    lines += _listed([(watch.id, watch.reason) for watch in plan.watches], columns)
    lines += ["", "and count, without moving anything" if observes else "and move"]
    moves = [(item.id, item.reason) for item in plan.migrations]
    lines += _listed([*moves, *((one.id, one.reason) for one in plan.hint_faults)], columns)
    lines += ["", *_wrapped(f"tuner: {plan.tuner.loop}: {plan.tuner.reason}", columns)]
    promoter = plan.promoter
    lines += _wrapped(f"promoter: {promoter.promoter}: {promoter.reason}", columns)
    lines += _wrapped(f"cost: {_cost(plan)}", columns)
    if plan.cgroups:
        lines += ["", "limited to these cgroups"]
        lines += [
            line for one in plan.cgroups for line in _wrapped(f"  {describe_match(one)}", columns)
        ]
    if plan.groups:
        lines += ["", "divided among these groups of cgroups, and the rest"]
        lines += [
            line for one in plan.groups for line in _wrapped(f"  {describe_group(one)}", columns)
        ]
    if plan.knobs:
        lines += ["", "Settings that it changes while it runs, and restores afterwards"]
        knobs = [(knob.id, f"/{knob.path} = {knob.value}: {knob.reason}") for knob in plan.knobs]
        lines += _listed(knobs, columns)
    if plan.degraded:
        lines += ["", "degraded because"]
        lines += [line for reason in plan.degraded for line in _wrapped(f"  {reason}", columns)]
    last = f"{len(plan.writes)} writes: `tierd plan --writes`"
    for text in ("", _undone(plan), _left_alone(plan), "", last):
        lines += _wrapped(hinted(text), columns) or [""]
    return "\n".join(lines)


def _left_alone(plan: Plan) -> str:
    balancing = "" if plan.hint_faults else "NUMA balancing, "
    return (
        f"Not changed: kdamonds that are not tierd's, {balancing}swap, cgroups, and every setting "
        "that is not named here. `tierd doctor` shows their state."
    )


def _cost(plan: Plan) -> str:
    """Return the most that the plan may cost."""
    threads = f"{len(plan.kdamonds)} kernel threads watch memory"
    if plan.mode is Mode.observe:
        return f"{threads}; nothing moves"
    share = format_percent(plan.cost_bp)
    visits = f", and visits take at most {share} of a processor in each" if plan.sweeps else ""
    total = sum(item.rate_max_bytes_per_s for item in plan.of_regions)
    total += sum(one.rate_max_bytes_per_s for one in plan.hint_faults)
    return (
        f"at most {format_rate(total)} in all directions together, each byte read once and written "
        f"once; {threads} and move pages{visits}"
    )


def _undone(plan: Plan) -> str:
    back = "".join(f", and /{knob.path} gets its old value" for knob in plan.knobs)
    return (
        f"When tierd stops, or with `tierd restore`: its {len(plan.kdamonds)} kdamonds are "
        f"removed{back}. Pages stay where they are."
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


# Users may make any number of cgroups, and a path may be 4 KiB long: the list needs a bound.
LISTED_MAX = 100


@dataclass(frozen=True, slots=True)
class ClassDocument:
    """A cgroup class, and the cgroups that belong to it now."""

    name: str
    mode: CgroupMode
    paths: tuple[str, ...]
    """The paths in the configuration."""
    count: int
    """The number of cgroups at and below these paths."""
    cgroups: tuple[str, ...]
    """The first 100 of these cgroups."""


@dataclass(frozen=True, slots=True)
class Document:
    """What tierd would do, as `tierd plan --json` prints it."""

    schema: str
    mode: Mode
    tuner: TunerChoice
    watches: tuple[Watch, ...]
    items: tuple[Migration, ...]
    knobs: tuple[Knob, ...]
    degraded: tuple[str, ...]
    """What this kernel cannot do, each with the reason."""
    cgroups: tuple[ClassDocument, ...]
    """The cgroup classes, with the cgroups that belong to each now."""
    promoter: PromoterChoice
    hint_faults: tuple[HintFaults, ...]
    fingerprint: str
    """Equal for two plans that write the same to the kernel."""
    writes: Writes
    """Every write to the kernel, in order."""


def as_document(plan: Plan) -> dict[str, Any]:
    """Return the document that `tierd plan --json` prints."""
    return asdict(
        Document(
            SCHEMA,
            plan.mode,
            plan.tuner,
            plan.watches,
            plan.migrations,
            plan.knobs,
            plan.degraded,
            tuple(
                ClassDocument(
                    one.name, one.mode, one.paths, len(one.cgroups), one.cgroups[:LISTED_MAX]
                )
                for one in plan.cgroups
            ),
            plan.promoter,
            plan.hint_faults,
            plan.fingerprint,
            plan.writes,
        )
    )
