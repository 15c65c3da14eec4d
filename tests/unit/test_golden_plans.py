"""The plan for each machine and kernel, word for word.

If a plan changes, these files differ: read the difference, then renew them with
`TIERD_RENEW_GOLDEN=1 pytest tests/unit/test_golden_plans.py`.
"""

import os
from pathlib import Path

import pytest

from tests.fixtures import machines
from tierd import policy
from tierd.configuration.config import Config, Tuner
from tierd.errors import TierdError
from tierd.machine import discovery, features
from tierd.machine.features import KDAMONDS
from tierd.plans.plan import Plan
from tierd.sim import machine_model
from tierd.sim.sim_kernel import SimKernel
from tierd.sysfs import Sysfs

GOLDEN = Path(__file__).parent / "golden"
SERIES = ("6.12", "6.16", "6.18", "7.2", "7.3")

CASES = [f"real-{name}" for name in machines.names()] + [
    f"sim-{name}-{series}" for name in machine_model.names() for series in SERIES
]
# Cases with the kernel's own tuner.
KERNEL_CASES = [f"kernel-two-tier-{series}" for series in SERIES]


def sysfs_of(case: str) -> Sysfs:
    kind, _, name = case.partition("-")
    if kind == "real":
        return machines.load(name).sysfs
    name, _, series = name.rpartition("-")
    return SimKernel(series, machine_model.load(name), block_pages=512)


def plan_of(sysfs: Sysfs, config: Config) -> Plan:
    return policy.plan(discovery.survey(sysfs, None), features.probe(sysfs), config)


def text_of(case: str) -> str:
    sysfs = sysfs_of(case)
    tuner = Tuner.kernel if case in KERNEL_CASES else Tuner.auto
    try:
        return render(plan_of(sysfs, Config(tuner=tuner)))
    except TierdError as error:
        return f"{type(error).__name__}: {error}\nhint: {error.hint}\n"


def render(plan: Plan) -> str:
    lines = [f"mode {plan.mode}, tuner {plan.tuner.loop}: {plan.tuner.reason}", ""]
    lines += [f"{watch.id}: {watch.reason}" for watch in plan.watches]
    lines += [f"{item.id}: {item.reason}" for item in plan.migrations]
    lines += [f"{knob.id}: {knob.reason}" for knob in plan.knobs]
    lines += [f"degraded: {reason}" for reason in plan.degraded]
    lines += ["", *(f"/{knob.path} = {knob.value}" for knob in plan.knobs), f"below /{KDAMONDS}:"]
    lines += [f"{w.path.removeprefix(KDAMONDS + '/')} = {w.value}" for w in plan.writes]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("case", CASES + KERNEL_CASES)
def test_plan_is_as_recorded(case: str) -> None:
    path = GOLDEN / f"{case}.txt"
    text = text_of(case)
    if os.environ.get("TIERD_RENEW_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert path.exists(), f"no golden plan: {__doc__}"
    assert text == path.read_text()


def test_no_golden_plan_is_left_over() -> None:
    assert {path.stem for path in GOLDEN.glob("*.txt")} == {*CASES, *KERNEL_CASES}


@pytest.mark.parametrize("case", [c for c in CASES if c.startswith("sim")])
def test_same_input_same_plan(case: str) -> None:
    assert text_of(case) == text_of(case)
