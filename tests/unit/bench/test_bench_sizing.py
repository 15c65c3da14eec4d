"""The page about sizes: its rows are commands that can be run, with these figures."""

import re

import pytest

from bench.sizing import ROOT, ROWS, Row
from tierd.sim import work_file

PAGE = (ROOT / "docs/sizing.md").read_text(encoding="utf-8")

# Points by which a figure of the page may be off: the tuner changes more often than the page does.
POINTS = 5.0


def printed(row: Row) -> str:
    """Return the row of the page for a machine and its programs."""
    machine = f"{row.fast_gib} + {row.slow_gib} GiB"
    begin = f"| {machine} | `{row.workload}.json` | {row.settings} |"
    (line,) = (line for line in PAGE.splitlines() if line.startswith(begin))
    return line


@pytest.mark.parametrize("row", ROWS, ids=lambda row: " ".join(row.words[2:]))
def test_a_row_is_on_the_page_and_its_files_are_there(row: Row) -> None:
    assert printed(row).count("|") == 8
    path = ROOT / row.words[2]
    assert path.name in work_file.parse(path.name, path.read_text()).about
    assert not row.config or (ROOT / row.config).is_file()


def test_the_page_has_no_other_row() -> None:
    assert len(re.findall(r"^\| \d+ \+ \d+ GiB ", PAGE, re.MULTILINE)) == len(ROWS)


@pytest.mark.thorough
@pytest.mark.rare
@pytest.mark.timeout(900)
@pytest.mark.parametrize("row", ROWS, ids=lambda row: " ".join(row.words[2:]))
def test_the_share_is_as_the_page_says(row: Row) -> None:
    said = float(printed(row).split("|")[4].split("%")[0])
    assert abs(row.run()["served_ratio"] * 100 - said) <= POINTS
