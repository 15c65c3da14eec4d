"""Copies of frozen values are those that `dataclasses.replace` would make."""

import dataclasses
import importlib
import pkgutil
from collections.abc import Iterator
from dataclasses import FrozenInstanceError, dataclass
from typing import Any

import pytest

import tierd
from tierd import frozen
from tierd.frozen import replace


@dataclass(frozen=True, slots=True)
class Flow:
    name: str
    rate: float = 1.0
    nodes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Single:
    only: int


@dataclass(frozen=True, slots=True)
class Checked:
    share: float

    def __post_init__(self) -> None:
        if not 0 <= self.share <= 1:
            raise ValueError(self.share)


@dataclass(frozen=True, slots=True)
class Child(Flow):
    more: int = 0


@dataclass(frozen=True)
class WithoutSlots:
    one: int
    two: int = 2


def classes() -> Iterator[Any]:
    """Return the frozen dataclasses of the whole package."""
    for found in pkgutil.walk_packages(tierd.__path__, "tierd."):
        if found.name.endswith("__main__"):
            continue
        module = importlib.import_module(found.name)
        for kind in vars(module).values():
            if isinstance(kind, type) and kind.__module__ == found.name:
                params = getattr(kind, "__dataclass_params__", None)
                if params is not None and params.frozen:
                    yield kind


def test_a_copy_equals_that_of_dataclasses() -> None:
    before = Flow("up", 2.0, (1, 2))
    changes: dict[str, Any] = {"rate": 3.0, "nodes": (4,)}
    copy = replace(before, **changes)
    assert copy == dataclasses.replace(before, **changes)
    assert type(copy) is Flow
    assert hash(copy) == hash(Flow("up", 3.0, (4,)))
    assert repr(copy) == repr(Flow("up", 3.0, (4,)))
    assert before == Flow("up", 2.0, (1, 2))


def test_a_copy_is_frozen() -> None:
    copy = replace(Flow("up"), rate=3.0)
    with pytest.raises(FrozenInstanceError):
        copy.rate = 4.0  # type: ignore[misc]


def test_a_copy_of_a_copy_and_of_one_field() -> None:
    assert replace(replace(Single(1), only=2), only=3) == Single(3)
    assert replace(Single(1)) == Single(1)


def test_a_field_that_is_not_there_is_refused() -> None:
    with pytest.raises(AttributeError, match="speed"):
        replace(Flow("up"), speed=1)  # type: ignore[call-arg]


def test_a_class_that_checks_its_values_still_does() -> None:
    assert replace(Checked(0.5), share=1.0) == Checked(1.0)
    with pytest.raises(ValueError, match="2"):
        replace(Checked(0.5), share=2.0)


@pytest.mark.parametrize("before", [Child("up", more=1), WithoutSlots(1)])
def test_other_classes_are_copied_as_dataclasses_does(before: Any) -> None:
    assert frozen._thawing(before.__class__) is None
    name = dataclasses.fields(before)[-1].name
    copy = replace(before, **{name: 7})
    assert copy == dataclasses.replace(before, **{name: 7})
    assert copy != before


def test_every_class_of_the_package_is_copied_with_all_its_fields() -> None:
    fast = 0
    for kind in classes():
        thaw = frozen._thawing(kind)
        if thaw is None:
            continue
        fast += 1
        names = [one.name for one in dataclasses.fields(kind)]
        before: Any = object.__new__(kind)
        for number, name in enumerate(names):
            object.__setattr__(before, name, number)
        copy = replace(before, **{names[-1]: "changed"})
        assert type(copy) is kind
        assert [getattr(copy, name) for name in names] == [*range(len(names) - 1), "changed"]
    assert fast > 100, "the state of the daemon is copied the fast way"
