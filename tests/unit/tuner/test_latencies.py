"""A fast node is late when it answers no sooner than the slower one, and has answered sooner."""

from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from random import Random

import pytest

from tests.fixtures.readings import DOWN, UP
from tierd.machine.sample import Latency
from tierd.tuner import latencies
from tierd.tuner.latencies import (
    AGAIN,
    APART,
    KNOWN_READINGS,
    LEARN_READINGS,
    LEARN_S,
    LOOK_S,
    QUIET_S,
    READINGS,
    Answers,
)

SECONDS = 1.0


def after(pairs: Iterable[tuple[float, float]], *, comes: bool = False) -> Answers:
    """Return what is known after these readings of the fast and the slow node."""
    known: dict[int, Answers] = {}
    for fast_ns, slow_ns in pairs:
        read = (Latency(0, 0, fast_ns), Latency(0, 1, slow_ns))
        known = latencies.learn(known, read, {0: comes}, SECONDS)
    return known[0]


APART_ONCE = [(100.0, 100.0 * APART)] * KNOWN_READINGS


def test_a_node_is_late_when_it_answers_no_sooner() -> None:
    assert not after(APART_ONCE).is_late
    assert not after([*APART_ONCE, *[(149.0, 150.0)] * READINGS]).is_late
    assert after([*APART_ONCE, *[(150.0, 150.0)] * READINGS]).is_late


