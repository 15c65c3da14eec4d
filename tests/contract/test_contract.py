"""Every behaviour of the table on every kernel, simulated and real."""

from collections.abc import Callable

import pytest

from tests.contract.behaviour import SERIES, Behaviour, table
from tests.contract.guests import Seen
from tests.contract.simulated import see

BEHAVIOURS_MIN = 50

# Two minutes of a guest for each. Of the five, these have least of their own.
RARE = {"6.16", "6.18"}

each_series = pytest.mark.parametrize("series", SERIES)
each_real_series = pytest.mark.parametrize(
    "series", [pytest.param(one, marks=[pytest.mark.rare] * (one in RARE)) for one in SERIES]
)
each_behaviour = pytest.mark.parametrize("entry", table(), ids=lambda entry: entry.id)
Recorder = Callable[[str, object], None]


@each_behaviour
@each_series
def test_simulated(series: str, entry: Behaviour, record_property: Recorder) -> None:
    record_property("kernel", f"simulated {series}")
    problems = entry.problems(series, see(entry, series))
    assert not problems, _told(entry, problems)


@pytest.mark.vm
@each_behaviour
@each_real_series
def test_real(
    series: str,
    entry: Behaviour,
    kernel: Callable[[str], Seen],
    record_property: Recorder,
) -> None:
    record_property("kernel", f"real {series}")
    found = kernel(series).lines.get(entry.id, ())
    assert found, f"the guest told nothing of {entry.id}"
    for line in found:
        problems = entry.problems(series, line)
        assert not problems, _told(entry, problems)


def test_the_table_is_worth_its_name() -> None:
    entries = table()
    assert len(entries) >= BEHAVIOURS_MIN
    assert all(entry.says.endswith((".", ")")) for entry in entries), "sentences"


def _told(entry: Behaviour, problems: list[str]) -> str:
    lines = "\n".join(f"  - {problem}" for problem in problems)
    return f"{entry.id}: {entry.says}\n({entry.cites})\n{lines}"
