"""Two sockets, by page: what goes to the other one, because the nearest node has no room."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import inf

import pytest

from tests.fixtures.readings import HEADROOM, MARK, MIB, RATE, N
from tests.fixtures.sockets import (
    LIMITS,
    reading,
    sweeps,
)
from tierd.plans.plan import Sweep, Visit
from tierd.tuner import demand, fallbacks, pages
from tierd.tuner.climb import RESUME_SHARE, Climb, Stage
from tierd.tuner.demand import ControllerState
from tierd.tuner.descent import IDLE_S_FIRST, Descent, Piece
from tierd.tuner.fallbacks import REFUSED_S, Climbs, Moved
from tierd.tuner.gate import CLOSED, Room, Seen, fitting_bytes
from tierd.tuner.measurement import SchemeMeasurement
from tierd.tuner.pages import ELSEWHERE, NEARER, PagesState, Tick
from tierd.tuner.round import FastNode


def tick(
    *,
    free: Mapping[int, int] | None = None,
    fits: Mapping[int, Mapping[int, float]] | None = None,
    seconds: float = 1.0,
    further: Mapping[int, Moved] | None = None,
    visited: Mapping[int, Mapping[Visit, int]] | None = None,
) -> Tick:
    """Return a tick. By default there is room everywhere."""
    free = {0: 2 * HEADROOM, 1: 2 * HEADROOM, **(free or {})}
    mine = sweeps()
    seen = {
        one.node: Seen(
            seconds=seconds,
            window_s=0.02,
            round_bytes=one.round_bytes,
            bytes_per_s=one.bytes_per_s,
            visited_bytes=(visited or {}).get(one.node, {}),
        )
        for one in reversed(mine)
    }
    rooms = {
        node: Room(node, N, free[node], MARK, HEADROOM, fits_by_target=(fits or {}).get(node, {}))
        for node in (0, 1)
    }
    moving = [one.id for one in mine if one.moves]
    return Tick(
        sweeps=mine,
        rooms=rooms,
        seen=seen,
        over_bytes=dict.fromkeys(moving, 0.0),
        allowed_bytes=dict.fromkeys(moving, inf),
        idle_s_min=IDLE_S_FIRST,
        cost_bp=10_000,
        cpu_s={},
        tried_bytes={one.id: 0 for one in mine},
        further={2: Moved(), 3: Moved(), **(further or {})},
    )


def ran(now: Tick, times: int, state: PagesState | None = None) -> tuple[PagesState, pages.Decided]:
    state, decided = state or PagesState(), pages.Decided()
    for _ in range(times):
        state, decided = pages.decide(state, now)
    return state, decided


NEAR, OTHER = (
    next(one for one in sweeps() if one.id == name)
    for name in ("demote-pages-0-2", "demote-pages-0-3")
)
ROOM = Room(0, 16 * N, 0, MARK, HEADROOM)
LITTLE = fitting_bytes(NEAR)
MUCH = RESUME_SHARE * ROOM.ahead_bytes


LONG, SHORT = REFUSED_S, REFUSED_S / 2


@pytest.mark.parametrize(
    ("near", "other", "last", "full_s", "chosen"),
    [
        pytest.param(LITTLE, MUCH, None, 0.0, NEAR, id="the nearest has room"),
        pytest.param(0, LITTLE, 2, SHORT, NEAR, id="the nearest is full for a moment"),
        pytest.param(0, LITTLE, 2, LONG, OTHER, id="the nearest is full"),
        pytest.param(0, LITTLE, None, LONG, OTHER, id="the nearest is full at the start"),
        pytest.param(LITTLE, MUCH, 3, 0.0, OTHER, id="the nearest has little again"),
        pytest.param(MUCH, MUCH, 3, 0.0, NEAR, id="the nearest has much again"),
        pytest.param(LITTLE, 0, 3, 0.0, NEAR, id="only the nearest has a little"),
        pytest.param(0, 0, 3, LONG, NEAR, id="none has room any more"),
    ],
)
def test_pages_go_down_to_the_nearest_node_that_has_room(
    near: float, other: float, last: int | None, full_s: float, chosen: Sweep
) -> None:
    assert LITTLE < MUCH
    room = replace(ROOM, fits_by_target={2: near, 3: other})
    before = Descent(target=last, full_s=full_s)
    assert fallbacks.down((NEAR, OTHER), room, before) == chosen


@pytest.mark.parametrize(("other", "chosen"), [(LITTLE, OTHER), (0, NEAR)])
def test_a_round_stays_at_its_target_while_that_has_room(other: float, chosen: Sweep) -> None:
    room = replace(ROOM, fits_by_target={2: MUCH, 3: other})
    begun = Descent(target=3, visited_bytes=1)
    assert fallbacks.down((NEAR, OTHER), room, begun) == chosen


def test_how_long_the_nearest_slower_node_has_been_full_is_counted() -> None:
    full = tick(fits={0: {2: 0.0, 3: inf}})
    state, _ = ran(full, 3)
    assert (state.descents[0].full_s, state.descents[1].full_s) == (3.0, 0.0)
    assert ran(tick(), 1, state)[0].descents[0].full_s == 0.0


def test_one_sweep_sends_pages_down_and_the_others_are_closed() -> None:
    full = PagesState(descents={0: Descent(full_s=REFUSED_S)})
    for fits, target in (({2: inf, 3: inf}, 2), ({2: 0.0, 3: inf}, 3)):
        state, decided = pages.decide(full, tick(free={0: MARK}, fits={0: fits}))
        assert state.descents[0].target == target
        assert f"demote-pages-0-{target}" in decided.reasons
        assert decided.gates[f"demote-pages-0-{5 - target}"] == CLOSED
    # Without room anywhere it waits for the nearest one.
    none = tick(free={0: MARK}, fits={0: {2: 0.0, 3: 0.0}})
    assert list(_downs(pages.decide(full, none)[1])) == ["demote-pages-0-2"]


def _downs(decided: pages.Decided) -> Iterator[str]:
    return (name for name in decided.reasons if name.startswith("demote-pages-0"))


def test_no_more_pages_go_down_than_the_target_has_room_for() -> None:
    room = 2.0 * LITTLE
    cleared = Descent(is_open=True, clock_s=9.0, cleared=(Piece(50 * MIB, 0.0),), full_s=REFUSED_S)
    for fits, free in (({2: room, 3: inf}, 0), ({2: 0.0, 3: room}, 0)):
        now = tick(free={0: free}, fits={0: fits})
        now = replace(now, tried_bytes={**now.tried_bytes, "age-pages-0": 50 * MIB})
        target = min(node for node, size in fits.items() if size)
        _, decided = pages.decide(PagesState(descents={0: cleared}), now)
        gate = decided.gates[f"demote-pages-0-{target}"]
        assert gate.is_open
        # All of what it visits may go down.
        assert gate.after_s * now.seen[0].bytes_per_s == pytest.approx(room)


def test_pages_come_up_to_the_other_socket_when_the_nearest_has_no_room_for_long() -> None:
    full = tick(free={0: MARK})
    state, decided = ran(full, int(REFUSED_S) - 1)
    assert state.further_climbs[2].stage is Stage.rests
    assert NEARER in decided.reasons["promote-pages-2-1"]
    state, decided = ran(full, 4)
    waits = max(REFUSED_S, full.seen[0].round_s)
    state, decided = ran(full, int(waits) + 2)
    assert 2 in state.refused
    assert state.further_climbs[2].stage is Stage.clears
    assert "promote-pages-2-1" in decided.busy
    # Node 3 has room on its nearest node, and takes nothing of the other one.
    assert state.further_climbs[3].stage is Stage.rests


def test_rounds_in_vain_let_pages_go_elsewhere_too() -> None:
    vain = PagesState(climbs={2: Climb(rest_s=600.0, stage_ends_s=600.0)})
    now = tick()
    state, _ = ran(now, int(max(REFUSED_S, now.seen[0].round_s)) + 2, vain)
    assert state.climbs[2].stage is Stage.rests
    assert state.further_climbs[2].stage is not Stage.rests


def test_one_climb_of_a_node_runs_at_a_time() -> None:
    """Both follow the same sweep that clears."""
    further = PagesState(further_climbs={2: Climb(stage=Stage.takes, lag_s=0.1)})
    state, decided = pages.decide(further, tick())
    assert state.climbs[2].stage is Stage.rests
    assert ELSEWHERE in decided.reasons["promote-pages-2-0"]
    assert "promote-pages-2-0" not in decided.bars
    near = PagesState(climbs={2: Climb(stage=Stage.takes, lag_s=0.1)}, refused=frozenset({2}))
    state, decided = pages.decide(near, tick())
    assert state.further_climbs[2].stage is Stage.rests
    assert NEARER in decided.reasons["promote-pages-2-1"]
    assert "promote-pages-2-1" not in decided.bars


def test_a_round_that_waits_on_the_other_socket_ends_when_the_nearest_has_room() -> None:
    waits = PagesState(further_climbs={2: Climb(stage=Stage.waits)}, refused=frozenset({2}))
    state, _ = pages.decide(waits, tick())
    assert state.further_climbs[2].stage is Stage.rests
    # A rest goes on meanwhile.
    rests = PagesState(further_climbs={2: Climb(rest_s=60.0, stage_ends_s=60.0)})
    state, _ = ran(tick(), 5, rests)
    assert (state.further_climbs[2].stage_s, state.further_climbs[2].stage_ends_s) == (5.0, 60.0)


def test_a_climb_counts_what_its_own_sweeps_did() -> None:
    both = {Visit.promote: 10, Visit.clear: 7}
    all_of_it = replace(tick().seen[2], visited_bytes=both, moved_bytes=both)
    further = Moved().plus(4, 3)
    runs, rests = Climb(stage=Stage.takes), Climb()
    near = fallbacks.seen(all_of_it, further, rests, fallback=False)
    assert near.visited_bytes == {Visit.promote: 6, Visit.clear: 7}
    assert near.moved_bytes[Visit.promote] == 7
    far = fallbacks.seen(all_of_it, further, runs, fallback=True)
    assert far.visited_bytes == {Visit.promote: 4, Visit.clear: 0}
    assert fallbacks.seen(all_of_it, None, runs, fallback=False) is all_of_it


def test_room_is_made_for_climbs_from_the_other_socket_only_while_they_may_come() -> None:
    state = PagesState(climbs={3: Climb(), 2: Climb()}, further_climbs={2: Climb(), 3: Climb()})
    assert list(state.climbs_to(1, sweeps()).further) == []
    refused = replace(state, refused=frozenset({2}))
    assert list(refused.climbs_to(1, sweeps()).further) == [2]
    assert list(refused.climbs_to(0, sweeps()).further) == []
    runs = replace(state, further_climbs={2: Climb(stage=Stage.takes)})
    assert list(runs.climbs_to(1, sweeps()).further) == [2]


@pytest.mark.parametrize(
    ("near", "further", "in_vain"),
    [
        ((True,), (), True),
        ((False,), (), False),
        ((True,), (False,), False),
        ((True,), (True,), True),
        ((False,), (True,), False),
        ((), (True,), True),
    ],
)
def test_idle_memory_is_worth_less_only_if_no_climb_helps(
    near: tuple[bool, ...], further: tuple[bool, ...], in_vain: bool
) -> None:
    nearest, others = (
        {at: Climb(rest_s=2.0 * vain) for at, vain in enumerate(group)} for group in (near, further)
    )
    assert Climbs(nearest, others).in_vain is in_vain


def test_pages_to_both_sockets_keep_to_one_rate() -> None:
    """What moves to a fallback is paid back by the sweep to the nearest node too."""
    limits = replace(LIMITS, sweeps=sweeps())
    some = {one.id: SchemeMeasurement(0, 0, 1, 0.02) for one in limits.sweeps}
    some["promote-pages-2-1"] = SchemeMeasurement(0, 30 * MIB, 1, 0.02)
    moved = reading(moved={"promote-2-0": 4 * MIB, "promote-2-1": 2 * MIB})
    seen = replace(moved, sweeps=some)
    rated = {one.id: limits.rated_bytes(seen, one) for one in limits.migrations}
    rated |= {one.id: limits.rated_bytes(seen, one) for one in limits.sweeps}
    assert rated["promote-2-0"] == rated["promote-2-1"] == 6 * MIB
    assert rated["promote-pages-2-0"] == rated["promote-pages-2-1"] == 30 * MIB
    assert rated["promote-3-1"] == rated["promote-pages-3-1"] == 0
    state, _ = demand.decide(ControllerState(), seen, limits)
    over = 36 * MIB - RATE
    assert state.pages.debts_bytes["promote-pages-2-0"] == pytest.approx(over)
    assert state.pages.debts_bytes["promote-pages-2-1"] == pytest.approx(over)


def test_what_is_only_cleared_has_not_moved() -> None:
    limits = replace(LIMITS, sweeps=sweeps())
    each = {one.id: SchemeMeasurement(MIB, MIB, 1, 0.02) for one in limits.sweeps}
    seen = replace(reading(), sweeps=each)
    moving = [one for one in limits.sweeps if one.moves and one.node == 2]
    assert any(one.node == 2 and not one.moves for one in limits.sweeps)
    assert limits.moved_bytes(seen, source=2) == len(moving) * MIB


def test_pages_that_find_a_place_near_hold_back_regions_too() -> None:
    visited = replace(LIMITS, sweeps=sweeps())
    full_s = {0: 2 * REFUSED_S, 1: 0.0}
    assert fallbacks.needed(LIMITS, full_s, ()) == {"promote-2-1"}
    assert fallbacks.needed(visited, full_s, ()) == frozenset()
    assert fallbacks.needed(visited, full_s, {2}) == {"promote-2-1"}


def test_what_comes_from_the_nearest_nodes_says_what_is_above_and_how_fast_it_comes() -> None:
    limits = replace(LIMITS, sweeps=sweeps())
    cool = reading()
    nodes = {at: replace(one, heat_bytes=(at + 1) * MIB) for at, one in cool.nodes.items()}
    seen = replace(cool, nodes=nodes)
    slow = FastNode(2, nodes[2], (), (), seen, limits, 0.0)
    assert slow.heat_above_bytes == (3 + 1) * MIB
    fast = FastNode(1, nodes[1], (), (), seen, limits, 0.0)
    (near,) = (one for one in sweeps() if one.id == "promote-pages-3-1")
    assert fast.sweep_bytes_per_s == near.bytes_per_s
    # A node that is nearest to no other.
    alone = tuple(one for one in sweeps() if one.id != near.id)
    far = FastNode(1, nodes[1], (), (), seen, replace(limits, sweeps=alone), 0.0)
    assert far.sweep_bytes_per_s == near.bytes_per_s
