"""The rules of the contract table itself."""

from pathlib import Path

import pytest

from tests.contract.behaviour import (
    SERIES,
    Between,
    Expected,
    Near,
    Observation,
    Told,
    agrees,
    behaviour,
    differences,
    since,
)
from tests.contract.guests import parse
from tests.contract.real import RealSubject
from tests.contract.subject import Subject
from tests.vm.guard import NotAGuest


@pytest.mark.parametrize(
    ("seen", "wanted"),
    [
        (1, 1),
        ([1, "x"], (1, "x")),
        ({"a": [1]}, {"a": [Between(0, 2)]}),
        (101, Near(100, 0.01)),
        ({"a": "b"}, Told({"a": "b"}, "as recorded")),
        (None, None),
    ],
)
def test_agrees(seen: Observation, wanted: Expected) -> None:
    assert agrees(seen, wanted)
    assert not list(differences(seen, wanted))


@pytest.mark.parametrize(
    ("seen", "wanted"),
    [
        (1, True),
        (True, 1),
        (1, 1.0),
        (102, Near(100, 0.01)),
        (True, Between(0, 2)),
        ("ab", ["a", "b"]),
        (["a", "b"], "ab"),
        ([1], [1, 2]),
        ({"a": 1}, {"a": 1, "b": 2}),
        ({"a": 1, "b": 2}, {"a": 1}),
        ({"a": 1}, Told({"a": 2}, "as recorded")),
        ("x", None),
    ],
)
def test_does_not_agree(seen: Observation, wanted: Expected) -> None:
    assert not agrees(seen, wanted)
    assert list(differences(seen, wanted))


def test_a_series_is_as_the_one_before() -> None:
    expect = since({"6.12": "a", "7.2": "b"})
    assert [expect.of(series) for series in SERIES] == ["a", "a", "a", "b", "b"]


@pytest.mark.parametrize("first", [{"6.16": "a"}, {"6.12": "a", "5.0": "b"}])
def test_expectations_name_the_oldest_and_no_stranger(first: dict[str, Expected]) -> None:
    with pytest.raises(ValueError, match="expectations need"):
        since(first)


def test_a_behaviour_says_what_it_is() -> None:
    def silent(subject: Subject) -> str:
        return subject.sysfs.read("proc/version")

    with pytest.raises(ValueError, match="says what it is"):
        behaviour(cites="nobody", expect="")(silent)


def test_only_a_guest_is_a_real_subject() -> None:
    with pytest.raises(NotAGuest):
        RealSubject(Path("workload"))


def test_what_a_guest_told_is_kept_by_behaviour() -> None:
    seen = parse('{"release": "6.12.1"}\n{"id": "a.b", "seen": 1}\n{"id": "a.b", "seen": 2}\n')
    assert seen.release == "6.12.1"
    assert [line["seen"] for line in seen.lines["a.b"]] == [1, 2]
