"""One round of all sweeps: what holds them, whose turn it is, and when a page counts as idle."""

from collections.abc import Mapping
from dataclasses import replace
from math import inf

import pytest

from tests.fixtures.tiers import machine
from tierd import policy
from tierd.configuration.config import Config
from tierd.machine.features import Capabilities, Feature
from tierd.plans.plan import Sweep, Visit
from tierd.topology import Topology
from tierd.tuner import pages
from tierd.tuner.budget import Budget
from tierd.tuner.climb import IDLE_PER_LAG, Climb, Stage
from tierd.tuner.climb_heat import ClimbHeat
from tierd.tuner.descent import IDLE_S_FIRST, IDLE_S_LONG, Descent, Piece
from tierd.tuner.gate import CLOSED, OPEN, Room, Seen
from tierd.tuner.pages import DOWN_FIRST, YIELDS_S_MAX, PagesState, Tick

MIB = 1 << 20
TOTAL = 1024 * MIB
FLOOR = 50 * MIB
KNOWN = Capabilities(frozenset(Feature))
TWO = machine((0,), (1,))
THREE = machine((0,), (1,), (2,))

UP, DOWN, CLEAR, AGE = "promote-pages-1-0", "demote-pages-0-1", "clear-pages-1", "age-pages-0"


def sweeps_of(topology: Topology) -> tuple[Sweep, ...]:
    return policy.plan(topology, KNOWN, Config()).sweeps


def tick(
    topology: Topology = TWO,
    *,
    free_bytes: int = FLOOR + 100 * MIB,
    over: Mapping[str, float] | None = None,
    allowed: Mapping[str, float] | None = None,
    tried: Mapping[str, int] | None = None,
    visited: Mapping[int, Mapping[Visit, int]] | None = None,
    can_tell: Mapping[int, bool] | None = None,
    stopped: str = "",
    cpu_s: float = 0.0,
) -> Tick:
    """Return a tick of half a second. By default there is room, and nothing was visited."""
    sweeps = sweeps_of(topology)
    nodes = {one.node for one in sweeps}
    takes_hot = (Visit.push, Visit.relieve)
    seen = {
        one.node: Seen(
            seconds=0.5,
            window_s=0.1,
            round_bytes=one.round_bytes,
            bytes_per_s=one.bytes_per_s,
            visited_bytes=(visited or {}).get(one.node, {}),
            can_tell=(can_tell or {}).get(one.node, True),
        )
        for one in sweeps
        if one.visit not in takes_hot
    }
    room = Room(0, TOTAL, free_bytes, FLOOR, headroom_bytes=FLOOR + 5 * MIB, stopped=stopped)
    return Tick(
        sweeps=sweeps,
        rooms={node: replace(room, node=node) for node in nodes},
        seen=seen,
        over_bytes={one.id: (over or {}).get(one.id, 0.0) for one in sweeps if one.moves},
        allowed_bytes={one.id: (allowed or {}).get(one.id, inf) for one in sweeps if one.moves},
        idle_s_min=IDLE_S_FIRST,
        cost_bp=200,
        cpu_s=dict.fromkeys(nodes, cpu_s),
        tried_bytes={one.id: (tried or {}).get(one.id, 0) for one in sweeps},
    )


def test_with_room_a_round_begins() -> None:
    state, decided = pages.decide(PagesState(), tick())
    assert state.climbs[1].stage is Stage.clears
    assert decided.gates[CLEAR] == OPEN
    assert decided.busy == {UP}
    assert "visits pages" in decided.reasons[UP]


@pytest.mark.parametrize(("gated", "begins"), [(False, True), (True, False)])
def test_a_sweep_that_a_commit_opens_needs_more_room_to_begin(gated: bool, begins: bool) -> None:
    now = tick(free_bytes=FLOOR + 5 * MIB)
    now = replace(now, sweeps=tuple(replace(one, gated=gated) for one in now.sweeps))
    state, _ = pages.decide(PagesState(), now)
    assert (state.climbs[1].stage is not Stage.rests) == begins


