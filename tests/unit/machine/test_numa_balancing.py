"""How NUMA balancing is set, and when it is a conflict."""

import pytest

from tests.fixtures import machines
from tests.fixtures.machines import TextSysfs
from tierd.errors import TierdError
from tierd.machine import discovery, numa_balancing
from tierd.machine.neighbours import NUMA_BALANCING, Neighbours, Owner, rivals
from tierd.sysfs import Sysfs


def found(sysfs: Sysfs, before: dict[str, str]) -> numa_balancing.NumaBalancing | None:
    topology = discovery.survey(machines.load("two-tier-7.2").sysfs, None)
    return numa_balancing.read(sysfs, topology, before)


def test_a_real_machine() -> None:
    """The slow node of this machine is in a slower tier of the kernel."""
    read = found(machines.load("two-tier-7.2").sysfs, {})
    assert read is not None
    assert (read.mode, read.promotes, read.fast_nodes) == (1, False, frozenset({0}))


def test_what_tierd_has_changed_counts_as_before() -> None:
    read = found(TextSysfs({NUMA_BALANCING: "2\n"}), {NUMA_BALANCING: "0"})
    assert read is not None
    assert (read.mode, read.promotes) == (0, False)


def test_a_kernel_may_lack_it() -> None:
    assert found(TextSysfs({}), {}) is None


def test_a_kernel_without_tiers_has_only_fast_nodes() -> None:
    read = found(TextSysfs({NUMA_BALANCING: "1\n"}), {})
    assert read is not None
    assert read.fast_nodes == {0, 1}
    assert not read.limits_rate


def test_garbage_is_an_error() -> None:
    with pytest.raises(TierdError, match="numa_balancing"):
        found(TextSysfs({NUMA_BALANCING: "often\n"}), {})


@pytest.mark.parametrize(
    ("mode", "hints", "said"),
    [
        (None, False, ""),
        (0, False, ""),
        (1, False, ""),
        (2, False, "`promoter: numa-balancing`"),
        (3, False, "promotes pages too"),
        (2, True, ""),
        (3, True, ""),
        (0, True, "nothing promotes: kernel.numa_balancing is 0"),
    ],
)
def test_it_is_a_conflict_if_it_is_not_as_the_plan_has_it(
    mode: int | None, said: str, *, hints: bool
) -> None:
    others = Neighbours((), (), mode, None, None)
    told = rivals(others, (), ours_run=True, hints=hints)
    assert [one.owner for one in told] == ([Owner.numa_balancing] if said else [])
    assert all(said in one.text for one in told)
