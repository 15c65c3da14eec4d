"""What `make bench-quick` computes from its trials: windows, shares, charts and a sentence."""

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench import cells, comparison, driven, machines, placement, program, quick, throughput, turns
from bench.cells import Cell, Key
from bench.errors import BenchError
from tests.vm.slow import Mark
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
        # The emulator waits for a tenth of a second in each second.
        "waited_ns": [i * 100_000_000 for i in range(126)],
        "samples": {"at_s": [25.0, 125.0], "moved": [105, 1129]},
        "before_end_s": 25.0,
        "began_s": 25.0,
        "in_force_s": 25.0,
        "before": BEFORE,
        "after": AFTER,
        "fill_s": 60.0,
        "fast": 0,
        "fast_bytes": FAST_BYTES,
        "pages": {
            "first": {"0": 1000, "1": 9000},
            "last": {"0": 1384, "1": 8616},
            "up": 512,
            "down": 128,
        },
        "kdamond_cpu_s": None,
        "daemon_cpu_s": 0.0,
        "items": 9999,
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
    assert driven.data_pid("filled 1 2 77\n") == 77
    assert driven.data_pid("filled 1 2\nsecond") is None


@pytest.mark.parametrize("text", ["", "keys: connect\n", "filled 1 2\nerror\n"])
def test_what_no_driver_says_is_an_error(text: str) -> None:
    with pytest.raises(BenchError, match="not what a driver says"):
        driven.parse(text)


def test_a_window_has_the_seconds_that_lie_within_it() -> None:
    found = throughput.trial("tierd", 1, seen(before=1000, after=800)).windows
    assert (found["before"].rate, found["first half minute"].rate) == (1000, 800)
    assert [found[name].seconds for name in throughput.WINDOWS] == [20.0, 30.0, 15.0]
    assert (found["settled"].p50_us, found["settled"].p99_us) == (300.0, 900.0)


def test_a_window_without_seconds_has_no_figures() -> None:
    empty = throughput.window(seen(), 500.0, 600.0)
    assert (empty.rate, empty.p99_us, empty.fast_share) == (None, None, None)


def test_the_share_of_the_fast_node_is_of_what_missed_the_caches() -> None:
    assert throughput.window(seen(), 0.0, 50.0).fast_share == 0.75


def test_a_mark_that_is_missing_leaves_no_share() -> None:
    short = {"0": [0, 30], "1": [0, 10]}
    assert throughput.window(seen(misses=short), 0.0, 50.0).fast_share is None


def test_what_moved_is_compared_with_what_came_up_and_stayed() -> None:
    found = throughput.trial("tierd", 1, seen())
    assert found.moved_bytes == 1024 * 4096
    assert (found.up_bytes, found.down_bytes) == (512 * 4096, 128 * 4096)
    assert found.moved_per_stayed == 2.0
    none = {"first": {"0": 1000}, "last": {"0": 1000}, "up": 3, "down": 3}
    assert throughput.trial("none", 1, seen(pages=none)).moved_per_stayed is None


def test_how_long_the_emulator_waited_for_the_host() -> None:
    assert throughput.trial("tierd", 1, seen()).waited == pytest.approx(0.1)
    assert throughput.trial("tierd", 1, seen(waited_ns=[1, 2])).waited is None


def test_lost_seconds_are_weighted_by_what_the_slow_node_served() -> None:
    # Node 1 serves a quarter, for 100 s.
    assert throughput.trial("tierd", 1, seen()).lost_s == pytest.approx(25.0)
    short = {"0": [0, 30], "1": [0, 10]}
    assert throughput.trial("tierd", 1, seen(misses=short)).lost_s is None


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
    assert "9999 items in 39 MiB, 0.1 times the fast node" in shown
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


def test_each_one_is_the_first_in_its_turn() -> None:
    names = ("none", "numab2", "tierd")
    assert [quick.order(names, trial)[0] for trial in (1, 2, 3, 4)] == [*names, "none"]
    assert all(sorted(quick.order(names, trial)) == sorted(names) for trial in (1, 2, 3))


def told(*turns: tuple[str, float, float]) -> dict[str, Any]:
    """Return what a boot tells that served ten seconds, with these turns."""
    ends = [100.0 + number for number in range(1, 11)]
    served = {"at_s": ends, "seconds": [1.0] * 10, "operations": [*range(1, 11)]}
    listed = [{"name": name, "turn_s": begin, "end_s": end} for name, begin, end in turns]
    return {"keys": 9, "served": served, "turns": listed}


