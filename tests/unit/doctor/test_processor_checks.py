"""The doctor on processors: kdamonds should stand back where programs want all of them."""

from dataclasses import replace

import pytest

from tests.fixtures import machines
from tierd.clock import SystemClock
from tierd.configuration.config import Config
from tierd.doctor import facts as facts_module
from tierd.doctor import processor_checks
from tierd.doctor.facts import Facts, KdamondFacts
from tierd.doctor.findings import Verdict, run_check
from tierd.kdamonds.kernel import Kernel
from tierd.kdamonds.niceness import NICENESS
from tierd.kdamonds.ownership import Standing

(PROCESSORS,) = processor_checks.CHECKS
BUSY = "some avg10=2.00 avg60=9.00 avg300=41.50 total=900\nfull avg10=0.00 avg60=0.00 total=0"
CALM = "some avg10=90.00 avg60=50.00 avg300=9.99 total=900"


def facts(pressure: str | None, *niceness: int | None) -> Facts:
    kernel = Kernel.patient(machines.load("two-tier-7.2").sysfs, SystemClock())
    read = facts_module.read(kernel, Config, lambda: None, is_root=True)
    ours = KdamondFacts(Standing.ours, ())
    return replace(read, kdamonds=ours, cpu_pressure=pressure, niceness=niceness)


@pytest.mark.parametrize(
    ("given", "verdict", "says"),
    [
        pytest.param(facts(BUSY, 0, 0), Verdict.warn, "42 % of five minutes", id="busy"),
        pytest.param(facts(BUSY, NICENESS, 0), Verdict.warn, "a niceness of 0", id="one of two"),
        pytest.param(facts(BUSY, NICENESS, NICENESS), Verdict.ok, "niceness of 10", id="nice"),
        pytest.param(facts(CALM, 0, 0), Verdict.ok, "10 % of five minutes", id="a moment"),
        pytest.param(facts(BUSY, None, None), Verdict.skip, "as in a container", id="container"),
        pytest.param(facts(None, 0, 0), Verdict.skip, "PSI", id="no file"),
        pytest.param(facts("nothing known", 0, 0), Verdict.skip, "PSI", id="another text"),
    ],
)
def test_a_machine_whose_processors_are_all_wanted(
    given: Facts, verdict: Verdict, says: str
) -> None:
    finding = run_check(PROCESSORS, given)
    assert finding.verdict is verdict
    assert says in finding.outcome.evidence
    assert ("programs-first.conf" in finding.outcome.fix) is (verdict is Verdict.warn)


def test_kdamonds_of_others_are_not_judged() -> None:
    foreign = replace(facts(BUSY, 0), kdamonds=KdamondFacts(Standing.foreign, ()))
    assert run_check(PROCESSORS, foreign).verdict is Verdict.ok
