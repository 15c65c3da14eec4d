"""The file of a profile: it comes back as it was written, and nothing else is taken for one."""

import json
from dataclasses import replace

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierd.console import shipped
from tierd.profile import gather, profile
from tierd.profile.panel import Kept
from tierd.profile.profile import Header, Line, NoProfile, Source, header_text, line_text
from tierd.profile.rates import BOUNDS_HZ, CLASSES

HEADER = Header(Source.panel, 1_800_000_000.0, (64 << 30, 192 << 30), 1016, 256 << 20, 64 << 10)
LINE = Line(
    minute=3,
    minutes=2,
    heat=((0.5, 0, 0, 0, 0, 0, 0, 0, 0.5), (0.9, 0.1, 0, 0, 0, 0, 0, 0, 0)),
    used=(0.9, 0.25),
    idle=(0.6, 0.5, None),
    lasting=(Kept(100, 90), Kept(50, 40), Kept()),
    hot=Kept(1016, 100),
    near=(Kept(30, 29), Kept(30, 20), Kept(28, 3)),
    close=(70, 9, 1, 0, 0, 0, 3),
    alloc_bytes_per_s=123_456,
    pressure=0.0125,
    major_faults_per_s=2.5,
)


def text(*lines: Line) -> str:
    return "\n".join([header_text(HEADER, BOUNDS_HZ), *map(line_text, lines)]) + "\n"


def test_a_profile_comes_back_as_it_was_written() -> None:
    found = profile.parse("p", text(LINE, replace(LINE, minute=5)))
    assert found.header == HEADER
    assert found.lines == (LINE, replace(LINE, minute=5))
    assert found.minutes == 4


def test_a_profile_of_before_has_no_closer_look() -> None:
    document = json.loads(line_text(LINE))
    del document["c"]
    text_before = "\n".join([header_text(HEADER, BOUNDS_HZ), json.dumps(document)]) + "\n"
    assert profile.parse("p", text_before).lines == (replace(LINE, close=()),)
    assert profile.parse("p", text(replace(LINE, close=()))).lines[0].close == ()


def test_a_profile_of_before_knows_no_caches() -> None:
    document = json.loads(header_text(HEADER, BOUNDS_HZ))
    del document["cache_bytes"]
    found = profile.parse("p", json.dumps(document) + "\n" + line_text(LINE) + "\n")
    assert found.header == replace(HEADER, cache_bytes=0)


def test_a_profile_of_before_has_pages_of_4_kib() -> None:
    document = json.loads(header_text(HEADER, BOUNDS_HZ))
    assert document.pop("page_bytes") == 64 << 10
    found = profile.parse("p", json.dumps(document) + "\n" + line_text(LINE) + "\n")
    assert found.header == replace(HEADER, page_bytes=4096)


def test_the_lines_are_as_the_schema_says() -> None:
    schema = json.loads(shipped.text("schema-profile"))
    checker = jsonschema.Draft202012Validator(schema)
    for line in text(LINE).splitlines():
        assert not list(checker.iter_errors(json.loads(line)))
    assert list(checker.iter_errors({"schema": "tierd.profile/1"}))


def test_a_day_that_is_never_the_same_is_small() -> None:
    """A line for every minute is the most that there can be."""
    assert 1440 * len(line_text(replace(LINE, minute=1439))) < 400_000


def test_half_a_line_at_the_end_is_left_out() -> None:
    cut = text(LINE, replace(LINE, minute=5))[:-20]
    assert profile.parse("p", cut).lines == (LINE,)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda it: it.replace("tierd.profile/1", "tierd.profile/2"), "p:1: "),
        (lambda it: it.replace('"page_bytes": 65536', '"page_bytes": 0'), "p:1: .*without a size"),
        (lambda it: it.replace('"n":2', '"n":0'), "p:2: .*no minutes"),
        (lambda it: it.replace("[100,90]", "[100,101]"), "p:2: .*more pages are left"),
        (lambda it: it.replace('"u":[9000,2500]', '"u":[9000]'), "p:2: .*expected 2 entries"),
        (lambda it: it.replace('"u":[9000,2500]', '"u":[9000,25000]'), "p:2: "),
        (lambda it: it.replace('"h":[[5000', '"h":[[true'), "p:2: "),
        (lambda it: "[" * 100_000 + it, "p:1: "),
        (lambda _: "", "p:1: "),
    ],
)
def test_what_is_no_profile_is_refused_with_its_line(spoil, said: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(NoProfile, match=said):
        profile.parse("p", spoil(text(LINE)))


@given(st.text())
def test_any_text_is_a_profile_or_is_refused(garbage: str) -> None:
    try:
        profile.parse("p", garbage)
    except NoProfile:
        return
    pytest.fail("a random text was taken for a profile")


def shares(hottest: float) -> tuple[tuple[float, ...], ...]:
    return ((1 - hottest, *(0.0,) * (CLASSES - 2), hottest),) * 2


def test_minutes_that_are_alike_are_one_line() -> None:
    one, other = replace(LINE, heat=shares(0.2)), replace(LINE, heat=shares(0.21))
    done, pending = gather.added(one, replace(other, minute=5))
    assert done is None
    assert (pending.minute, pending.minutes) == (3, 4)
    assert pending.heat[0][-1] == pytest.approx(0.205)
    assert pending.lasting[0] == Kept(200, 180)


def test_minutes_that_differ_are_two_lines() -> None:
    one, other = replace(LINE, heat=shares(0.2)), replace(LINE, heat=shares(0.3))
    assert gather.added(one, other) == (one, other)


def test_a_line_ends_after_ten_minutes() -> None:
    pending, done = replace(LINE, minutes=1), []
    for _ in range(25):
        ended, pending = gather.added(pending, replace(LINE, minutes=1))
        done += [ended.minutes] if ended else []
    assert done == [10, 10]
    assert pending.minutes == 6
