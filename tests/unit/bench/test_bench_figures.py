"""The figures of a cell, from series so small that the right figures are easy to see."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench import figures
from bench.figures import PAGE

HOT_PAGES = 1000


def seen(**changed: Any) -> dict[str, Any]:
    """Return a phase in which a hot set arrives within ten seconds, and stays for thirty."""
    times = [float(second) for second in range(41)]
    arrived = [min(second / 10, 1.0) for second in times]
    pages = [int(share * HOT_PAGES) for share in arrived]
    series = {
        "t": times,
        "hit": arrived,
        "free_kib": [2000 - int(second) for second in times],
        "moved": [2 * count for count in pages],
        "up": pages,
        "down": pages,
        "numab": [0] * len(times),
        "reclaimed": [0] * len(times),
    }
    cell = {
        "first": True,
        "series": series,
        "facts": {"start": [[-1.0, 0], [0.0, 0]]},
        "hot_bytes": HOT_PAGES * PAGE,
        "latency": {"requests": 5, "p50_ns": 1000, "p99_ns": 2000, "max_ns": 3000},
        "stalls": 0,
        "direct": 0,
        "kdamond_cpu_s": 4.0,
        "daemon_cpu_s": 0.4,
        **changed,
    }
    cell["series"] = {**series, **changed.get("series", {})}
    return cell


def test_a_clean_exchange() -> None:
    found = figures.figures(seen())
    assert found.t50_s == pytest.approx(5.0)
    assert found.t95_s == pytest.approx(9.5)
    assert found.first_up_s == 1.0
    assert found.residency_end == 1.0
    assert found.promoted_bytes == found.demoted_bytes == HOT_PAGES * PAGE
    assert found.promoted_per_hot_byte == found.excess == 1.0
    assert found.steady_bytes_per_min == 0.0
    assert found.futile == 0.0
    assert found.first_second_bytes == pytest.approx(200 * PAGE)
    assert found.free_min_kib == 1960
    assert found.kdamond_cpu == pytest.approx(0.1)


def test_processor_time_that_could_not_be_read_has_no_share() -> None:
    found = figures.figures(seen(kdamond_cpu_s=None, daemon_cpu_s=0.0))
    assert (found.kdamond_cpu, found.daemon_cpu) == (None, 0.0)


def test_what_never_arrives_has_no_time_and_no_excess() -> None:
    found = figures.figures(seen(series={"hit": [0.0] * 41, "up": [0] * 41, "down": [0] * 41}))
    assert (found.t50_s, found.t95_s, found.excess, found.steady_bytes_per_min) == (None,) * 4
    assert found.first_up_s is None
    assert found.residency_mean == 0.0
    assert found.futile == 1.0, "2000 pages were moved, and none came or went"
    assert found.slowdown_modelled > 1.22


def test_pages_of_other_programs_did_not_move_in_vain() -> None:
    moved = [float(3 * min(second, 10) * 100) for second in range(41)]
    assert figures.figures(seen(series={"moved": moved})).futile == pytest.approx(1 / 3)
    found = figures.figures(seen(series={"moved": moved}, others_pages=700))
    assert found.futile == pytest.approx(0.1)


def test_what_compaction_moves_is_not_what_a_scheme_moved_in_vain() -> None:
    moved = [float(3 * min(second, 10) * 100) for second in range(41)]
    said = [[0.0, 50, 7 * PAGE, None, None], [9.0, 50, 1007 * PAGE, 60, 5 * PAGE],
            [40.0, 50, 1107 * PAGE, 60, 1405 * PAGE]]  # fmt: skip
    found = figures.figures(seen(series={"moved": moved}, trace=said))
    assert found.futile == pytest.approx(1 - 2000 / 2500)
    # Pages that reclaim demoted were not moved by a scheme.
    reclaimed = {"moved": moved, "reclaimed": [500] * 41}
    found = figures.figures(seen(series=reclaimed, trace=said))
    assert found.futile == pytest.approx(1 - 1500 / 2500)


def test_nobody_follows_the_pages_of_a_burst() -> None:
    bursts = [{"p99_ns": 9}]
    facts = {"start": [[-1.0, 0], [0.0, 0]], "unloaded": bursts}
    moved = [float(3 * min(second, 10) * 100) for second in range(41)]
    found = figures.figures(seen(series={"moved": moved}, bursts=bursts, facts=facts))
    assert found.futile is None


def test_schemes_that_began_anew_do_not_say_what_they_moved_before() -> None:
    moved = [float(3 * min(second, 10) * 100) for second in range(41)]
    said = [[0.0, 50, 9 * PAGE, None, None], [9.0, 50, 3 * PAGE, None, None]]
    assert figures.claimed_bytes(said) is None
    found = figures.figures(seen(series={"moved": moved}, trace=said))
    assert found.futile == pytest.approx(1 / 3)


def test_what_moves_after_all_has_landed_is_steady() -> None:
    moved = [0.0] * 20 + [float(10 * (second - 19)) for second in range(20, 41)]
    found = figures.figures(seen(series={"moved": moved}))
    assert found.steady_bytes_per_min == pytest.approx(600 * PAGE, rel=0.05)


def test_only_a_phase_that_began_something_has_a_first_second() -> None:
    assert figures.figures(seen(first=False)).first_second_bytes is None
    started = {"start": [[-2.0, 0], [-1.0, 0], [0.0, 5000]]}
    assert figures.figures(seen(facts=started)).first_second_bytes == 5000 * PAGE


def test_a_set_that_is_there_from_the_beginning_asks_for_no_exchange() -> None:
    found = figures.figures(seen(series={"hit": [0.99] * 41}))
    assert found.t95_s == 0.0
    assert found.excess is None
    assert found.promoted_per_hot_byte is None


@given(st.lists(st.floats(0, 1), min_size=2, max_size=50), st.floats(0.01, 1))
def test_it_is_reached_between_the_first_sample_that_has_it_and_the_one_before(
    values: list[float], share: float
) -> None:
    times = [float(index) for index in range(len(values))]
    when = figures.reached(times, values, share)
    first = next((index for index, value in enumerate(values) if value >= share), None)
    if first is None:
        assert when is None
    else:
        assert when is not None
        assert max(0, first - 1) <= when <= first


def test_a_burst_is_compared_with_bursts_into_room() -> None:
    roomy = [{"p99_ns": value} for value in (90, 100, 900)]
    full = [{"p99_ns": value} for value in (50, 300, 301)]
    found = figures.figures(seen(bursts=full, facts={"start": [[0.0, 0]], "unloaded": roomy}))
    assert found.fault_p99_ratio == 3.0


def test_what_was_scanned_is_two_nodes() -> None:
    found = figures.figures(seen(scanned_up=20, fast_bytes=1000 * PAGE))
    assert found.scanned_share == pytest.approx(0.01)


def store(served: list[float], moved: list[int] | None = None) -> dict[str, Any]:
    """Return the phase of a store, with a share per second. Its best placement is 0.8."""
    times = [float(second) for second in range(len(served))]
    none = [0] * len(served)
    series = {"t": times, "hit": served, "free_kib": none, "up": none, "down": none}
    series |= {"moved": moved or none, "numab": none, "reclaimed": none}
    return seen(best=0.8, series=series)


def test_a_store_is_measured_against_its_best_placement() -> None:
    served = [0.4 + 0.008 * min(second, 45) for second in range(101)]
    moved = [min(second, 45) * 100 for second in range(101)]
    found = figures.figures(store(served, moved)).store
    assert found is not None
    assert found.t80_s == pytest.approx(30.0)
    assert found.t90_s == pytest.approx(40.0)
    assert found.end == pytest.approx(0.95)
    assert found.moved_bytes_per_point == pytest.approx(4500 * PAGE / 36)
    assert found.worst_drop < 0
    assert found.settled_bytes_per_min == 0.0


def test_a_store_that_gained_nothing_has_no_bytes_per_point() -> None:
    found = figures.figures(store([0.5] * 101, list(range(101)))).store
    assert found is not None
    assert found.moved_bytes_per_point is None
    assert (found.t80_s, found.t90_s) == (None, None)
    assert found.settled_bytes_per_min == pytest.approx(60 * PAGE)


def test_the_worst_of_a_store_is_a_mean_over_ten_seconds() -> None:
    dip = [0.5] * 40 + [0.1] + [0.5] * 60
    lasting = [0.5] * 40 + [0.3] * 10 + [0.5] * 51
    short, long = (figures.figures(store(served)).store for served in (dip, lasting))
    assert short is not None
    assert long is not None
    assert short.worst_drop == pytest.approx(0.04)
    assert long.worst_drop == pytest.approx(0.19)


def test_only_a_store_has_figures_of_a_store() -> None:
    assert figures.figures(seen()).store is None
