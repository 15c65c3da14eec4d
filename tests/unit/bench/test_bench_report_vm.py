"""Whether what a report in turns says agrees with the benchmark."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from bench import contender, report_vm
from bench.errors import BenchError
from tests.unit.bench.test_bench_quick import seen


def difference(measure: str, **found: Any) -> dict[str, Any]:
    nothing = dict.fromkeys(("off", "on", "difference", "low", "high"))
    return {"measure": measure, "unit": "", "verdict": "better", **nothing, **found}


def report(low: float | None, high: float | None) -> dict[str, Any]:
    own = {"off": 1000.0, "on": 1200.0, "difference": 200.0, "low": low, "high": high}
    return {"differences": [difference("served"), difference("application", **own)]}


@pytest.mark.parametrize(
    ("low", "high", "says"),
    [(150.0, 250.0, "holds the gain"), (150.0, 180.0, "does NOT hold the gain")],
)
def test_it_says_whether_the_interval_holds_the_gain(low: float, high: float, says: str) -> None:
    words = report_vm.lines({"none": 900.0, "tierd": 1100.0}, report(low, high))
    assert words[0].endswith("+200")
    assert says in words[-1]
    assert "report: application: 1000 off, 1200 on: +200 (+150 to +" in words[2]


def test_without_an_interval_nothing_is_compared() -> None:
    words = report_vm.lines({"none": 900.0, "tierd": 1100.0}, report(None, None))
    assert not any("interval" in line for line in words)
    assert words[1] == "report: served: better"


def test_a_shell_prints_the_operations_of_the_last_second(tmp_path: Path) -> None:
    said = tmp_path / "driver.out"
    said.write_text("filled 1 2\nsecond 0 5000 1 1 1\nsecond 1000000000 3000000000 1110 1 2\n")
    command = ("sh", "-c", contender.LATELY.format(said=said))
    assert subprocess.check_output(command, text=True) == "555\n"


def test_the_rate_is_that_of_the_last_cycle() -> None:
    # 25 s of 1000 operations, and 100 s of 1200.
    assert report_vm.rate(seen(after=1200)) == pytest.approx(1160)


def test_a_driver_that_hung_for_all_of_it_has_no_rate() -> None:
    hung = seen(after=1200)
    served = hung["served"]
    served["seconds"] = [2.0 * report_vm.CYCLE_S] * len(served["at_s"])
    with pytest.raises(BenchError):
        report_vm.rate(hung)
