"""The machines of docs/topologies.md: the page is current, and no node without memory is used."""

import pytest

from tests.fixtures import topologies
from tierd import policy
from tierd.configuration.config import Config
from tierd.errors import Unsupported
from tierd.machine import discovery, features
from tierd.plans.plan import Plan
from tools.write_topology_docs import PAGE, page

NAMES = topologies.names()


def plan_of(name: str) -> Plan | None:
    sysfs = topologies.load(name).sysfs()
    try:
        return policy.plan(discovery.discover(sysfs, None), features.probe(sysfs), Config())
    except Unsupported:
        return None


def test_the_page_is_what_the_code_says() -> None:
    assert page() == PAGE.read_text(encoding="utf-8"), "run `python -m tools.write_topology_docs`"


def test_there_are_at_least_twelve_machines() -> None:
    assert len(NAMES) >= 12


@pytest.mark.parametrize("name", NAMES)
def test_no_page_is_sent_to_a_node_that_is_not_in_has_memory(name: str) -> None:
    sysfs = topologies.load(name).sysfs()
    known = discovery.nodes(sysfs)
    assert known is not None
    with_memory, present = known
    plan = plan_of(name)
    if plan is not None:
        assert set(plan.nodes) <= set(with_memory)
        targets = {
            scheme.target_nid for kdamond in plan.kdamonds for scheme in kdamond.context.schemes
        }
        assert targets <= set(with_memory)
    if name.startswith(("09", "11", "12", "13")):
        assert set(present) > set(with_memory)


@pytest.mark.parametrize("name", ["07-hbm-slower-to-answer", "09-gpu-memory"])
def test_what_is_left_out_is_neither_a_source_nor_a_target(name: str) -> None:
    plan = plan_of(name)
    assert plan is None or 1 not in plan.nodes


def test_the_drawings_fit_a_terminal() -> None:
    for name in NAMES:
        assert all(len(line) <= 80 for line in topologies.load(name).drawing)
