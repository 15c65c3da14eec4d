"""The first writes are those of the plan, but quotas grow if tierd steers them."""

from dataclasses import replace

import pytest

from tierd import policy
from tierd.configuration.config import Config, Mode, Tuner
from tierd.machine import discovery, features
from tierd.plans.changes import values
from tierd.plans.damon import gate_paths, quota_path, scheme_dir
from tierd.plans.plan import CLOSED_INPUT, OPEN_INPUT, TARGET, Plan, Sweep, input_writes
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


def sweep_of(series: str) -> Sweep:
    return plan_of(series, Config(tuner=Tuner.demand)).sweeps[0]


def quota_told(sweep: Sweep, value: int) -> int:
    told = values(input_writes(sweep, value))
    gates = {told.pop(path) for path in gate_paths(sweep.kdamond, sweep.scheme)}
    assert gates == {"1000"}
    assert list(told) == [quota_path(sweep.kdamond, sweep.scheme)]
    return int(told.popitem()[1])


def test_a_commit_that_opens_a_sweep_sets_its_speed_too() -> None:
    sweep = sweep_of("6.12")
    assert quota_told(sweep, OPEN_INPUT) == sweep.quota_bytes
    slower = quota_told(sweep, TARGET // 4)
    assert slower % sweep.page_bytes == 0
    assert slower == pytest.approx(0.75 * sweep.quota_bytes, abs=sweep.page_bytes)


def test_a_slow_sweep_visits_a_page_at_least_unless_its_rate_is_less() -> None:
    """Before 7.2 a sweep with a smaller quota would begin again at the first address."""
    sweep = sweep_of("6.12")
    small = replace(sweep, quota_bytes=2 * sweep.page_bytes)
    assert quota_told(small, TARGET - 1) == sweep.page_bytes
    none = replace(sweep, quota_bytes=100)
    assert quota_told(none, TARGET // 4) == 100


def test_a_sweep_that_closes_keeps_its_quota() -> None:
    sweep = sweep_of("6.12")
    told = values(input_writes(sweep, CLOSED_INPUT))
    assert told == dict.fromkeys(gate_paths(sweep.kdamond, sweep.scheme), "0")


def test_a_goal_that_opens_a_sweep_says_nothing_else() -> None:
    sweep = sweep_of("7.3")
    assert [one.value for one in input_writes(sweep, OPEN_INPUT)] == ["0"]
