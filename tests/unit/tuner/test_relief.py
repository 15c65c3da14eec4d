"""How much goes down from a node that answers later than slower memory, and when."""

from dataclasses import replace
from typing import Any

import pytest

from tierd.plans.plan import Visit
from tierd.tuner import relief
from tierd.tuner.gate import CLOSED, OPEN, Gate, Room, Seen
from tierd.tuner.latencies import READINGS, Answers
from tierd.tuner.relief import NEW_READINGS, PART_FIRST, PART_MAX, Relief

MIB = 1 << 20
# It takes a quarter longer than the slower node.
LATE = Answers(readings_ns=((400.0, 300.0),) * READINGS, idle_ns=100.0, is_late=True, read=READINGS)
ROOM = Room(
    node=0,
    total_bytes=1000 * MIB,
    free_bytes=20 * MIB,
    floor_bytes=20 * MIB,
    headroom_bytes=25 * MIB,
    answers=LATE,
    stopped="node 0 is late",
)
SEEN = Seen(seconds=0.5, window_s=0.1, round_bytes=1000 * MIB, bytes_per_s=100 * MIB)
PART_BYTES = 50 * MIB
IN_USE = 0.8
# Next a quarter of the excess goes down.
BEGUN = Relief(part=0.25, yield_share=IN_USE)


def step(before: Relief, room: Room = ROOM, *, moved: int = 0) -> tuple[Relief, Gate]:
    visited = round(moved / IN_USE)
    seen = replace(SEEN, moved_bytes={Visit.relieve: moved}, visited_bytes={Visit.relieve: visited})
    return relief.step(before, seen, room, held=False)


def read(count: int, **changes: Any) -> Room:
    """Return the room when there were so many readings."""
    return replace(ROOM, answers=replace(LATE, read=count, **changes))


def test_a_part_of_what_is_in_use_goes_down_by_how_late_the_node_is() -> None:
    now, gate = step(BEGUN)
    assert now.left_bytes == pytest.approx(PART_BYTES)
    assert gate.is_open
    # 50 MiB at 100 MiB/s last for as long as the tick.
    assert gate == OPEN
    now, gate = step(now, moved=30 * MIB)
    assert now.left_bytes == pytest.approx(PART_BYTES - 30 * MIB)
    assert gate.after_s == pytest.approx(0.2)
    now, gate = step(now, moved=10 * MIB)
    # A fifth is left, and that is not waited for.
    assert (now.left_bytes, gate) == (0.0, CLOSED)


def test_the_next_part_waits_for_readings_that_saw_this_one() -> None:
    now, _ = step(BEGUN)
    now, gate = step(now, read(READINGS + 3), moved=60 * MIB)
    assert gate == CLOSED
    opened = []
    for count in range(READINGS + 3, READINGS + 10):
        now, gate = step(now, read(count))
        opened.append(gate.is_open)
    assert opened.index(True) == NEW_READINGS


def test_it_ends_when_the_node_answers_as_soon_as_the_slower_one() -> None:
    now, _ = step(BEGUN)
    alike = read(READINGS + 1, readings_ns=((299.0, 300.0),) * READINGS)
    now, gate = step(now, alike)
    assert (now.left_bytes, gate) == (0.0, CLOSED)


@pytest.mark.parametrize("changes", [{"is_late": False}, {"idle_ns": None}], ids=str)
def test_nothing_goes_down_if_it_is_not_known_to_be_late(changes: dict[str, Any]) -> None:
    now, gate = step(Relief(), read(READINGS, **changes))
    assert (now.left_bytes, gate) == (0.0, CLOSED)


def test_each_part_is_twice_the_one_before() -> None:
    now, parts, count = Relief(yield_share=IN_USE), [], READINGS
    for _ in range(5):
        now, _ = step(now, read(count))
        parts.append(now.left_bytes / (0.25 * 800 * MIB))
        now, _ = step(now, read(count), moved=round(now.left_bytes) + 1)
        count += NEW_READINGS
    assert parts == pytest.approx([PART_FIRST, 1 / 8, 1 / 4, PART_MAX, PART_MAX])
    # After a moment without excess it goes on as before, and begins anew when it is over.
    alike = read(count, readings_ns=((299.0, 300.0),) * READINGS)
    assert step(now, alike)[0].part == PART_MAX
    assert step(now, read(count, is_late=False))[0].part == PART_FIRST


def test_it_waits_if_nothing_may_go_down() -> None:
    now, gate = relief.step(BEGUN, SEEN, ROOM, held=True)
    assert gate == CLOSED
    assert now.left_bytes == pytest.approx(PART_BYTES)
    assert relief.reason(now, ROOM, gate).startswith("waits: 50 MiB should go down because node 0")


def test_it_takes_no_more_than_the_slower_node_has_room_for() -> None:
    _, gate = step(BEGUN, replace(ROOM, fits_bytes=10 * MIB))
    assert gate.after_s == pytest.approx(0.1)


def test_where_what_it_passes_is_charged_it_lasts_as_long_as_its_yield_says() -> None:
    before = Relief(part=0.25, yield_share=0.4)
    _, gate = relief.step(before, SEEN, ROOM, held=False, passes_cheaply=False)
    # 25 MiB, and 40 MiB/s move.
    assert gate == OPEN
    _, gate = relief.step(before, SEEN, ROOM, held=False)
    assert gate.after_s == pytest.approx(0.25)


def test_the_next_target_has_its_turn_after_a_round() -> None:
    visited = replace(SEEN, visited_bytes={Visit.relieve: 600 * MIB})
    now, rounds = Relief(), []
    for _ in range(4):
        now, _ = relief.step(now, visited, ROOM, held=False)
        rounds.append(now.rounds)
    assert rounds == [0, 1, 1, 2]


def test_the_words_say_what_it_does() -> None:
    now, gate = step(BEGUN)
    assert relief.reason(now, ROOM, gate) == ("visits pages: 50 MiB go down because node 0 is late")
    now, gate = step(now, moved=60 * MIB)
    assert relief.reason(now, ROOM, gate).startswith("waits for 3 new readings")
    rests = replace(ROOM, answers=Answers())
    assert relief.reason(Relief(), rests, CLOSED) == (
        "closed: node 0 is not known to answer later than slower memory"
    )