@pytest.mark.parametrize("headroom", [0, 5 * MIB])
@pytest.mark.parametrize("huge_room", [0, 6 * MIB, 40 * MIB])
def test_there_is_always_something_to_do(headroom: int, huge_room: int) -> None:
    """If room is wanted and demotion makes none, promotion may use what is there."""
    for free_bytes in range(FLOOR, FLOOR + 100 * MIB, MIB // 2):
        now = tick(free_bytes=free_bytes)
        room = replace(
            now.rooms[0],
            floor_bytes=FLOOR + huge_room,
            headroom_bytes=FLOOR + headroom,
        )
        now = replace(now, rooms=dict.fromkeys(now.rooms, room))
        state, _ = pages.decide(PagesState(), now)
        promotes = state.climbs[1].stage is not Stage.rests
        assert promotes or state.descents[0].is_open


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"stopped": "tasks wait for memory"}, "tasks wait"),
        ({"over": {UP: 5.0}}, "more than its rate"),
        ({"can_tell": {1: False}}, "most pages are huge"),
        ({"free_bytes": FLOOR}, "no room on node 0"),
    ],
)
def test_what_holds_a_climb_is_said(change: dict[str, object], says: str) -> None:
    state, decided = pages.decide(PagesState(), tick(**change))  # type: ignore[arg-type]
    assert state.climbs[1].stage is Stage.rests
    assert says in decided.reasons[UP]
    assert UP not in decided.busy


def test_if_pages_above_are_huge_regions_make_the_room_and_tell_what_is_idle() -> None:
    now = tick(can_tell={0: False})
    for share, grows in ((0.5, True), (0.05, False)):
        rooms = {0: replace(now.rooms[0], cold_share=share)}
        before = PagesState(descents={0: Descent(learned_s=20.0, idle_s=20.0)})
        state, decided = pages.decide(before, replace(now, rooms=rooms))
        assert state.climbs[1].stage is Stage.clears
        assert not decided.gates[DOWN].is_open
        assert (state.descents[0].learned_s > 20.0) == grows
        assert (state.descents[0].learned_s < 20.0) == (not grows)


def test_room_for_climbs_is_asked_for_only_while_one_wants_it() -> None:
    begins = PagesState().climb(1)
    small, fills = Climb(expects_bytes=4 * MIB), Climb(fills=True)
    assert pages.soon_bytes([begins], 16 * MIB) == 16 * MIB
    assert pages.soon_bytes([], 16 * MIB) == 0
    assert pages.soon_bytes([small], 16 * MIB) == 4 * MIB
    assert pages.soon_bytes([fills], 16 * MIB) == 0
    assert pages.soon_bytes([fills, small, begins], 16 * MIB) == 16 * MIB


def test_a_round_goes_to_the_next_node_that_has_room() -> None:
    """What is hot on one socket has to stay there, and the other one may have cold memory."""
    sockets = machine((0, 1), (2,))
    here = tick(sockets)
    full = replace(here, rooms={**here.rooms, 0: replace(here.rooms[0], free_bytes=FLOOR)})
    for now, target in ((here, 0), (full, 1)):
        state, decided = pages.decide(PagesState(), now)
        assert f"promote-pages-2-{target}" in decided.busy
        assert state.climbs[2].rounds == target
    # A round that is under way keeps its target: the sweep to the other one is elsewhere.
    begun, _ = pages.decide(PagesState(), here)
    assert pages.decide(begun, full)[0].climbs[2].rounds == 0
    none = replace(here, rooms=dict.fromkeys(here.rooms, full.rooms[0]))
    assert pages.decide(PagesState(), none)[0].climbs[2].stage is Stage.rests


