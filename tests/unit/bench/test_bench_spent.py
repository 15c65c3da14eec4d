"""Processor time of processes that start and end, and of those that cannot be read."""

from bench import cells
from bench.configuration import BY_NAME, CONFIGURATIONS
from bench.spent import Spent


def test_what_was_spent_before_the_phase_does_not_count() -> None:
    spent = Spent({7: 100.0, 8: 3.0}).seen({7: 100.5, 8: 3.25})
    assert spent.total_s(expected=True) == 0.75


def test_one_that_began_in_the_phase_counts_from_its_start() -> None:
    assert Spent({7: 1.0}).seen({7: 1.0, 9: 2.5}).total_s(expected=True) == 2.5


def test_one_that_is_gone_counts_as_far_as_it_was_seen() -> None:
    spent = Spent({7: 50.0}).seen({7: 51.0}).seen({9: 0.5})
    assert spent.total_s(expected=True) == 1.5


def test_what_could_not_be_read_is_absent_and_not_nothing() -> None:
    assert Spent({}).seen({}).total_s(expected=True) is None


def test_where_none_should_be_there_is_nothing_to_read() -> None:
    assert Spent({}).total_s(expected=False) == 0.0


def test_idle_is_nothing_and_was_read() -> None:
    assert Spent({7: 4.0}).seen({7: 4.0}).total_s(expected=True) == 0.0


def test_who_works_by_damon_has_kdamonds() -> None:
    names = {one.name for one in CONFIGURATIONS if one.has_kdamonds}
    assert names == {"damo", "hmsdk", "kernel", "emulated", "demand", "ally"}


def test_no_published_cell_says_that_kdamonds_took_no_time() -> None:
    """They ran for at least half a minute, so zero would be a failed reading."""
    published = [
        cell for cell in cells.load(cells.FOLDER) if BY_NAME[cell.key.configuration].has_kdamonds
    ]
    assert published
    assert not [cell.key for cell in published if cell.seen["kdamond_cpu_s"] == 0]
