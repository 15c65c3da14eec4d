"""Values that are wrong only together: the last allowed one, and the first wrong one."""

from pathlib import Path

import pytest

from tests.unit.configuration.test_config import parse
from tierd.configuration import configfile
from tierd.configuration.configfile import ConfigErrors
from tierd.errors import ExitCode

LIMITS = [
    ("headroom: 0.3%\npromotion: {fill: 99.71%}", "headroom: 0.3%\npromotion: {fill: 99.7%}"),
    ("monitoring: {aggregation: 25ms}", "monitoring: {aggregation: 24999us}"),
    ("monitoring: {sample_max: 5ms}", "monitoring: {sample_max: 4999us}"),
    (
        "monitoring: {aggregation: 1s}\nloop: {window: 1s}",
        "monitoring: {aggregation: 1000001us}\nloop: {window: 1s}",
    ),
    ("loop: {tick: 10s, window: 1s}", "loop: {tick: 10001ms, window: 1s}"),
]


@pytest.mark.parametrize(("right", "wrong"), LIMITS)
def test_the_last_that_is_right_is_taken_and_the_next_is_not(right: str, wrong: str) -> None:
    parse(right)
    with pytest.raises(ConfigErrors) as caught:
        parse(wrong)
    assert len(caught.value.lines) == 1


def test_a_file_that_must_be_there_is_missed_and_another_is_not(tmp_path: Path) -> None:
    nowhere = tmp_path / "nope.yaml"
    assert configfile.check(nowhere, None).exit_code is not ExitCode.ok
    assert configfile.check(nowhere, None, required=False).exit_code is ExitCode.ok


def test_a_check_is_against_the_machine_if_there_is_one(tmp_path: Path) -> None:
    path = tmp_path / "tierd.yaml"
    path.write_text("tiers: [[0], [7]]")
    assert configfile.check(path, None).exit_code is ExitCode.ok
    told = configfile.check(path, None, nodes=((0, 1), (0, 1)))
    assert told.exit_code is ExitCode.config
    assert "node 7 does not exist" in told.lines[0]