def test_a_round_that_uses_the_room_that_is_left_goes_to_the_node_that_has_it() -> None:
    """Had it another target, the sweep to the former one would open later, and nobody close it."""
    now = tick(machine((0, 1), (2,)))
    slow = replace(now.seen[2], heat=100.0)
    now = replace(now, seen={**now.seen, 2: slow})
    last = Climb(
        rounds=1,
        stage=Stage.drains,
        lag_s=0.1,
        heat=ClimbHeat(100.0, least=100.0),
        cleared_bytes=slow.round_bytes,
    )
    state, decided = pages.decide(PagesState(climbs={2: last}), now)
    assert state.climbs[2].fills
    assert state.climbs[2].rounds == 1
    assert "promote-pages-2-1" in decided.busy
    assert decided.gates["promote-pages-2-0"] == CLOSED
    ended = replace(state.climbs[2], stage=Stage.drains, cleared_bytes=slow.round_bytes)
    assert pages.decide(PagesState(climbs={2: ended}), now)[0].climbs[2].rounds == 2


def test_the_sweeps_to_other_nodes_are_closed_in_each_tick() -> None:
    now = tick(machine((0, 1), (2,)))
    for rounds in (0, 1):
        climb = Climb(rounds=rounds, stage=Stage.takes, lag_s=0.1)
        _, decided = pages.decide(PagesState(climbs={2: climb}), now)
        assert decided.gates[f"promote-pages-2-{1 - rounds}"] == CLOSED
        assert decided.gates.get(f"promote-pages-2-{rounds}", OPEN) != CLOSED


def test_what_comes_up_does_not_go_down_again_at_once() -> None:
    """The lag follows the idle time: what is idle for long enough depends on the heat."""
    slow = replace(Climb(), lag_s=5.0)
    little = tick(free_bytes=FLOOR + 15 * MIB)
    state, _ = pages.decide(PagesState(climbs={1: slow}), little)
    assert state.climbs[1].lag_s == state.descents[0].idle_s / IDLE_PER_LAG
    # While nothing has to go down, the lag is as long as it is, and the idle time too.
    roomy, _ = pages.decide(PagesState(climbs={1: replace(slow, lag_s=1.0)}), tick())
    assert roomy.climbs[1].lag_s == 1.0
    assert roomy.descents[0].idle_s == state.descents[0].idle_s


def test_from_round_to_round_pages_must_be_idle_for_longer() -> None:
    """The lag cannot be shorter than the first one, or than a window, so the idle time moves."""
    begun = PagesState(climbs={1: Climb(rounds_since_rise=6)})
    here = tick()
    for lag_s, windows in ((0.0, 1), (0.4, 4)):
        seen = {node: replace(one, first_lag_s=lag_s) for node, one in here.seen.items()}
        state, _ = pages.decide(begun, replace(here, seen=seen))
        least_s = windows * here.seen[1].window_s
        wanted_s = state.climbs[1].idle_per_lag * least_s
        assert state.descents[0].learned_s == pytest.approx(wanted_s)
        assert wanted_s > IDLE_PER_LAG * least_s


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"over": {DOWN: 5.0}}, "more than its rate"),
        ({"can_tell": {0: False}}, "most pages are huge"),
    ],
)
def test_what_holds_a_descent_is_said(change: dict[str, object], says: str) -> None:
    now = tick(free_bytes=FLOOR, **change)  # type: ignore[arg-type]
    assert says in pages.decide(PagesState(), now)[1].reasons[DOWN]


def test_a_descent_says_that_its_processor_time_is_used_up() -> None:
    used_up = PagesState(budgets={0: Budget(-1.0), 1: Budget(-1.0)})
    _, decided = pages.decide(used_up, tick(free_bytes=FLOOR))
    assert "`cost`" in decided.reasons[DOWN]


def test_a_debt_is_paid_back_at_the_rate() -> None:
    state, _ = pages.decide(PagesState(), tick(over={UP: 100.0}))
    state, _ = pages.decide(state, tick(over={UP: -60.0}))
    assert state.debts_bytes[UP] == 40
    assert state.climbs[1].stage is Stage.rests
    state, _ = pages.decide(state, tick(over={UP: -60.0}))
    assert state.climbs[1].stage is Stage.clears