def test_a_boot_is_split_into_its_turns() -> None:
    marks = [Mark(number, (10 * number, number)) for number in range(11)]
    boot = told(("none", 99.9, 103.0), ("tierd", 105.5, 109.2))
    found = dict(turns.split(boot, marks, (0, 2)))
    assert found["none"]["served"]["operations"] == [1, 2, 3]
    assert found["none"]["misses"] == {"0": [0, 10, 20, 30], "2": [0, 1, 2, 3]}
    # Second 6 began before the turn.
    assert found["tierd"]["served"]["operations"] == [7, 8, 9]
    assert found["tierd"]["misses"]["0"] == [60, 70, 80, 90]
    assert (found["tierd"]["keys"], found["tierd"]["position"]) == (9, 1)
    assert "turns" not in found["tierd"]


def test_a_mark_that_was_not_written_is_missing_in_its_turn_only() -> None:
    marks = [Mark(number, (10 * number, number)) for number in range(9)]
    boot = told(("none", 100.0, 103.0), ("tierd", 105.0, 110.0))
    found = dict(turns.split({**boot, "fast": 0}, marks, (0, 2)))
    assert throughput.fast_shares(found["none"]) == [(10, 11)] * 3
    assert throughput.fast_shares(found["tierd"]) is None


def test_turns_of_the_same_contender_are_trials(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[tuple[str, ...]] = []

    def serve(_kernel: str, names: tuple[str, ...], *_rest: Any) -> list[tuple[str, Any]]:
        asked.append(names)
        return [(name, seen()) for name in names]

    monkeypatch.setattr(machines, "serve", serve)
    arguments = argparse.Namespace(
        kernel="7.2", program="redis", contenders=("none", "tierd"), times=2, rounds=2, first=1,
        minutes=1.0, before=1, after=1, cap=1, seconds_max=0,
    )  # fmt: skip
    found = quick.run(arguments, tmp_path)
    assert asked == [("none", "tierd", "tierd", "none")] * 2
    assert sorted(cell.key.trial for cell in found if cell.key.configuration == "none") == [
        1, 2, 3, 4,
    ]  # fmt: skip


def test_cells_of_programs_are_kept_like_others(tmp_path: Path) -> None:
    cells.save(tmp_path, cell("tierd", 1))
    assert cells.load(tmp_path) == (cell("tierd", 1),)


def test_keys_fill_so_many_times_the_fast_node() -> None:
    redis = program.BY_NAME["redis"]
    keys = redis.items(FAST_BYTES)
    assert keys * redis.item_bytes == pytest.approx(1.3 * FAST_BYTES, rel=0.001)
    assert redis.driven(keys, 125) == (
        *("/job/keys", "redis", program.SOCKET, str(keys), "4000", "0.99", "4", "1", "125"),
    )


def test_many_clients_differ_in_the_requests_under_way_only() -> None:
    plain, many = program.BY_NAME["redis"], program.BY_NAME["redis-16"]
    assert many.driven(9, 125) == (
        *("/job/keys", "redis", program.SOCKET, "9", "4000", "0.99", "4", "16", "125"),
    )
    assert replace(many, name=plain.name, title=plain.title, driver=plain.driver) == plain


MAPS = """\
55d0a0000000-55d0a0003000 r-xp 00000000 fe:00 123 /usr/bin/redis-server
55d0a0003000-55d0a0004000 rw-p 00003000 fe:00 123 /usr/bin/redis-server
55d0b0000000-55d0b0010000 rw-p 00000000 00:00 0 [heap]
7f0000000000-7f0000200000 rw-p 00000000 00:00 0
7f0000400000-7f0000500000 r--s 00000000 fe:00 77 /var/tmp/a database (deleted)
7ffd0a000000-7ffd0a004000 r--p 00000000 00:00 0 [vvar]
"""


def test_a_program_keeps_its_data_in_memory_without_a_file_or_shared() -> None:
    assert placement.parse_ranges(MAPS) == (
        (0x55D0B0000000, 0x55D0B0010000),
        (0x7F0000000000, 0x7F0000200000),
        (0x7F0000400000, 0x7F0000500000),
    )


def test_pages_that_came_are_told_from_pages_that_are_new() -> None:
    # 254 is the last byte of -ENOENT.
    before = placement.Placement({0x10000: bytes([0, 1, 1, 254]), 0x90000: bytes([1])})
    after = placement.Placement({0x10000: bytes([1, 0, 1, 0, 1]), 0xA0000: bytes([0])})
    assert (before.on(1), before.went(after, 1, 0), before.went(after, 0, 1)) == (3, 1, 1)


def test_pages_that_are_astray_are_found() -> None:
    wanted = placement.Placement({0x10000: bytes([0, 1, 1, 0])})
    now = placement.Placement({0x10000: bytes([1, 0, 1, 254, 1]), 0x90000: bytes([1])})
    assert list(now.astray(wanted, 0)) == [0x10000]
    assert list(now.astray(wanted, 1)) == [0x11000]
    assert list(wanted.astray(wanted, 0)) == []
