"""From cells to bars, tables and plots, with small cells whose verdicts are easy to see."""

import xml.etree.ElementTree as ET
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench import cells as kept
from bench import plot, provenance, ranking, report
from bench.cells import Cell, Key
from bench.plot import Line, Mark
from bench.ranking import Bar, Scale

SCALE = Scale(cap=20_000_000, fast_bytes=512 << 20)
PAGES = 24_576


def cell(configuration: str, phase: str, arrival_s: float | None, **changed: Any) -> Cell:
    """Return a cell in which a hot set arrives at an even rate, or never; sampled for a minute."""
    times = [float(second) for second in range(61)]
    hits = [0.0 if arrival_s is None else min(1.0, second / arrival_s) for second in times]
    pages = [int(hit * PAGES) for hit in hits]
    series = {"t": times, "hit": hits, "free_kib": [30_000] * 61, "up": pages, "down": pages}
    series |= {"moved": [2 * count for count in pages], "numab": [0] * 61, "reclaimed": [0] * 61}
    seen = {
        "first": phase == "static",
        "series": series,
        "trace": [[0.0, 1, 0, 1, 0], [2.0, 4096, 0, None, 0]],
        "facts": {"start": [[-1.0, 0], [0.0, 0]]},
        "latency": {"requests": 9, "p50_ns": 100, "p99_ns": 900, "max_ns": 1000},
        "stalls": 0,
        "direct": 0,
        "kdamond_cpu_s": 1.0,
        "daemon_cpu_s": 0.1,
        "hot_bytes": PAGES * 4096,
        "fast_bytes": SCALE.fast_bytes,
        "cap": SCALE.cap,
        "release": "7.2.13",
        "made": {"host": "2 x processors", "date": "2026-11-21"},
        **changed,
    }
    return Cell(Key("7.2", configuration, phase, 1), seen)


def loaded(load: str) -> dict[str, str]:
    return {"host": "2 x processors", "date": "2026-11-21", "load": load}


def verdicts(cells: Iterable[Cell], name: str) -> list[tuple[str, bool]]:
    bars: dict[str, Bar] = {bar.name: bar for bar in ranking.bars(ranking.grouped(cells), SCALE)}
    (found,) = (bar for bar in bars if bar.startswith(name))
    return [(verdict.series, verdict.met) for verdict in bars[found].verdicts]


@pytest.mark.parametrize(("own_s", "met"), [(9.9, True), (10.2, False), (None, False)])
def test_static_is_judged_by_the_oracle(own_s: float | None, met: bool) -> None:
    cells = [cell("oracle", "static", 5.0), cell("demand", "static", own_s)]
    assert verdicts(cells, "static: 95 %") == [("7.2", met)]


def test_what_was_not_measured_has_no_verdict() -> None:
    assert verdicts([cell("demand", "static", 5.0)], "static: 95 %") == []
    assert verdicts([], "idle") == []


def test_numa_balancing_is_beaten_in_all_three_or_not_at_all() -> None:
    worse = {"p50_ns": 100, "p99_ns": 1800, "max_ns": 9000, "requests": 9}
    slow = cell("numab2", "static", 50.0, latency=worse)
    more = slow.seen["series"] | {"moved": [count * 2 for count in slow.seen["series"]["moved"]]}
    loser = Cell(slow.key, {**slow.seen, "series": more})
    mine = cell("demand", "static", 8.0)
    assert verdicts([mine, loser], "against") == [("7.2 static", True)]
    assert verdicts([mine, slow], "against") == [("7.2 static", False)], "as many bytes"


def test_a_hot_set_that_never_arrives_misses_what_is_asked_of_its_bytes() -> None:
    cells = [cell("demand", "static", None)]
    assert verdicts(cells, "promoted and demoted") == [("7.2", False)]
    assert verdicts(cells, "static, once") == [("7.2", False)]


def test_one_byte_in_idle_is_too_much() -> None:
    assert verdicts([cell("demand", "idle", None)], "idle") == [("7.2", True)]
    assert verdicts([cell("demand", "idle", 60.0)], "idle") == [("7.2", False)]


