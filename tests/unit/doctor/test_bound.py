"""The doctor on programs that a cpuset binds to some of the nodes."""

from dataclasses import replace

import pytest

from tests.fixtures import machines
from tierd.clock import SystemClock
from tierd.configuration.config import Config, Cpusets
from tierd.doctor import facts as facts_module
from tierd.doctor import neighbour_checks
from tierd.doctor.facts import Facts
from tierd.doctor.findings import Verdict, run_check
from tierd.kdamonds.kernel import Kernel
from tierd.machine.processes import Process

GIB = 1 << 30
(BOUND,) = (check for check in neighbour_checks.CHECKS if check.id == "TD016")


def facts_of(cpusets: Cpusets, bound: tuple[str, ...]) -> Facts:
    kernel = Kernel.patient(machines.load("two-tier-7.2").sysfs, SystemClock())
    facts = facts_module.read(kernel, Config, lambda: None, is_root=True)
    config = Config(cpusets=cpusets)
    return replace(facts, processes=(Process(9, "db", GIB, (0,)),), bound=bound, config=config)


@pytest.mark.parametrize(
    ("cpusets", "bound", "verdict", "says"),
    [
        (Cpusets.heed, ("/db",), Verdict.ok, "1 cgroup is bound by a cpuset, and left alone"),
        (Cpusets.heed, ("/a", "/b"), Verdict.ok, "2 cgroups are bound by a cpuset"),
        (Cpusets.ignore, ("/db",), Verdict.warn, "db (pid 9, 1 GiB) to nodes 0 by its cpuset"),
        # The old hierarchy is not read.
        (Cpusets.heed, (), Verdict.warn, "db (pid 9, 1 GiB) to nodes 0 by its cpuset"),
    ],
)
def test_what_a_cpuset_binds_is_reported_where_it_may_move(
    cpusets: Cpusets, bound: tuple[str, ...], verdict: Verdict, says: str
) -> None:
    finding = run_check(BOUND, facts_of(cpusets, bound))
    assert finding.verdict is verdict
    assert says in finding.outcome.evidence
