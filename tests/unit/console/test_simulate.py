"""`tierd simulate` from a record to a curve, on the simulated machine, with brief trials."""

import re
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.fixtures.answers import ANSWER
from tests.unit.profile.test_from_profile import minute
from tests.unit.profile.test_profile import text
from tierd import cli
from tierd.configuration.config import Config
from tierd.console import simulate
from tierd.profile import from_profile, profile
from tierd.profile.curve import USABLE
from tierd.profile.load import Work
from tierd.sim import forecast
from tierd.sim.forecast import Shown, Trials
from tierd.sim.trial import Size
from tierd.views import forecast as words
from tierd.views import forecast_picture

GIB = 1 << 30
SVG = "{http://www.w3.org/2000/svg}"


def near(work: Work, sizes: Sequence[Size], _config: Config, _processes: int) -> Trials:
    """Return trials that come as near to the best placement as nine tenths, in no time."""
    return Trials(
        {
            one.fast_bytes: Shown((0.9 * work.best(USABLE * one.fast_bytes),), 0.5, 1e6)
            for one in sizes
        }
    )


def test_a_profile_becomes_a_curve_with_the_least_memory_for_a_target(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forecast, "tried", near)
    profile = tmp_path / "p.jsonl"
    profile.write_text(text(minute(0.25, minutes=9)))
    assert cli.main(f"simulate {profile} --target-hit 45% --price 12,5".split()) == 0
    said = capsys.readouterr().out
    # 48 GiB are touched, all about as often, and half of all touches must come from fast memory.
    found = re.search(r"For 45.0% the least fast memory is ([0-9.]+) GiB: 4[456]", said)
    assert found
    assert 15 < float(found[1]) < 25
    assert "cannot tell: 9 minutes were recorded, and 10 are the least" in said
    assert "price" in said.splitlines()[3]
    assert "sim" in said


@pytest.mark.parametrize("fails_below_gib", [10, 24, 32, 36, 40, 44])
def test_a_size_that_is_named_serves_the_target_by_its_own_trial(
    fails_below_gib: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Below some size nearly nothing comes up, which trials of other sizes cannot know."""

    def served(work: Work, fast_bytes: float) -> float:
        gain = 0.9 if fast_bytes >= fails_below_gib * GIB else 0.3
        return gain * work.best(USABLE * fast_bytes)

    def with_a_step(work: Work, sizes: Sequence[Size], *_rest: object) -> Trials:
        return Trials(
            {one.fast_bytes: Shown((served(work, one.fast_bytes),), 0.5, 1e6) for one in sizes}
        )

    monkeypatch.setattr(forecast, "tried", with_a_step)
    work = from_profile.work(profile.parse("p", text(minute(0.25, minutes=20))), "p")
    question = simulate.Question(None, None, 0.45, words.Costs(100, 250))
    found = simulate.answer(work, question, Config()).least_bytes
    assert found is not None
    assert served(work, found * (1 + 2 * simulate.NEAR_SHARE)) >= 0.45
    assert served(work, found * 0.85) < 0.45


def test_the_answer_names_the_knee_the_target_and_what_cannot_be_told() -> None:
    said = words.as_text(ANSWER, 80)
    rows = [line for line in said.splitlines() if "GiB" in line and "%" in line]
    assert any("knee" in row and "32 GiB" in row for row in rows)
    assert any("cannot tell: more memory than this" in row and "16 GiB" in row for row in rows)
    assert "For 98.0% the least fast memory is 64 GiB: 99.0% (95% to 100%)." in said
    assert "modelled" in said


@pytest.mark.parametrize(
    ("served", "stall", "slower"),
    [(1.0, 1.0, 1.0), (0.0, 1.0, 2.5), (0.9, 1.0, 1.15), (0.9, 0.5, 1.075)],
)
def test_the_modelled_slowdown(served: float, stall: float, slower: float) -> None:
    assert words.slowdown(served, stall, ANSWER.costs) == pytest.approx(slower)


def test_prices_are_per_gib() -> None:
    point = ANSWER.points[0]
    assert words.price(point, ANSWER.costs) == pytest.approx(16 * 12 + 240 * 5)
    assert words.all_fast_price(point, ANSWER.costs) == pytest.approx(256 * 12)


def test_the_picture_has_a_point_for_each_size_and_a_curve() -> None:
    root = ElementTree.fromstring(forecast_picture.svg(ANSWER))
    points = root.findall(f"{SVG}circle")
    assert [one.get("class") for one in points] == ["u", "o", "p", "o"]
    heights = [float(one.get("cy") or 0) for one in points]
    assert heights == sorted(heights, reverse=True)
    curves = [one.get("class") for one in root.findall(f"{SVG}path")]
    assert {"i", "b", "c", "k"} <= set(curves)
    text = "".join(root.itertext())
    assert "knee: 32 GiB" in text
    assert "for 98%: 64 GiB" in text


def test_the_sizes_below_the_picture_are_round() -> None:
    root = ElementTree.fromstring(forecast_picture.svg(ANSWER))
    named = [
        one.text for one in root.findall(f"{SVG}text") if re.match(r"\d+ GiB$", one.text or "")
    ]
    assert named == [
        "16 GiB",
        "32 GiB",
        "48 GiB",
        "64 GiB",
        "80 GiB",
        "96 GiB",
        "112 GiB",
        "128 GiB",
    ]
