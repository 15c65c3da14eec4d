"""The heat of a node: lasting, new and faint heat."""

from hypothesis import given
from hypothesis import strategies as st

from tierd.tuner import heat
from tierd.tuner.heat import FAINT_S, ROUNDS, Heat
from tierd.tuner.measurement import NodeMeasurement

MIB = 1 << 20


def node(sure: int = 0, faint: int = 0) -> NodeMeasurement:
    return NodeMeasurement(512 * MIB, 0, 0, heat_bytes=sure + faint, faint_bytes=faint)


def after(*sure: int) -> Heat:
    """Return what is known after rounds with this heat."""
    known = None
    for one in sure:
        known = heat.learn(known, node(one), 0.5)
    assert known is not None
    return known


def test_what_is_seen_first_is_believed() -> None:
    assert after(8 * MIB).lasting_bytes == 8 * MIB
    assert after(8 * MIB).new_bytes == 0


def test_what_one_round_has_seen_is_doubtful() -> None:
    once = after(1 * MIB, 1 * MIB, 8 * MIB)
    assert (once.lasting_bytes, once.new_bytes) == (1 * MIB, 7 * MIB)
    assert after(1 * MIB, 8 * MIB, 8 * MIB).lasting_bytes == 8 * MIB


def test_a_low_reading_is_not_believed_for_longer_than_it_lasts() -> None:
    assert after(8 * MIB, 8 * MIB, 1 * MIB).lasting_bytes == 1 * MIB
    assert after(8 * MIB, 8 * MIB, 1 * MIB, 8 * MIB).lasting_bytes == 8 * MIB


def test_what_was_hot_long_ago_is_new_when_it_comes_back() -> None:
    assert after(8 * MIB, *[0] * ROUNDS, 8 * MIB).lasting_bytes == 0


def test_heat_that_may_be_chance_is_believed_as_far_as_it_lasts() -> None:
    known = heat.learn(None, node(), 1.0)
    known = heat.learn(known, node(faint=10 * MIB), 1.0)
    assert known.faint_bytes == 10 * MIB / FAINT_S
    for _ in range(60):
        known = heat.learn(known, node(faint=10 * MIB), 1.0)
    assert 9.9 * MIB < known.faint_bytes <= 10 * MIB
    assert known.lasting_bytes == 0
    assert heat.learn(known, node(), 1.0).all_bytes == 0


@given(st.lists(st.tuples(st.integers(0, MIB), st.integers(0, MIB)), min_size=1, max_size=8))
def test_its_parts_are_never_more_than_what_is_seen(rounds: list[tuple[int, int]]) -> None:
    known = None
    for sure, faint in rounds:
        known = heat.learn(known, node(sure, faint), 0.5)
        assert 0 <= known.lasting_bytes <= sure
        assert known.lasting_bytes + known.new_bytes == sure
        assert 0 <= known.faint_bytes <= faint
        assert len(known.sure_before_bytes) <= ROUNDS