def test_a_sweep_is_closed_when_its_rate_is_used_up() -> None:
    """A sweep is quicker than the rate limit, because it visits more than it moves."""
    taking = Climb(stage=Stage.takes, lag_s=0.1, yield_share=0.5)
    state = PagesState(climbs={1: taking})
    _, decided = pages.decide(state, tick(tried={CLEAR: 20 * MIB}))
    assert decided.gates[UP] == OPEN
    speed = next(one.bytes_per_s for one in sweeps_of(TWO) if one.id == UP)
    limited = tick(tried={CLEAR: 20 * MIB}, allowed={UP: 0.5 * speed * 0.2})
    _, decided = pages.decide(state, limited)
    # Half of what it visits moves.
    assert decided.gates[CLEAR].then_open is False
    assert decided.gates[CLEAR].after_s == pytest.approx(0.2)


def test_what_groups_lack_may_go_down_beyond_what_is_wanted() -> None:
    now = tick(free_bytes=FLOOR + 3 * MIB, tried={AGE: 100 * MIB})
    few = Descent(
        is_open=True,
        follows=True,
        clock_s=100.0,
        cleared=(Piece(100 * MIB, 98.0),),
        yield_share=0.25,
        yield_age_s=5.0,
        yield_most=0.01,
    )
    after_s = []
    for owed_bytes in (0, MIB):
        room = replace(now.rooms[0], owed_bytes=owed_bytes)
        gated = replace(now.seen[0], gated=True)
        owes = replace(now, rooms={**now.rooms, 0: room}, seen={**now.seen, 0: gated})
        rests = {1: Climb(stage_ends_s=100.0)}
        gate = pages.decide(PagesState(climbs=rests, descents={0: few}), owes)[1].gates[DOWN]
        assert not gate.then_open
        after_s.append(gate.after_s)
    # 2 MiB of the headroom are wanted.
    assert after_s[1] == pytest.approx(1.5 * after_s[0])


def test_no_room_is_made_faster_than_the_rate_allows() -> None:
    cleared = PagesState(
        descents={0: Descent(idle_s=1.0, clock_s=9.0, cleared=(Piece(50 * MIB, 0.0),))}
    )
    _, decided = pages.decide(cleared, tick(free_bytes=FLOOR, tried={AGE: 50 * MIB}))
    longer_s = decided.gates[DOWN].after_s or 0.5
    speed = next(one.bytes_per_s for one in sweeps_of(TWO) if one.id == DOWN)
    limited = tick(free_bytes=FLOOR, tried={AGE: 50 * MIB}, allowed={DOWN: 0.05 * speed})
    _, decided = pages.decide(cleared, limited)
    assert decided.gates[DOWN].is_open
    assert decided.gates[DOWN].after_s == pytest.approx(0.05)
    assert longer_s > 0.05


def test_no_round_begins_when_the_processor_time_is_used_up() -> None:
    used_up = PagesState(budgets={0: Budget(-1.0), 1: Budget(-1.0)})
    state, decided = pages.decide(used_up, tick(free_bytes=FLOOR + 12 * MIB))
    assert "`cost`" in decided.reasons[UP]
    assert decided.gates[DOWN] == CLOSED
    under_way = replace(used_up, climbs={1: Climb(stage=Stage.takes, lag_s=0.1)})
    state, _ = pages.decide(under_way, tick())
    assert state.climbs[1].stage is not Stage.rests


