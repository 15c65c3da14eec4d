"""One round for each tuner."""

from hypothesis import given
from hypothesis import strategies as st

from tests.fixtures.readings import DOWN, HEADROOM, LIMITS, MARK, MIB, UP, reading
from tierd import feedback
from tierd.plans.damon import Metric
from tierd.plans.plan import Aim, Direction, Loop
from tierd.sim import law
from tierd.tuner.demand import READY_BYTES, Memory
from tierd.tuner.reading import Limits, NodeReading, Reading, Way, WayReading
from tierd.tuner.throttle import FADE, KEEP, TARGET


def way(metric: Metric, target_bp: int) -> Way:
    aim = Aim(metric, 0, target_bp)
    return Way("promote-1-0", Direction.promote, 1, 0, 20e6, 2_000_000, aim)


@given(
    total_pages=st.integers(1, 1 << 26),
    free_share=st.floats(0, 1),
    target_bp=st.integers(1, 10_000),
    metric=st.sampled_from((Metric.node_mem_used_bp, Metric.node_mem_free_bp)),
    esz_bp=st.integers(10_000, 1 << 40),
)
def test_emulated_makes_the_kernels_own_step(
    total_pages: int, free_share: float, target_bp: int, metric: Metric, esz_bp: int
) -> None:
    free_pages = int(total_pages * free_share)
    node = NodeReading(total_pages * 4096, free_pages * 4096, 0)
    one = way(metric, target_bp)
    seen = Reading(1.0, {0: node, 1: node}, {one.id: WayReading(0, 0, 1, 1.0)})
    limits = Limits(Loop.emulated, (one,), 50, charges_failures=True)
    _, adjustment = feedback.step(Memory(), seen, limits)
    given_ = adjustment.inputs[one.id]
    # damos_get_node_mem_bp() of the series that have it.
    pages = free_pages if metric is Metric.node_mem_free_bp else total_pages - free_pages
    native = law.goal_score(pages * 10_000 // total_pages, target_bp)
    ours = law.goal_score(given_.value, target_bp)
    assert law.consist(esz_bp, ours) == law.consist(esz_bp, native)


def test_the_kernels_own_tuner_is_left_alone() -> None:
    limits = Limits(Loop.kernel, LIMITS.ways, 50, charges_failures=False)
    assert feedback.step(Memory(), reading(hot=1 << 30), limits)[1].inputs == {}
    assert feedback.safe(limits) == {}


def test_demand_gives_every_scheme_an_input_and_a_reason() -> None:
    _, adjustment = feedback.step(Memory(), reading(hot=96 << 20), LIMITS)
    assert set(adjustment.inputs) == set(adjustment.wants) == {UP.id, DOWN.id}
    assert adjustment.inputs[DOWN.id].value < TARGET
    _, idle = feedback.step(Memory(), reading(), LIMITS)
    assert idle.resting == {UP.id, DOWN.id}
    assert set(idle.inputs.values()) == {KEEP}


def test_what_is_left_behind_does_not_grow() -> None:
    assert set(feedback.safe(LIMITS).values()) == {FADE}
    emulated = Limits(Loop.emulated, (way(Metric.node_mem_used_bp, 9970),), 50, True)
    assert [one.value for one in feedback.safe(emulated).values()] == [9970]


def test_what_is_found_running_is_made_ready() -> None:
    """What a start needs next takes as many windows again, and the first reading has the say."""
    inputs = feedback.begin({UP.id: 5_000_000, DOWN.id: 1}, LIMITS)
    assert inputs[UP.id].value > TARGET
    assert inputs[DOWN.id].value == 0
    assert {one.then for one in inputs.values()} == {FADE.value}


def waiting() -> Memory:
    """After a round in which the fast node was full."""
    memory, told = feedback.step(Memory(), reading(hot=96 * MIB, free=MARK), LIMITS)
    assert told.wants[UP.id].quota_bytes == READY_BYTES
    return memory


def test_a_glance_finds_room_for_what_waits() -> None:
    memory = waiting()
    after, told = feedback.glance(memory, reading(hot=96 * MIB, free=2 * HEADROOM), LIMITS)
    assert told.inputs[UP.id].value < TARGET
    assert told.wants[UP.id].quota_bytes > 2 * READY_BYTES
    assert after.habits[UP.id].quota_bytes == told.wants[UP.id].quota_bytes
    assert after.nodes == memory.nodes, "nothing is learned"


def test_a_glance_ends_what_has_made_room_enough() -> None:
    memory = waiting()
    assert memory.habits[DOWN.id].quota_bytes > 0
    _, told = feedback.glance(memory, reading(hot=96 * MIB, free=10 * HEADROOM), LIMITS)
    assert told.wants[DOWN.id].bytes_per_s == 0
    assert DOWN.id in told.inputs


def test_a_glance_at_much_the_same_changes_nothing() -> None:
    memory = waiting()
    after, told = feedback.glance(memory, reading(hot=96 * MIB, free=MARK - 4096), LIMITS)
    assert told.inputs == {}
    assert {name: one.quota_bytes for name, one in after.habits.items()} == {
        name: one.quota_bytes for name, one in memory.habits.items()
    }
