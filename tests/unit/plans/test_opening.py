"""What a kernel is told at first: the plan, but with quotas that grow where tierd steers them."""

from dataclasses import replace

import pytest

from tierd import policy
from tierd.configuration.config import Config, Mode, Tuner
from tierd.machine import discovery, observe
from tierd.plans.changes import values
from tierd.plans.damon import scheme_dir
from tierd.plans.opening import grows, opening
from tierd.plans.plan import Plan
from tierd.sim import machine
from tierd.sim.kernel import SimKernel


def plan_of(series: str, config: Config) -> Plan:
    kernel = SimKernel(series, machine.load("three-tier"))
    return policy.plan(discovery.discover(kernel, None), observe.probe(kernel), config)


@pytest.mark.parametrize("series", ["6.12", "6.18", "7.3"])
def test_nothing_but_the_inputs_of_what_moves_is_another(series: str) -> None:
    plan = plan_of(series, Config(tuner=Tuner.demand))
    told, planned = values(opening(plan)), values(plan.writes)
    assert grows(plan)
    assert list(told) == list(planned), "the same files in the same order"
    other = {path: value for path, value in told.items() if value != planned[path]}
    assert other == {
        f"{scheme_dir(item.kdamond, item.scheme)}/quotas/goals/0/current_value": "0"
        for item in plan.items
    }


@pytest.mark.parametrize("tuner", [Tuner.emulated, Tuner.kernel])
def test_a_law_of_the_kernels_begins_as_planned(tuner: Tuner) -> None:
    plan = plan_of("6.18", Config(tuner=tuner))
    assert not grows(plan)
    assert opening(plan) == plan.writes


def test_where_schemes_only_count_nobody_would_end_the_growth() -> None:
    plan = plan_of("7.2", replace(Config(tuner=Tuner.demand), mode=Mode.observe))
    assert not grows(plan)
    assert opening(plan) == plan.writes
