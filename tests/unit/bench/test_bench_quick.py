"""What `make bench-quick` computes from its trials: windows, shares, charts and a sentence."""

from pathlib import Path
from typing import Any

import pytest

from bench import cells, comparison, driven, program, quick, throughput
from bench.cells import Cell, Key
from bench.errors import BenchError
from tierd.views.plots import ASCII

FAST_BYTES = 512 << 20
BEFORE, AFTER = 25, 100


def seen(before: int = 1000, after: int = 1000, **other: Any) -> dict[str, Any]:
    """Return a trial of 25 s without and 100 s with the configuration."""
    rates = [before] * BEFORE + [after] * AFTER
    ends = [float(number) for number in range(1, len(rates) + 1)]
    return {
        "served": {
            "at_s": ends,
            "seconds": [1.0] * len(ends),
            "operations": rates,
            "p50_us": [300.0] * len(ends),
            "p99_us": [900.0] * len(ends),
        },
        # Node 0 serves three of four.
        "misses": {"0": [30 * i for i in range(126)], "1": [10 * i for i in range(126)]},
        "samples": {"at_s": [0.0, 25.0, 125.0], "moved": [5, 105, 1129]},
        "began_s": 25.0,
        "fill_s": 60.0,
        "fast": 0,
        "fast_bytes": FAST_BYTES,
        "pages": {"first": {"0": 1000, "1": 9000}, "last": {"0": 1512, "1": 8488}},
        "kdamond_cpu_s": None,
        "daemon_cpu_s": 0.0,
        "keys": 9999,
        "cap": 20_000_000,
        "release": "7.2.0",
        "slowness": {"stretch": 10},
        "made": {"date": "2026-11-23", "load": "1.5", "host": "2 x Processor", "commit": "abc"},
        **other,
    }


def cell(name: str, number: int, **other: Any) -> Cell:
    return Cell(Key("7.2", name, "redis", number), seen(**other))


def test_a_driver_is_read() -> None:
    second = "second 4000000000 5000500000 812 250400 1900000"
    told = driven.parse(f"filled 1000000000 3500000000\n{second}\n")
    assert told == {
        "fill_s": 2.5,
        "served": {
            "at_s": [5.0],
            "seconds": [1.0005],
            "operations": [812],
            "p50_us": [250.4],
            "p99_us": [1900.0],
        },
    }


@pytest.mark.parametrize("text", ["", "keys: connect\n", "filled 1 2\nerror\n"])
def test_what_no_driver_says_is_an_error(text: str) -> None:
    with pytest.raises(BenchError, match="not what a driver says"):
        driven.parse(text)


def test_a_window_has_the_seconds_that_lie_within_it() -> None:
    found = throughput.trial("tierd", 1, seen(before=1000, after=800)).windows
    assert (found["before"].rate, found["first minute"].rate) == (1000, 800)
    assert [found[name].seconds for name in throughput.WINDOWS] == [20.0, 60.0, 30.0]
    assert (found["settled"].p50_us, found["settled"].p99_us) == (300.0, 900.0)


def test_a_window_without_seconds_has_no_figures() -> None:
    empty = throughput.window(seen(), 500.0, 600.0)
    assert (empty.rate, empty.p99_us, empty.fast_share) == (None, None, None)


def test_the_share_of_the_fast_node_is_of_what_missed_the_caches() -> None:
    assert throughput.window(seen(), 0.0, 50.0).fast_share == 0.75


def test_a_mark_that_is_missing_leaves_no_share() -> None:
    short = {"0": [0, 30], "1": [0, 10]}
    assert throughput.window(seen(misses=short), 0.0, 50.0).fast_share is None


def test_what_was_moved_is_told_apart_by_where_the_program_lies() -> None:
    found = throughput.trial("tierd", 1, seen())
    assert found.moved_bytes == 1024 * 4096
    assert (found.up_bytes, found.down_bytes) == (768 * 4096, 256 * 4096)


def test_trials_are_compared_with_their_own_pair() -> None:
    base = [throughput.trial("none", n, seen(after=1000 * n)) for n in (1, 2)]
    ours = [throughput.trial("tierd", n, seen(after=1100 * n)) for n in (2, 1, 3)]
    assert throughput.relative(ours, base, "settled") == pytest.approx([1.1, 1.1])


def test_a_gap_in_the_seconds_is_a_gap_in_the_chart() -> None:
    told = seen()
    for column in told["served"].values():
        del column[25:30]
    assert dict(throughput.grouped(told, 5.0))[0.0] is None
    assert dict(throughput.grouped(told, 5.0))[5.0] == 1000


@pytest.mark.parametrize(
    ("before", "settled", "verdict"),
    [
        ([1.0, 1.0], [1.05, 1.2], "faster in all of 2 pairs"),
        ([1.0, 1.0], [0.9, 0.95], "slower in all of 2 pairs"),
        ([1.0, 1.0], [0.9, 1.2], "No difference that 2 pairs can show"),
        ([1.1], [1.05], "No difference that 1 pair can show: two trials of the same differ by 10%"),
        ([], [1.01], "No difference"),
    ],
)
def test_a_verdict_is_one_that_all_pairs_agree_on(
    before: list[float], settled: list[float], verdict: str
) -> None:
    assert verdict in comparison.judgement("tierd", before, settled)


def test_the_end_of_a_run_says_all(tmp_path: Path) -> None:
    found = [cell("tierd", 1, after=900), cell("none", 1), cell("none", 2)]
    compared = comparison.compare("redis", found)
    shown = comparison.text(compared, ASCII)
    assert list(compared.trials) == ["none", "tierd"]
    assert "9999 keys in 39 MiB, 0.1 times the fast node" in shown
    assert "commit abc" in shown
    assert (
        "0.90 x (0.90 to 0.90) settled. Once settled, tierd was slower in all of 1 pair." in shown
    )
    # The kdamonds' time could not be read, so it is not shown as 0.
    assert [line.split() for line in shown.splitlines() if line.startswith("kdamonds")] == [
        ["kdamonds,", "processor", "s", "-", "-"]
    ]
    assert comparison.svg(compared).count("<polyline") == 2
    quick.show(found, tmp_path)
    assert (tmp_path / "redis.svg").read_text().startswith("<svg")


def test_without_its_pair_nothing_is_said() -> None:
    found = [cell("tierd", 1), cell("none", 2)]
    assert "nothing can be said" in comparison.text(comparison.compare("redis", found), ASCII)


def test_the_first_one_changes_from_trial_to_trial() -> None:
    assert quick.order(("none", "tierd"), 1) == ("none", "tierd")
    assert quick.order(("none", "tierd"), 2) == ("tierd", "none")


def test_cells_of_programs_are_kept_like_others(tmp_path: Path) -> None:
    cells.save(tmp_path, cell("tierd", 1))
    assert cells.load(tmp_path) == (cell("tierd", 1),)


def test_keys_fill_so_many_times_the_fast_node() -> None:
    redis = program.BY_NAME["redis"]
    keys = redis.keys(FAST_BYTES)
    assert keys * redis.key_bytes == pytest.approx(1.3 * FAST_BYTES, rel=0.001)
    assert redis.driven("/job/keys", keys, 125) == (
        *("/job/keys", "redis", program.SOCKET, str(keys), "4000", "0.99", "4", "125"),
    )