def test_what_was_cleared_is_visited_though_the_processor_time_is_used_up() -> None:
    """The pause after that takes minutes, and all of it would look young then."""
    taking = Climb(stage=Stage.takes, lag_s=2.0, yield_share=0.05)
    used_up = PagesState(budgets={0: Budget(-1.0), 1: Budget(-1.0)}, climbs={1: taking})
    state, decided = pages.decide(used_up, tick(tried={CLEAR: 100 * MIB}))
    assert state.climbs[1].stage is Stage.drains
    assert decided.gates[UP].is_open
    assert decided.gates[CLEAR] == CLOSED
    # If tasks wait for memory too, nothing comes up.
    waits = tick(tried={CLEAR: 100 * MIB}, stopped="tasks wait for memory")
    state, decided = pages.decide(used_up, waits)
    assert state.climbs[1].stage is Stage.holds
    assert decided.gates[UP] == CLOSED


def test_room_is_made_for_a_climb_and_not_for_one_that_rests() -> None:
    little = FLOOR + 12 * MIB
    _, decided = pages.decide(PagesState(), tick(free_bytes=little))
    assert "visited 1.0 s later" in decided.reasons[DOWN]
    resting = Climb(stage_ends_s=60.0, heat=ClimbHeat(1.0, calm=1.0))
    _, decided = pages.decide(PagesState(climbs={1: resting}), tick(free_bytes=little))
    assert decided.gates[DOWN] == CLOSED


def test_the_idle_time_grows_after_a_round_in_vain() -> None:
    for rest_s, grows in ((0.0, False), (2.0, True)):
        state = PagesState(climbs={1: Climb(rest_s=rest_s, stage_ends_s=60.0)})
        state, _ = pages.decide(state, tick(free_bytes=FLOOR))
        assert (state.descents[0].idle_s > IDLE_S_FIRST) is grows


def test_a_sweep_that_is_closed_late_is_not_taken_for_one_that_was_overtaken() -> None:
    now = tick(free_bytes=FLOOR)
    whole = now.seen[0].round_bytes
    for share, tracked in ((0.7, True), (0.9, False)):
        late = replace(now, tried_bytes={**now.tried_bytes, AGE: int(share * whole)})
        pieces = pages.decide(PagesState(), late)[0].descents[0].cleared
        assert bool(pieces) is tracked


def test_the_idle_time_is_some_windows_at_least() -> None:
    state = PagesState(descents={0: Descent(learned_s=0.001)})
    now = replace(tick(free_bytes=FLOOR), idle_s_min=0.0)
    assert pages.decide(state, now)[0].descents[0].idle_s == pytest.approx(IDLE_PER_LAG * 0.1)


@pytest.mark.parametrize(("node", "waits"), [(0, False), (1, True)])
def test_pages_are_idle_for_longer_where_rounds_of_promotion_take_long(
    node: int, waits: bool
) -> None:
    """A round of the fast node itself says nothing about what came up."""
    now = tick()
    now = replace(now, seen={**now.seen, node: replace(now.seen[node], is_long=True)})
    state, _ = pages.decide(PagesState(), now)
    assert (state.descents[0].idle_s >= IDLE_S_LONG) is waits


def test_a_program_that_allocates_does_not_wait_for_the_idle_time() -> None:
    state = PagesState(descents={0: Descent(learned_s=100.0)})
    now = tick(free_bytes=FLOOR)
    short = replace(now, rooms={0: replace(now.rooms[0], is_short=True)})
    assert pages.decide(state, now)[0].descents[0].idle_s == 100.0
    found = pages.decide(state, short)[0].descents[0]
    assert (found.idle_s, found.learned_s) == (IDLE_S_FIRST, 100.0)


def test_the_idle_time_begins_anew_when_heat_rises() -> None:
    calm = Climb(stage_ends_s=60.0, heat=ClimbHeat(0.0, least=0.0, calm=0.0))
    state = PagesState(climbs={1: calm}, descents={0: Descent(learned_s=100.0)})
    now = tick()
    now = replace(now, seen={**now.seen, 1: replace(now.seen[1], heat=1000.0)})
    state, _ = pages.decide(state, now)
    assert not state.climbs[1].calm
    assert state.descents[0].idle_s == IDLE_S_FIRST


