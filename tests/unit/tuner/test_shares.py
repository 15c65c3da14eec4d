"""How groups of cgroups divide the fast memory, who asks for it, and who gives."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fixtures.readings import UP
from tierd.configuration.config import REST, Moves, ShareClass
from tierd.machine.sample import GroupSample
from tierd.plans.groups import Group, Roles
from tierd.plans.plan import Controller
from tierd.tuner import shares
from tierd.tuner.measurement import Limits, Measurement, NodeMeasurement
from tierd.tuner.shares import ASKS_S, REST_S_MIN, Share, Shared, SharesState, divide

CAPACITY = 1000.0
MIB = 1 << 20
FAST, SLOW = 0, 1


def group(name: str, floor: float = 0.0, ceiling: float = CAPACITY, size: int = 5000) -> Share:
    return Share(name, 0, size, floor, ceiling)


@pytest.mark.parametrize(
    ("groups", "wanted"),
    [
        ([(group("a"), 100), (group("b"), 100)], {"a": 500, "b": 500}),
        ([(group("a"), 300), (group("b"), 100)], {"a": 750, "b": 250}),
        ([(group("a", floor=600), 100), (group("b"), 100)], {"a": 800, "b": 200}),
        ([(group("a", ceiling=100), 100), (group("b"), 100)], {"a": 100, "b": 900}),
        # Protections may add up to more than there is.
        ([(group("a", floor=1500), 100), (group("b", floor=500), 100)], {"a": 750, "b": 250}),
        # What a small group cannot use goes to others.
        ([(group("a", floor=600, size=50), 100), (group("b"), 100)], {"a": 50, "b": 950}),
    ],
)
def test_floors_come_first_and_weights_divide_the_rest(
    groups: list[tuple[Share, int]], wanted: dict[str, float]
) -> None:
    assert divide(groups, CAPACITY) == pytest.approx(wanted)


@pytest.mark.parametrize(
    ("moves", "above", "wanted"),
    [
        # It has what it has, and others divide what is left.
        (Moves.none, 700, {"a": 700, "b": 150, "c": 150}),
        (Moves.none, 100, {"a": 100, "b": 450, "c": 450}),
        (Moves.up, 700, {"a": 700, "b": 150, "c": 150}),
        # It may come up to its share.
        (Moves.up, 100, {"a": CAPACITY / 3, "b": CAPACITY / 3, "c": CAPACITY / 3}),
        (Moves.none, 1200, {"a": 1200, "b": 0, "c": 0}),
    ],
)
def test_what_does_not_go_down_is_not_divided(
    moves: Moves, above: int, wanted: dict[str, float]
) -> None:
    fixed = replace(group("a"), fast_bytes=above, moves=moves)
    assert divide([(fixed, 100), (group("b"), 100), (group("c"), 100)], CAPACITY) == pytest.approx(
        wanted
    )


@given(
    st.lists(
        st.tuples(
            st.floats(0, 2000), st.floats(0, 2000), st.integers(0, 3000), st.integers(1, 10_000)
        ),
        min_size=1,
        max_size=17,
    )
)
def test_no_more_is_divided_than_there_is_and_nobody_gets_what_he_cannot_use(
    given_groups: list[tuple[float, float, int, int]],
) -> None:
    groups = [
        (group(str(n), floor=min(a, b), ceiling=max(a, b), size=size), weight)
        for n, (a, b, size, weight) in enumerate(given_groups)
    ]
    divided = divide(groups, CAPACITY)
    assert sum(divided.values()) <= CAPACITY * 1.000001
    for one, _ in groups:
        assert divided[one.name] <= min(one.ceiling_bytes, one.slow_bytes) * 1.000001


# Two groups on a fast node of 1000 MiB: `a` has it all, and as much below.
LIMITS = Limits(
    Controller.demand,
    (),
    4096,
    0,
    charges_failures=False,
    groups=tuple(Group(ShareClass(name, (f"/{name}",)), (), ()) for name in "ab"),
    fast_nodes=(FAST,),
)


def seen(fast: dict[str, int], below: int = 1000, seconds: float = 1.0) -> Measurement:
    """Return a round in which the groups have so many MiB above, of 1000 + `below` in all."""
    used = sum(fast.values()) * MIB
    nodes = {
        FAST: NodeMeasurement(1000 * MIB, 1000 * MIB - used, 0),
        SLOW: NodeMeasurement(4000 * MIB, 2000 * MIB, 0),
    }
    samples = [
        GroupSample(name, {FAST: above * MIB, SLOW: (1000 + below - above) * MIB})
        for name, above in fast.items()
    ]
    whole = {FAST: used, SLOW: sum(one.node_bytes[SLOW] for one in samples)}
    return Measurement(seconds, nodes, {}, groups=(*samples, GroupSample("all", whole)))


def steps(
    state: SharesState, rounds: list[dict[str, int]], *, limits: Limits = LIMITS, room: bool = True
) -> tuple[SharesState, list[Shared]]:
    found = []
    for fast in rounds:
        state, shared = shares.step(state, seen(fast), limits, {FAST: 0}, has_room=room)
        found.append(shared)
    return state, found


def test_a_group_that_does_not_go_down_gives_nothing() -> None:
    groups = (Group(ShareClass("a", ("/a",), 0, 1000, moves=Moves.up), (), ()), LIMITS.groups[1])
    _, (first,) = steps(
        SharesState(), [{"a": 1000, "b": 0}], limits=replace(LIMITS, groups=groups), room=False
    )
    assert first.roles.gives == frozenset()
    assert first.owed_bytes == 0, "there is nothing that it could get"


def test_a_group_below_its_share_asks_and_the_other_gives() -> None:
    _, (first,) = steps(SharesState(), [{"a": 1000, "b": 0}], room=False)
    assert first.roles == Roles(frozenset({"a", REST}), frozenset({"b", REST}), frozenset({"a"}))
    assert first.owed_bytes == pytest.approx(500 * MIB)
    assert first.giving_bytes == 0, "these filters are not in force yet"
    in_force = replace(LIMITS, roles=first.roles)
    _, (now,) = steps(SharesState(), [{"a": 1000, "b": 0}], limits=in_force, room=False)
    assert now.giving_bytes == pytest.approx(500 * MIB)


def test_a_chance_keeps_nothing_from_others_while_there_is_room() -> None:
    """With many groups one of them always has a chance."""
    state, found = steps(SharesState(), [{"a": 1000, "b": 0}] * 3)
    assert all(one.asked for one in found)
    assert {one.roles for one in found} == {Roles()}
    # If its memory comes up, or there is no room for it, others wait until it stops to ask.
    _, (rises,) = steps(state, [{"a": 900, "b": 100}])
    assert rises.roles.gives == {"a"}
    state, (full,) = steps(state, [{"a": 1000, "b": 0}], room=False)
    assert full.roles.gives == {"a"}
    _, (later,) = steps(state, [{"a": 1000, "b": 0}])
    assert later.roles.gives == {"a"}
    _, after = steps(state, [{"a": 1000, "b": 0}] * (round(ASKS_S) + 1))
    assert after[-1].roles == Roles()


def test_nothing_is_pushed_while_a_group_in_force_has_no_more_than_its_share() -> None:
    both = replace(LIMITS, roles=Roles(gives=frozenset({"a", "b"})))
    _, (now,) = steps(SharesState(), [{"a": 1000, "b": 0}], limits=both)
    assert now.giving_bytes == 0


def test_a_chance_in_vain_ends_and_what_is_not_used_is_lent() -> None:
    rounds = round(ASKS_S) + 1
    state, found = steps(SharesState(), [{"a": 1000, "b": 0}] * rounds)
    assert found[rounds - 2].asked
    assert not found[-1].asked
    assert found[-1].roles == Roles()
    # The next chance comes after a rest, and the one after that later.
    state, found = steps(state, [{"a": 1000, "b": 0}] * (round(REST_S_MIN) + 1))
    assert [one.asked for one in found].index(True) == REST_S_MIN - 1
    state, found = steps(state, [{"a": 1000, "b": 0}] * 60)
    assert [one.asked for one in found].count(True) < 2 * ASKS_S


def test_without_room_a_chance_takes_longer_but_ends() -> None:
    _, found = steps(SharesState(), [{"a": 1000, "b": 0}] * 100, room=False)
    asked = [one.asked for one in found]
    assert asked.index(False) > 3 * ASKS_S


def test_a_chance_lasts_longer_while_another_group_takes_the_room() -> None:
    names = "abc"
    limits = replace(
        LIMITS, groups=tuple(Group(ShareClass(name, (f"/{name}",)), (), ()) for name in names)
    )
    # `b` comes up, and `c` after it.
    rising = [{"a": 1000 - up, "b": up, "c": 0} for up in range(0, 320, 16)]
    assert len(rising) > ASKS_S
    _, found = steps(SharesState(), rising, limits=limits)
    (last,) = (one for one in found[-1].shares if one.name == "c")
    assert last.asks
    still = [{"a": 1000, "b": 0, "c": 0}] * len(rising)
    _, found = steps(SharesState(), still, limits=limits)
    assert not any(one.asks for one in found[-1].shares)


def test_a_group_whose_memory_comes_up_asks_until_it_has_its_share() -> None:
    vain = [{"a": 1000, "b": 0}] * (round(ASKS_S) + 1)
    state, _ = steps(SharesState(), vain)
    rising = [{"a": 1000 - up, "b": up} for up in range(20, 520, 20)]
    _, found = steps(state, rising)
    asked = [one.asked for one in found]
    # It has to rise by a sixth of what it lacks first.
    assert asked.index(True) == 3
    assert all(asked[3:-2])
    assert not asked[-1]


def test_a_few_pages_that_come_up_hold_nobody() -> None:
    """As of the page cache, which comes and goes all the time."""
    vain = [{"a": 1000, "b": 0}] * (round(ASKS_S) + 1)
    state, _ = steps(SharesState(), vain)
    trickle = [{"a": 1000 - 3 * up, "b": 3 * up} for up in range(round(REST_S_MIN) - 2)]
    _, found = steps(state, trickle)
    assert not any(one.asked for one in found)


@pytest.mark.parametrize(("rate_mib", "asks"), [(100, True), (800, False)])
def test_a_large_group_rises_no_faster_than_the_rate(rate_mib: int, asks: bool) -> None:
    """It lacks 500 MiB. A sixth of that is 83, and a sixteenth of ten seconds is 63 or 500."""
    up = replace(UP, rate_max_bytes_per_s=float(rate_mib * MIB))
    limited = replace(LIMITS, migrations=(up,))
    state, _ = steps(SharesState(), [{"a": 1000, "b": 0}] * (round(ASKS_S) + 1), limits=limited)
    _, (now,) = steps(state, [{"a": 930, "b": 70}], limits=limited)
    assert now.asked is asks


def test_a_group_whose_last_pages_are_cold_does_not_ask_for_ever() -> None:
    """It lacks 3 % of its share, and a page of it comes up now and then."""
    # 1 MiB in eight seconds: all that is lacking would be there in two minutes.
    creeping = [{"a": 515 - up // 8, "b": 485 + up // 8} for up in range(32)]
    _, found = steps(SharesState(), creeping)
    assert found[0].asked
    assert not found[-1].asked


def test_a_group_does_not_ask_for_long_after_the_last_of_its_memory_came_up() -> None:
    rises = [{"a": 900 - up, "b": up} for up in range(0, 400, 40)]
    state, found = steps(SharesState(), rises)
    assert found[-1].asked
    _, found = steps(state, [rises[-1]] * (round(ASKS_S) + 2))
    assert not found[-1].asked


def test_a_group_whose_cold_memory_went_down_does_not_ask_at_once() -> None:
    state, _ = steps(SharesState(), [{"a": 500, "b": 500}] * 3)
    _, found = steps(state, [{"a": 600, "b": 400}] * 3)
    assert not any(one.asked for one in found)


def test_a_group_above_its_ceiling_gives_although_nobody_asks() -> None:
    capped = replace(
        LIMITS,
        groups=(Group(ShareClass("a", ("/a",), ceiling_bp=3000), (), ()), LIMITS.groups[1]),
        roles=Roles(gives=frozenset({"a"})),
    )
    _, (now,) = steps(SharesState(), [{"a": 500, "b": 500}], limits=capped)
    assert now.roles.gives == {"a"}
    assert "a" in now.roles.waits
    assert now.giving_bytes == pytest.approx(200 * MIB)


def test_protection_and_limits_of_cgroups_give_shares() -> None:
    now = seen({"a": 500, "b": 500})
    a, b, whole = now.groups
    now = replace(
        now, groups=(replace(a, low_bytes=2000 * MIB), replace(b, high_bytes=1500 * MIB), whole)
    )
    found = {one.name: one for one in shares.shares(now, LIMITS, {FAST: 0})}
    # The machine has five times as much memory as the fast node.
    assert found["a"].floor_bytes == pytest.approx(400 * MIB)
    assert found["b"].ceiling_bytes == pytest.approx(300 * MIB)
