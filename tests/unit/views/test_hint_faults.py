"""What people read of hint faults: in `plan`, `status` and `why`, and as a metric."""

from dataclasses import replace

from tests.fixtures.snapshots import DEMOTE, MIB, SNAPSHOT
from tests.unit.plans.test_promoters import HINTED, plan
from tierd.configuration.config import Config, Promoter
from tierd.plans.plan import AS_CONFIGURED
from tierd.record.daemon_counts import DaemonCounts
from tierd.record.snapshot import HintFaultsStatus, document, look
from tierd.serving import metrics
from tierd.views import planned, statusview, whyview

NOW = 10_002.0
REASON = "up to 20 MB/s: programs touch 9 MB/s on slower nodes soon after it was made to fault"
STATUS = HintFaultsStatus("hint-faults-0", 0, 412 * MIB, 3e6, 20e6, REASON)
HINTS = replace(
    SNAPSHOT,
    schemes=(DEMOTE,),
    promoter="numa-balancing",
    promoter_reason=AS_CONFIGURED,
    hint_faults=(STATUS,),
)


def text_of_plan(config: Config) -> str:
    return " ".join(planned.as_text(plan(config), 80).split())


def test_a_plan_says_who_promotes_and_what_comes_back() -> None:
    text = text_of_plan(HINTED)
    assert "hint-faults-0 the kernel moves pages of slow nodes up to node 0" in text
    assert "promoter: numa-balancing: as configured" in text
    assert "/proc/sys/kernel/numa_balancing gets its old value" in text
    assert "NUMA balancing, swap" not in text, "it is changed"
    other = text_of_plan(Config())
    assert "promoter: damon" in other
    assert "NUMA balancing, swap" in other


def test_status_counts_what_hint_faults_promote() -> None:
    text = statusview.text(document(HINTS), NOW, 200)
    assert "promotes 3 MB/s, demotes 40 MB/s" in text
    assert "promoter numa-balancing: as configured" in text
    assert f"hint-faults-0: 3 MB/s to node0 now, 412 MiB since boot; {REASON}" in text


def test_status_names_the_promoter_only_if_something_was_asked_for() -> None:
    plain = replace(SNAPSHOT, promoter="damon", promoter_reason=AS_CONFIGURED)
    assert "promoter" not in statusview.text(document(plain), NOW, 200)
    auto = replace(plain, promoter_reason="bit 2 was not set")
    assert "promoter damon: bit 2 was not set" in statusview.text(document(auto), NOW, 200)


def test_why_says_it_for_each_node() -> None:
    for node in (0, 1):
        text = whyview.text([look(HINTS)], node, 200)
        assert f"promotion by hint-faults-0: 3 MB/s to node0 now, 412 MiB since boot; {REASON}" in (
            text
        )


def test_the_limit_is_a_metric() -> None:
    (found,) = [one for one in metrics.METRICS if one.name.startswith("hint_fault_limit")]
    assert list(found.values(metrics.Seen(HINTS, DaemonCounts()))) == [(("0",), 20e6)]
    assert not list(found.values(metrics.Seen(SNAPSHOT, DaemonCounts())))


def test_the_usual_promoter_is_the_one_of_a_plan_with_the_defaults() -> None:
    assert (Promoter.damon, AS_CONFIGURED) == statusview.USUAL_PROMOTER