def test_a_node_in_the_middle_sends_nothing_down_while_its_pages_are_cleared() -> None:
    """All of them would look idle a short time later."""
    climbs = {1: Climb(stage=Stage.takes, lag_s=0.1), 2: Climb(stage_ends_s=60.0)}
    short = tick(THREE, free_bytes=FLOOR)
    state = PagesState(
        climbs=climbs,
        descents={1: Descent(is_open=True, visited_bytes=5, cleared=(Piece(MIB, 0.0),))},
    )
    state, decided = pages.decide(state, short)
    assert decided.gates["age-pages-1"] == decided.gates["demote-pages-1-2"] == CLOSED
    assert (state.descents[1].visited_bytes, state.descents[1].cleared) == (0, ())
    rests = PagesState(climbs={1: Climb(stage_ends_s=60.0), 2: Climb(stage_ends_s=60.0)})
    assert pages.decide(rests, short)[1].gates["age-pages-1"].is_open


def test_a_node_in_the_middle_makes_room_while_its_own_pages_wait_to_come_up() -> None:
    """They wait for room on the fastest node, and its cold pages wait for room on this one."""
    waits = Climb(stage=Stage.waits, stage_ends_s=60.0, took_s=5.0)
    state = PagesState(
        climbs={1: waits, 2: Climb(stage_ends_s=60.0)},
        descents={1: Descent(is_open=True, clock_s=9.0, cleared=(Piece(50 * MIB, 0.0),))},
    )
    full = tick(THREE, free_bytes=FLOOR, tried={"age-pages-1": 50 * MIB})
    state, decided = pages.decide(state, full)
    assert state.climbs[1].stage is Stage.waits
    assert decided.gates["demote-pages-1-2"].is_open


@pytest.mark.parametrize("idle_s", [1.0, 5.0, 100.0])
def test_idle_pages_of_a_node_in_the_middle_go_down_before_its_next_round(idle_s: float) -> None:
    """Else rounds that bring little up follow one another, and what waits below finds no room."""
    now = tick(THREE)
    rounds_s = now.seen[1].round_s
    longest_s = min(YIELDS_S_MAX, idle_s + rounds_s)

    def begins(rested_s: float, *, lacks: bool = True, rounds: int = 1) -> bool:
        climb = Climb(stage_s=rested_s, rounds=rounds)
        below = Descent(lacks=lacks, idle_s=idle_s, learned_s=idle_s)
        state = PagesState(climbs={1: climb}, descents={1: below})
        after, told = pages.decide(state, now)
        assert (DOWN_FIRST in told.reasons["promote-pages-1-0"]) is (
            after.climbs[1].stage is Stage.rests
        )
        return after.climbs[1].stage is not Stage.rests

    assert not begins(0.0)
    assert not begins(longest_s - 0.1)
    assert begins(longest_s)
    assert begins(0.0, lacks=False)
    # The hottest pages come up first.
    assert begins(0.0, rounds=0)


def test_the_slowest_node_has_nothing_to_send_down_first() -> None:
    state = PagesState(climbs={2: Climb(rounds=1)}, descents={1: Descent(lacks=True)})
    assert pages.decide(state, tick(THREE))[0].climbs[2].stage is not Stage.rests


def test_what_joined_a_node_is_what_came_up_from_slower_ones() -> None:
    now = tick(THREE)
    moved = {1: {Visit.promote: 3 * MIB, Visit.demote: MIB}, 2: {Visit.promote: 5 * MIB}}
    seen = {node: replace(one, moved_bytes=moved.get(node, {})) for node, one in now.seen.items()}
    climbs = {node: Climb(stage=Stage.takes, lag_s=0.1) for node in (1, 2)}
    state, _ = pages.decide(PagesState(climbs=climbs), replace(now, seen=seen))
    assert state.climbs[1].joined_bytes == 5 * MIB
    assert state.climbs[2].joined_bytes == 0