@pytest.mark.parametrize("late", range(READINGS + 1))
def test_most_of_the_latest_readings_decide(late: int) -> None:
    readings = [*APART_ONCE, *[(300.0, 200.0)] * late, *[(100.0, 150.0)] * (READINGS - late)]
    # It may have been late for a moment in between; what counts is the end.
    assert after(readings).is_late is (late > READINGS // 2)


def test_nodes_that_were_never_apart_are_never_late() -> None:
    """As in most virtual machines, whose nodes are all the memory of one host."""
    assert not after([(100.0, 99.0 * APART), (130.0, 90.0)] * 20).is_late


def test_a_difference_counts_when_each_of_many_readings_in_a_row_shows_it() -> None:
    shows, shows_not = (100.0, 100.0 * APART), (100.0, 99.0 * APART)
    late = [(200.0, 150.0)] * READINGS
    assert not after([*[shows] * (KNOWN_READINGS - 1), shows_not, shows, *late]).is_late
    assert after([shows_not, *[shows] * KNOWN_READINGS, *late]).is_late


def test_nodes_that_are_alike_are_not_late_on_a_busy_host() -> None:
    """One reading in three of each node is spoiled, and takes three times as long."""
    known = 0
    for seed in range(20):
        random = Random(seed)
        spoiled = ([100.0 * random.choice((1, 1, 3)) for _ in range(2)] for _ in range(1000))
        known += after((fast, slow) for fast, slow in spoiled).idle_ns is not None
    assert known <= 1


def test_it_goes_on_when_the_node_answers_clearly_sooner() -> None:
    late = [*APART_ONCE, *[(200.0, 200.0)] * READINGS]
    assert after([*late, *[(200.0 * AGAIN, 200.0)] * READINGS]).is_late
    assert not after([*late, *[(199.0 * AGAIN, 200.0)] * READINGS]).is_late


def test_what_went_down_for_it_comes_up_only_when_there_is_far_less_to_do() -> None:
    known = {0: after([*APART_ONCE, *[(200.0, 200.0)] * READINGS])}
    known = latencies.learn(known, (), {0: False}, SECONDS, relieved={0})
    assert known[0].is_relieved
    for fast_ns, is_late in ((200.0 / APART + 1, True), (200.0 / APART - 1, False)):
        for _ in range(READINGS):
            read = (Latency(0, 0, fast_ns), Latency(0, 1, 200.0))
            known = latencies.learn(known, read, {0: False}, SECONDS)
        assert known[0].is_late is is_late
    # The next time is another matter.
    assert not latencies.learn(known, (), {0: False}, SECONDS)[0].is_relieved


def test_a_node_that_is_not_late_is_not_relieved() -> None:
    known = latencies.learn({0: after(APART_ONCE)}, (), {0: False}, SECONDS, relieved={0})
    assert not known[0].is_relieved


def test_the_excess_is_what_it_takes_longer_than_the_slower_node() -> None:
    assert after([*APART_ONCE, *[(300.0, 210.0)] * READINGS]).excess == pytest.approx(0.3)
    assert after([*APART_ONCE, *[(149.0, 150.0)] * READINGS]).excess == 0
    # It is still late then, but takes less.
    late = [*APART_ONCE, *[(200.0, 200.0)] * READINGS]
    known = after([*late, *[(195.0, 200.0)] * READINGS])
    assert known.is_late
    assert known.excess == 0
    # Chains in a cache are no excess.
    cached = after([*late, *[(20.0, 10.0)] * READINGS])
    assert cached.excess == 0


def test_a_look_now_and_then_notices_programs_that_read_more() -> None:
    known = {0: after(APART_ONCE)}
    read = (Latency(0, 0, 100.0), Latency(0, 1, 200.0))
    seconds = []
    for second in range(300):
        matters = known[0].matters
        seconds += [second] if matters else []
        known = latencies.learn(known, read if matters else (), {0: False}, SECONDS)
    looks = [one for one in seconds if one - 1 not in seconds]
    assert [later - one for one, later in pairwise(looks)] == [LOOK_S] * (len(looks) - 1)
    assert len(seconds) == READINGS * len(looks) >= READINGS * 4


def test_at_the_start_it_is_read_until_the_difference_is_known() -> None:
    alike = [(100.0, 100.0)] * (LEARN_READINGS - 1)
    assert after(alike).matters
    assert not after([*alike, (100.0, 100.0)]).matters
    known, seconds = {0: Answers()}, 0
    while known[0].matters:
        known = latencies.learn(known, (), {0: False}, SECONDS)
        seconds += 1
    assert seconds == LEARN_S


def test_a_look_ends_where_nothing_can_be_read() -> None:
    known, seconds = {0: after(APART_ONCE)}, 0
    for _ in range(int(LOOK_S)):
        seconds += known[0].matters
        known = latencies.learn(known, (), {0: False}, SECONDS)
    assert seconds <= LOOK_S / 2


def test_what_is_read_from_a_cache_is_not_late() -> None:
    """Then both nodes answer alike, and sooner than the slower one ever does."""
    cached = [(20.0, 20.0)] * READINGS
    assert not after([*APART_ONCE, *cached]).is_late
    assert not after([*APART_ONCE, *[(200.0, 200.0)] * READINGS, *cached]).is_late


def test_the_least_that_the_fast_node_took_is_its_latency_without_load() -> None:
    loaded = [(200.0, 900.0)] * KNOWN_READINGS
    assert after(loaded).idle_ns == 200.0
    assert after([*loaded, *APART_ONCE]).idle_ns == 100.0
    assert after([*APART_ONCE, *loaded]).idle_ns == 100.0


def test_a_machine_that_was_loaded_from_the_start_is_judged_too() -> None:
    """The slower node has most of the load at first, and answers later than it would idle."""
    loaded = [(8.5, 41.0)] * KNOWN_READINGS
    assert not after([*loaded, *[(17.5, 21.0)] * READINGS]).is_late
    assert after([*loaded, *[(23.0, 15.5)] * READINGS]).is_late


def test_of_several_slower_nodes_the_quickest_counts() -> None:
    read = (Latency(0, 0, 100.0), Latency(0, 2, 400.0), Latency(0, 3, 200.0))
    assert latencies.learn({}, read, {0: False}, SECONDS)[0].readings_ns == ((100.0, 200.0),)


def test_half_a_reading_is_none() -> None:
    """The other chain was moved, or its node is full."""
    read = (Latency(0, 0, 100.0), Latency(4, 5, 200.0))
    assert latencies.learn({}, read, {}, SECONDS) == {}


def test_it_matters_while_memory_comes_up_and_some_seconds_after() -> None:
    assert after(APART_ONCE, comes=True).matters
    quiet = {0: after(APART_ONCE, comes=True)}
    for _ in range(int(QUIET_S)):
        assert quiet[0].matters
        quiet = latencies.learn(quiet, (), {0: False}, SECONDS)
    assert not quiet[0].matters
    # What is late is read until it is not.
    assert replace(quiet[0], is_late=True).matters


def test_it_is_asked_of_the_nodes_that_memory_comes_from() -> None:
    both, known = (UP, DOWN), {0: after(APART_ONCE, comes=True)}
    assert latencies.asked(both, known) == {0: (1,)}
    quiet = replace(after(APART_ONCE), looked=-READINGS)
    assert latencies.asked(both, {0: quiet}) == {}
    # At the start nobody knows whether the nodes differ.
    assert latencies.asked(both, {}) == {0: (1,)}
    assert latencies.asked((DOWN,), known) == {}
    other = replace(UP, id="promote-2-0", source_node=2)
    assert latencies.asked((other, *both), known) == {0: (1, 2)}
