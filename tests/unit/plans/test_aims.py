"""At which share of a node a migration stops: above what the kernel itself keeps free."""

from hypothesis import given
from hypothesis import strategies as st

from tests.fixtures.tiers import GIB
from tests.unit.test_policy import ALL, KERNEL, TWO, exchanges
from tierd import policy
from tierd.configuration.config import Config
from tierd.plans import aims


def test_memory_that_the_kernel_keeps_free_raises_both_targets() -> None:
    floors = {0: GIB // 20}  # 5 %
    demote, promote = exchanges(policy.plan(TWO, ALL, Config(), free_floors=floors))
    assert demote.aim.target_bp == 500 + aims.FLOOR_MARGIN_BP
    assert promote.aim.target_bp == 9970 - (demote.aim.target_bp - 50)
    assert demote.aim.target_bp + promote.aim.target_bp > 10_000


@given(st.integers(1, GIB * 9 // 10))
def test_a_goal_lies_above_what_the_kernel_keeps_free(floor: int) -> None:
    """The kernel stops demotion at that floor, so a goal at or below it is never reached."""
    for config in (Config(), KERNEL):
        demote, promote = exchanges(policy.plan(TWO, ALL, config, free_floors={0: floor}))
        assert demote.aim.target_bp > demote.aim.measured_bp(GIB, floor) + 1
        # Promotion may fill the node to below that goal, except for the share of exchanges.
        overlap = demote.aim.target_bp + promote.aim.target_bp - 10_000
        assert overlap == Config().headroom_bp + Config().used_bp - 10_000


def test_without_known_floors_the_headroom_is_as_configured() -> None:
    (demote, _) = exchanges(policy.plan(TWO, ALL, Config(headroom_bp=1)))
    assert demote.aim.target_bp == 1


def test_goals_stay_within_bounds_if_the_kernel_keeps_a_whole_node_free() -> None:
    for floor in (GIB, 2 * GIB):
        demote, promote = exchanges(policy.plan(TWO, ALL, Config(), free_floors={0: floor}))
        assert (demote.aim.target_bp, promote.aim.target_bp) == (10_000, 20)