@given(st.lists(st.one_of(st.none(), st.floats(0, 1e6)), min_size=1, max_size=9))
def test_never_is_later_than_any_time(values: list[float | None]) -> None:
    middle = ranking.median(values)
    never = sum(value is None for value in values)
    assert (middle is None) == (never > (len(values) - 1) // 2)
    assert (ranking.worst(values) is None) == (never > 0)


@pytest.mark.parametrize(
    ("values", "middles"),
    [((), ()), ((2.0,), (2.0,)), ((3.0, None, 1.0), (3.0,)), ((None, 1.0), (1.0, None)),
     ((4.0, 1.0, 3.0, 2.0), (2.0, 3.0))],
)  # fmt: skip
def test_an_even_number_of_trials_has_two_middles(
    values: tuple[float | None, ...], middles: tuple[float | None, ...]
) -> None:
    assert ranking.middles(values) == middles


def test_three_trials_decide_and_two_do_not() -> None:
    def row(count: int) -> str:
        found = cell("demand", "idle", None)
        trials = [Cell(Key("7.2", "demand", "idle", n), found.seen) for n in range(1, count + 1)]
        return next(line for line in report.page(trials, ()).splitlines() if "| idle:" in line)

    assert row(3).endswith("| 3 | met |")
    assert row(2).endswith("| 2 | met so far: fewer than 3 trials |")


def test_the_page_says_what_is_there_and_what_is_missed() -> None:
    cells = [
        cell("none", "static", None, made=loaded("1.5")),
        cell("demand", "static", 8.0, made=loaded("0.5")),
        cell("demand", "shift-1", None, made=loaded("2.5")),
        cell("oracle", "static", 5.0),
        cell("oracle", "shift-1", 4.0),
        cell("demand", "scan", 0.5, scanned_up=0, kdamond_cpu_s=None),
    ]
    plots = dict(report.pictures(cells))
    text = report.page(cells, plots)
    missed = "| 7.2 | never; the oracle 3.8 s | 1 | missed so far: fewer than 3 trials |"
    assert f"| shift-1: at most 2.5 x the oracle's time {missed}" in text
    assert "| 7.2 | `none` | 1 | never | never | 0.0% |" in text
    assert "| 7.2 | `demand` | 1 | 4.0 s | 7.6 s | 100.0% | 1.00 | 1.00 | 192 |" in text
    assert "not measured yet" in text
    assert "that of kdamonds in 2 of 3 cells" in text
    assert "`none` 1.5 to 1.5, `demand` 0.5 to 2.5 (unknown in 1), `oracle` unknown" in text
    assert "The trials lasted 60 to 60 s." in text
    assert set(plots) == {
        *(f"static-on-7.2-{kind}.svg" for kind in ("hit", "moved", "free", "quota")),
        "scan-on-7.2.svg",
    }
    assert all(f"({name})" in text for name in plots)


def made_on(host: str, commit: str | None = None) -> dict[str, str]:
    return {**loaded("0.5"), "host": host, **({"commit": commit} if commit else {})}


def test_the_page_says_which_trials_are_of_which_host() -> None:
    static = [
        cell("oracle", "static", 5.0, made=made_on("an A", "abc")),
        cell("demand", "static", 6.0, made=made_on("a B", "abc")),
    ]
    alike = cell("demand", "drift", 6.0, made=made_on("a B"))
    text = "\n".join(provenance.hosts([*static, alike]))
    assert "A is a B; B is an A." in text
    assert "| 7.2 | static | `demand` 1 A, `oracle` 1 B |" in text
    assert "drift" not in text
    assert provenance.commits([*static, alike]).endswith(": abc (2), not written down (1).")


def test_cells_of_one_host_need_no_word_about_hosts() -> None:
    assert provenance.hosts([cell("demand", "static", 6.0)]) == []


@pytest.mark.parametrize("below", [".", "default-rate"])
def test_the_page_that_is_kept_is_made_from_the_cells_that_are_kept(below: str) -> None:
    folder = kept.FOLDER.parent / below
    found = kept.load(folder / "data")
    plots = dict(report.pictures(found))
    made = report.page(found, plots, folder)
    assert (folder / "README.md").read_text() == made, "python -m bench report"
    assert {path.name for path in folder.glob("*.svg")} == set(plots)


def test_a_plot_is_well_formed_and_stays_within_its_frame() -> None:
    points = ((0.0, 0.0), (10.0, 50.0), (20.0, None), (30.0, 400.0))
    picture = plot.svg("a < b", "s", "%", [Line("x & y", 1, points)], [Mark(10.0, "shift")], 100.0)
    root = ET.fromstring(picture)
    lines = [e for e in root.iter() if e.tag.endswith("polyline")]
    assert len(lines) == 2, "a gap parts a line"
    for line in lines:
        for point in line.attrib["points"].split():
            x, y = map(float, point.split(","))
            assert plot.LEFT <= x <= plot.WIDTH - plot.RIGHT
            assert plot.TOP <= y <= plot.HEIGHT - plot.BOTTOM
    assert {"a < b", "x & y", "shift"} <= {element.text for element in root.iter()}


@given(st.integers(1, 5000))
def test_many_points_are_thinned_and_the_last_one_stays(count: int) -> None:
    points = tuple((float(index), 1.0) for index in range(count))
    thin = plot.thinned(points)
    assert len(thin) <= plot.POINTS_MAX + 1
    assert thin[0] == points[0]
    assert thin[-1] == points[-1]


def read_store(configuration: str, end: float, moved_pages: int) -> Cell:
    """Return a cell of a store. The fast node serves more for a minute, then stays for another."""
    times = [float(second) for second in range(121)]
    hits = [0.4 + (end - 0.4) * min(second, 60) / 60 for second in times]
    moved = [int(moved_pages * min(second, 60) / 60) for second in times]
    none = [0] * len(times)
    series = {"t": times, "hit": hits, "free_kib": none, "up": none, "down": none}
    series |= {"moved": moved, "numab": none, "reclaimed": none}
    return cell(configuration, "scattered", None, best=0.8, series=series)


@pytest.mark.parametrize(
    ("end", "moved_pages", "met"),
    [(0.79, 50_000, (True, True, True)), (0.70, 50_000, (False, False, False)),
     (0.78, 90_000, (True, True, False))],
)  # fmt: skip
def test_a_store_is_judged_by_numa_balancing(
    end: float, moved_pages: int, met: tuple[bool, bool, bool]
) -> None:
    cells = [read_store("numab2", 0.77, 100_000), read_store("demand", end, moved_pages)]
    names = ("stores: 80 %", "stores, at the end", "stores: per point")
    assert tuple(verdicts(cells, name) for name in names) == tuple(
        [("7.2 scattered", one)] for one in met
    )


def test_a_store_has_a_table_of_its_own() -> None:
    text = report.page([read_store("numab2", 0.77, 100_000)], ())
    row = next(line for line in text.splitlines() if line.startswith("| 7.2 | `numab2`"))
    assert [word.strip() for word in row.split("|")][4:8] == ["80.0%", "38.9 s", "51.9 s", "96.2%"]
