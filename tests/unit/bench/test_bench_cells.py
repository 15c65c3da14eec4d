"""What a benchmark saves, and so does not measure again."""

from pathlib import Path
from typing import Any

import pytest

from bench import cells, configuration, phase
from bench.cells import Key
from bench.probe import parse_numa_maps, parse_vmstat

TOLD: dict[str, Any] = {
    "phases": {"static": {"series": {"t": [0.0, 0.5], "hit": [0.0, 1.0]}, "stalls": 0}},
    "cap": 20_000_000,
}


def test_a_cell_is_read_as_it_was_saved(tmp_path: Path) -> None:
    (cell,) = cells.split(TOLD, "7.2", "demand", 2, {"host": "here"})
    cells.save(tmp_path, cell)
    assert cells.load(tmp_path) == (cell,)
    assert cell.key == Key("7.2", "demand", "static", 2)
    assert cell.seen["first"] is True
    assert (cell.seen["cap"], cell.seen["made"]) == (20_000_000, {"host": "here"})


def test_only_what_is_not_there_is_missing(tmp_path: Path) -> None:
    static, shift = phase.BY_NAME["static"], phase.BY_NAME["shift"]
    assert cells.missing(tmp_path, "7.2", "demand", (static,), 1)
    for cell in cells.split(TOLD, "7.2", "demand", 1, {}):
        cells.save(tmp_path, cell)
    assert not cells.missing(tmp_path, "7.2", "demand", (static,), 1)
    assert cells.missing(tmp_path, "7.2", "demand", (static,), 2)
    assert cells.missing(tmp_path, "7.2", "demand", (static, shift), 1)


def test_the_longest_gap_is_of_all_phases_but_not_between_them() -> None:
    phases = {"a": {"series": {"t": [0.0, 0.5, 3.0]}}, "b": {"series": {"t": [9.0, 9.5]}}}
    assert cells.longest_gap_s({"phases": phases}) == 2.5


@pytest.mark.parametrize(
    ("asked", "boots"),
    [
        ("static", ["static"]),
        ("static,shift", ["static+shift"]),
        ("idle", ["static+shift+idle"]),
        ("static,idle,burst", ["static+shift+idle", "burst"]),
        ("thp,drift", ["drift", "thp"]),
    ],
)
def test_chained_phases_share_a_boot_with_all_that_lead_to_them(
    asked: str, boots: list[str]
) -> None:
    made = phase.timelines(tuple(asked.split(",")))
    assert ["+".join(one.name for one in timeline) for timeline in made] == boots


def test_each_repeat_of_a_shift_is_a_cell() -> None:
    assert phase.trials(phase.BY_NAME["shift"]) == ("shift-1", "shift-2", "shift-3")
    assert phase.trials(phase.BY_NAME["static"]) == ("static",)


def test_a_configuration_runs_where_its_kernel_can_and_the_phase_asks_it_something() -> None:
    by_name = configuration.BY_NAME
    assert not configuration.runs(by_name["damo"], "6.12", "static")
    assert configuration.runs(by_name["damo"], "6.16", "static")
    assert configuration.runs(by_name["demand"], "6.12", "restart")
    assert not configuration.runs(by_name["oracle"], "7.3", "big-zipf")


def test_counters_of_a_kind_are_added_up() -> None:
    text = "pgmigrate_success 9\npgdemote_kswapd 5\npgdemote_direct 2\nallocstall_normal 1\n"
    found = parse_vmstat(
        text + "allocstall_movable 3\npgpromote_success 4\npgpromote_candidate 8\n"
    )
    assert (found.moved_pages, found.reclaimed_pages, found.direct_pages) == (9, 7, 2)
    assert (found.stalls, found.numab_pages) == (4, 4)


def test_pages_are_of_a_program_or_of_the_file_that_it_maps() -> None:
    found = """\
55d0 default file=/usr/bin/python3.13 mapped=600 N0=500 N1=100 kernelpagesize_kB=4
55d1 default file=/usr/bin/python3.13 anon=20 dirty=20 N0=20 kernelpagesize_kB=4
55d2 default heap anon=3000 dirty=3000 N0=1000 N1=2000 kernelpagesize_kB=4
7f00 default anon=70 dirty=70 N1=70 N10=5 kernelpagesize_kB=4
7ffd default stack anon=9 dirty=9 N0=9 kernelpagesize_kB=4
"""
    assert parse_numa_maps(found, "42", (0, 1, 10, 2)) == {
        ("/usr/bin/python3.13", 0): 520,
        ("/usr/bin/python3.13", 1): 100,
        ("/usr/bin/python3.13", 10): 0,
        ("/usr/bin/python3.13", 2): 0,
        ("42", 0): 1009,
        ("42", 1): 2070,
        ("42", 10): 5,
        ("42", 2): 0,
    }
