"""What `tierd plan` shows: the intent in words, as a document, and for damo."""

from collections.abc import Iterable
from dataclasses import asdict, replace
from typing import Any

from tierd import daemon, discovery, observe
from tierd.config import Config, Mode
from tierd.plan import Plan
from tierd.sysfs import Sysfs

SCHEMA = "tierd.plan/1"


def make(sysfs: Sysfs, config: Config, *, observe_only: bool = False) -> Plan:
    """The plan that the daemon would make here and now."""
    if observe_only:
        config = replace(config, mode=Mode.observe)
    topology = discovery.discover(sysfs, config.tiers)
    capabilities = observe.probe(sysfs)
    observe.require_migration(capabilities)
    return daemon.make_plan(sysfs, topology, capabilities, config)


def as_text(plan: Plan) -> str:
    """In words: what is watched, what moves where, what else is touched, what is lost."""
    lines = ["tierd would watch"]
    lines += _listed((watch.id, watch.reason) for watch in plan.watches)
    lines += ["", "and count what it would move" if plan.mode is Mode.observe else "and move"]
    lines += _listed((item.id, item.reason) for item in plan.items)
    lines += ["", f"steered by: {plan.tuner.loop}: {plan.tuner.reason}"]
    if plan.knobs:
        lines += ["", "While it runs it sets, and puts back after"]
        lines += _listed(
            (knob.id, f"/{knob.path} = {knob.value}: {knob.reason}") for knob in plan.knobs
        )
    if plan.degraded:
        lines += ["", "degraded because"]
        lines += [f"  {reason}" for reason in plan.degraded]
    lines += [
        "",
        "Everything else is left alone. Stopping tierd, or `tierd restore`, undoes all of it.",
        f"{len(plan.writes)} writes: `tierd plan --writes`",
    ]
    return "\n".join(lines)


def _listed(rows: Iterable[tuple[str, str]]) -> list[str]:
    listed = list(rows)
    width = max((len(name) for name, _ in listed), default=0)
    return [f"  {name.ljust(width)}  {reason}" for name, reason in listed]


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
