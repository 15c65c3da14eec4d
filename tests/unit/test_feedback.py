"""One round of each tuner."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fixtures.pages import PAGE_BYTES
from tests.fixtures.readings import (
    DOWN,
    HEADROOM,
    LIMITS,
    MARK,
    MIB,
    SWEEP,
    UP,
    migration,
    reading,
)
from tierd import feedback
from tierd.feedback import Tuning
from tierd.plans.damon import Metric
from tierd.plans.plan import (
    CLOSED_INPUT,
    OPEN_INPUT,
    TARGET,
    Aim,
    Controller,
    Direction,
    Migration,
)
from tierd.sim import kernel_math
from tierd.tuner.demand import ControllerState
from tierd.tuner.gate import Gate
from tierd.tuner.measurement import Limits, Measurement, NodeMeasurement, SchemeMeasurement
from tierd.tuner.round import READY_BYTES
from tierd.tuner.throttle import FADE, KEEP, Input, InputInForce, ScheduledInput


def promotion(metric: Metric, target_bp: int) -> Migration:
    return migration(Direction.promote, 1, 0, Aim(metric, 0, target_bp), 2_000_000)


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
    node = NodeMeasurement(total_pages * 4096, free_pages * 4096, 0)
    one = promotion(metric, target_bp)
    seen = Measurement(1.0, {0: node, 1: node}, {one.id: SchemeMeasurement(0, 0, 1, 1.0)})
    limits = Limits(Controller.emulated, (one,), PAGE_BYTES, 50, charges_failures=True)
    _, adjustment = feedback.adjust(ControllerState(), seen, limits)
    given_ = adjustment.inputs[one.id]
    # As damos_get_node_mem_bp() in the series that have it.
    pages = free_pages if metric is Metric.node_mem_free_bp else total_pages - free_pages
    native = kernel_math.goal_score(pages * 10_000 // total_pages, target_bp)
    ours = kernel_math.goal_score(given_.value, target_bp)
    assert kernel_math.consist(esz_bp, ours) == kernel_math.consist(esz_bp, native)


def test_the_kernels_own_tuner_is_left_alone() -> None:
    limits = Limits(Controller.kernel, LIMITS.migrations, PAGE_BYTES, 50, charges_failures=False)
    assert feedback.adjust(ControllerState(), reading(hot=1 << 30), limits)[1].inputs == {}
    assert feedback.safe(limits) == {}


def test_demand_gives_every_scheme_an_input_and_a_reason() -> None:
    _, adjustment = feedback.adjust(ControllerState(), reading(hot=96 << 20), LIMITS)
    assert set(adjustment.inputs) == set(adjustment.wants) == {UP.id, DOWN.id}
    assert adjustment.inputs[DOWN.id].value < TARGET
    assert adjustment.parked == set()
    _, idle = feedback.adjust(ControllerState(), reading(), LIMITS)
    assert idle.parked == {UP.id, DOWN.id}
    assert set(idle.inputs.values()) == {KEEP}


def test_what_is_left_behind_does_not_grow() -> None:
    assert set(feedback.safe(LIMITS).values()) == {FADE}
    emulated = Limits(
        Controller.emulated, (promotion(Metric.node_mem_used_bp, 9970),), PAGE_BYTES, 50, True
    )
    assert [one.value for one in feedback.safe(emulated).values()] == [9970]


def test_what_is_found_running_is_made_ready() -> None:
    """Quotas that are found running change to the ready size, until the first reading."""
    inputs = feedback.ready_inputs({UP.id: 5_000_000, DOWN.id: 1}, LIMITS)
    assert inputs[UP.id].value > TARGET
    assert inputs[DOWN.id].value == 0
    assert {one.then for one in inputs.values()} == {FADE.value}


def test_of_what_is_not_known_to_run_nothing_is_said() -> None:
    assert set(feedback.ready_inputs({UP.id: 1}, LIMITS)) == {UP.id}


def test_eviction_that_grows_is_parked_at_the_first_look() -> None:
    """An earlier tierd may have left it so. One that is parked stays so, without a command."""
    out = migration(Direction.evict, 1, 1)
    limits = replace(LIMITS, migrations=(*LIMITS.migrations, out))
    (found,) = feedback.ready_inputs({out.id: 5_000_000}, limits).values()
    assert found.value > TARGET
    assert not feedback.ready_inputs({out.id: 1}, limits)


@pytest.mark.parametrize("loop", [Controller.kernel, Controller.emulated])
def test_who_measures_for_the_kernels_law_begins_with_what_is_safe(loop: Controller) -> None:
    limits = replace(LIMITS, controller=loop)
    assert feedback.ready_inputs({UP.id: 1, DOWN.id: 1}, limits) == feedback.safe(limits)


def test_emulated_says_what_it_measured() -> None:
    both = (
        promotion(Metric.node_mem_used_bp, 9970),
        replace(promotion(Metric.node_mem_free_bp, 50), id="d"),
    )
    limits = Limits(Controller.emulated, both, PAGE_BYTES, 50, charges_failures=True)
    seen = Measurement(1.0, {0: NodeMeasurement(1000, 250, 0)}, {})
    wants = feedback.adjust(ControllerState(), seen, limits)[1].wants
    assert wants["promote-1-0"].reason == "node 0 is 75% used, aims at 99.7%"
    assert wants["d"].reason == "node 0 is 25% free, aims at 0.5%"


def waiting() -> ControllerState:
    """Return the state after a round in which the fast node was full."""
    memory, told = feedback.adjust(ControllerState(), reading(hot=96 * MIB, free=MARK), LIMITS)
    assert told.wants[UP.id].quota_bytes == READY_BYTES
    return memory


def test_a_glance_finds_room_for_what_waits() -> None:
    memory = waiting()
    after, told = feedback.adjust_again(memory, reading(hot=96 * MIB, free=2 * HEADROOM), LIMITS)
    assert told.inputs[UP.id].value < TARGET
    assert told.wants[UP.id].quota_bytes > 2 * READY_BYTES
    assert after.habits[UP.id].quota_bytes == told.wants[UP.id].quota_bytes
    assert after.nodes == memory.nodes, "nothing is learned"


def test_a_glance_ends_what_has_made_room_enough() -> None:
    memory = waiting()
    assert memory.habits[DOWN.id].quota_bytes > 0
    _, told = feedback.adjust_again(memory, reading(hot=96 * MIB, free=10 * HEADROOM), LIMITS)
    assert told.wants[DOWN.id].bytes_per_s == 0
    assert DOWN.id in told.inputs


def test_a_glance_at_much_the_same_changes_nothing() -> None:
    memory = waiting()
    after, told = feedback.adjust_again(memory, reading(hot=96 * MIB, free=MARK - 4096), LIMITS)
    assert told.inputs == {}
    assert {name: one.quota_bytes for name, one in after.habits.items()} == {
        name: one.quota_bytes for name, one in memory.habits.items()
    }


def lacking(mib: float) -> Measurement:
    """Return a reading that lacks this much headroom, with nothing hot."""
    return reading(free=HEADROOM - int(mib * MIB))


@pytest.mark.parametrize(("mib", "told"), [(6, False), (3, False), (1.9, True), (9, True)])
def test_a_glance_acts_on_a_doubling_and_keeps_what_else_was_told(mib: float, told: bool) -> None:
    """The state keeps what the kernel was told last, not what was decided and not written."""
    memory, first = feedback.adjust(ControllerState(), lacking(4), LIMITS)
    after, now = feedback.adjust_again(memory, lacking(mib), LIMITS)
    assert set(now.inputs) == ({DOWN.id} if told else set())
    before, wanted = first.wants[DOWN.id].quota_bytes, now.wants[DOWN.id].quota_bytes
    assert before != wanted
    assert after.habits[DOWN.id].quota_bytes == (wanted if told else before)


def test_at_rest_a_glance_has_nothing_to_say() -> None:
    memory, _ = feedback.adjust(ControllerState(), reading(), LIMITS)
    assert feedback.adjust_again(memory, reading(), LIMITS)[1].inputs == {}


@pytest.mark.parametrize("metric", [Metric.node_mem_used_bp, Metric.node_mem_free_bp])
def test_a_node_whose_memory_has_just_gone_is_measured_as_nothing(metric: Metric) -> None:
    assert Aim(metric, 0, 50).measured_bp(0, 0) == 0


# The state: which input is in force, and which one follows.


def test_a_new_kdamond_is_given_its_next_input_shortly_before_its_quota_is_ready() -> None:
    begun = feedback.begin(LIMITS, 10.0)
    ready = feedback.ready_inputs({UP.id: 1, DOWN.id: 1}, LIMITS)
    assert {name: one.value for name, one in begun.in_force.items()} == {UP.id: 0, DOWN.id: 0}
    for name, one in begun.scheduled.items():
        assert one.value == ready[name].then == FADE.value
        assert one.at_s == pytest.approx(10.0 + (ready[name].windows - 0.25) * 0.1)
    assert begun.due_s == min(one.at_s for one in begun.scheduled.values())


def test_without_new_kdamonds_nothing_is_in_force() -> None:
    assert feedback.begin(LIMITS, None) == Tuning()
    assert Tuning().due_s is None


def test_what_is_due_is_written_and_nothing_else() -> None:
    later = {UP.id: ScheduledInput(5.0, 7), DOWN.id: ScheduledInput(6.0, 8)}
    tuning = Tuning(scheduled=later)
    assert tuning.due(4.9) == {}
    assert tuning.due(5.0) == {UP.id: Input(7, 7)}
    assert set(tuning.due(6.0)) == {UP.id, DOWN.id}


def test_an_input_that_was_written_is_in_force_and_the_next_one_is_scheduled() -> None:
    known = Tuning(in_force={UP.id: InputInForce(0.0, 4096, 0)})
    after = feedback.written(known, [(UP, Input(5000, FADE.value, 3))], 0.3, 0.4)
    # By then the quota had doubled three times.
    assert after.in_force == {UP.id: InputInForce(0.3, 8 * 4096, 5000)}
    assert after.scheduled == {UP.id: ScheduledInput(0.3 + 2.75 * 0.1, FADE.value)}


def test_an_input_that_is_in_force_already_goes_on() -> None:
    """It was not written again, so the quota is known from its first moment."""
    known = Tuning(
        in_force={UP.id: InputInForce(0.0, 4096, TARGET)},
        scheduled={UP.id: ScheduledInput(9.0, 1)},
    )
    after = feedback.written(known, [(UP, KEEP)], 0.3, 0.4)
    assert after.in_force == known.in_force
    assert after.scheduled == {}, "what was to follow is no longer wanted"


def test_a_glance_without_a_measurement_says_nothing() -> None:
    tuning, inputs = feedback.glance(Tuning(glances=True), LIMITS, {0: 1}, 1.0)
    assert inputs == {}
    assert not tuning.glances


def test_a_sweep_that_opens_is_not_closed_before_its_first_window() -> None:
    sweep = replace(SWEEP, gated=False)
    window_s = sweep.window_us / 1e6
    opens = Input(OPEN_INPUT, CLOSED_INPUT, 1)
    late = feedback.written(Tuning(), [(sweep, opens)], 0.3, 0.9)
    assert late.scheduled[sweep.id] == ScheduledInput(0.9 + window_s, CLOSED_INPUT)
    goes_on = feedback.written(late, [(sweep, opens)], 1.0, 1.5)
    assert goes_on.scheduled[sweep.id] == opens.scheduled(1.0, window_s)


def test_a_sweep_that_becomes_slower_was_open_before() -> None:
    sweep = replace(SWEEP, gated=True)
    window_s = sweep.window_us / 1e6
    known = Tuning(in_force={sweep.id: InputInForce(0.0, 4096, OPEN_INPUT)})
    slower = Input(OPEN_INPUT + TARGET // 4, CLOSED_INPUT, 1)
    after = feedback.written(known, [(sweep, slower)], 0.3, 0.9)
    assert after.in_force[sweep.id].value == slower.value
    assert after.scheduled[sweep.id] == slower.scheduled(0.3, window_s)


@pytest.mark.parametrize(
    ("gate", "is_told"),
    [
        (Gate(is_open=True, then_open=True, slower=0.25), Input(2_500, 2_500)),
        (Gate(is_open=True, then_open=False, after_s=0.2, slower=0.25), Input(2_500, 20_000, 2)),
        (Gate(is_open=False, then_open=True, after_s=0.2, slower=0.25), Input(20_000, 2_500, 2)),
        (Gate(is_open=True, then_open=True), Input(OPEN_INPUT, OPEN_INPUT)),
    ],
)
def test_the_input_of_a_sweep_says_how_much_slower_it_is(gate: Gate, is_told: Input) -> None:
    assert feedback._gated(gate, 0.1) == is_told
