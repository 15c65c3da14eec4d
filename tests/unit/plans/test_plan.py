"""The first writes are those of the plan, but quotas grow if tierd steers them."""

from dataclasses import replace

import pytest

from tierd import policy
from tierd.configuration.config import Config, Mode, Tuner
from tierd.machine import discovery, features
from tierd.plans.changes import values
from tierd.plans.damon import scheme_dir
from tierd.plans.plan import Plan
from tierd.sim import machine_model
from tierd.sim.sim_kernel import SimKernel


def plan_of(series: str, config: Config) -> Plan:
    kernel = SimKernel(series, machine_model.load("three-tier"))
    return policy.plan(discovery.discover(kernel, None), features.probe(kernel), config)


@pytest.mark.parametrize("series", ["6.12", "6.18", "7.3"])
def test_writes_at_start_differ_only_in_the_inputs(series: str) -> None:
    plan = plan_of(series, Config(tuner=Tuner.demand))
    told, planned = values(plan.writes_at_start), values(plan.writes)
    assert plan.grows_at_start
    assert list(told) == list(planned), "the same files in the same order"
    other = {path: value for path, value in told.items() if value != planned[path]}
    grows = {
        f"{scheme_dir(item.kdamond, item.scheme)}/quotas/goals/0/current_value": "0"
        for item in plan.of_regions
        if item.begins_ready
    }
    assert plan.sweeps
    assert other == grows, "sweeps are closed at first"


@pytest.mark.parametrize("tuner", [Tuner.emulated, Tuner.kernel])
def test_with_the_law_of_the_kernel_quotas_do_not_grow_at_start(tuner: Tuner) -> None:
    plan = plan_of("6.18", Config(tuner=tuner))
    assert not plan.grows_at_start
    assert plan.writes_at_start == plan.writes


def test_observe_has_no_quotas_that_grow_at_start() -> None:
    plan = plan_of("7.2", replace(Config(tuner=Tuner.demand), mode=Mode.observe))
    assert not plan.grows_at_start
    assert plan.writes_at_start == plan.writes
