"""Frozen dataclasses that cost little behave as those of the standard library."""

import copy
import dataclasses
import importlib
import pickle
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import FrozenInstanceError, field
from typing import Any, ClassVar

import pytest

import tierd
from tierd.frozen import dataclass, replace


@dataclass(frozen=True, slots=True)
class Flow:
    name: str
    rate: float = 1.0
    nodes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Single:
    only: int


@dataclass(frozen=True, slots=True)
class Kept:
    SEEN: ClassVar[list[str]] = []

    values: dict[str, int] = field(default_factory=dict)
    types: bytes = field(default=b"", repr=False)
    note: str = field(default="", compare=False)

    @property
    def total(self) -> int:
        return sum(self.values.values())


@dataclass(frozen=True, slots=True)
class OwnMethods:
    number: int

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OwnMethods) and self.number % 10 == other.number % 10

    def __hash__(self) -> int:
        return self.number % 10

    def __repr__(self) -> str:
        return f"<{self.number}>"


@dataclass(frozen=True, slots=True)
class OwnEquality:
    number: int

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OwnEquality) and abs(self.number) == abs(other.number)


@dataclass(frozen=True, slots=True)
class WithoutFields:
    SEEN: ClassVar[int] = 1


@dataclass(frozen=True, slots=True)
class Checked:
    share: float

    def __post_init__(self) -> None:
        if not 0 <= self.share <= 1:
            raise ValueError(self.share)


@dataclass(frozen=True, slots=True, order=True)
class Ordered:
    one: int


@dataclass(frozen=True)
class WithoutSlots:
    one: int
    two: int = 2


def package_classes() -> Iterator[Any]:
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


def costs_little(kind: Any) -> bool:
    return kind.__new__ is not object.__new__


def standard(kind: Any) -> Any:
    """Return the class with the same fields that the standard library makes."""
    names = [one.name for one in dataclasses.fields(kind)]
    options = ("default", "default_factory", "repr", "compare")
    fields = [
        (
            one.name,
            Any,
            field(**{name: getattr(one, name) for name in options if given(getattr(one, name))}),
        )
        for one in dataclasses.fields(kind)
    ]
    # Without slots, because Python 3.11 has a fault in the message about an unknown attribute.
    made = dataclasses.make_dataclass(kind.__qualname__, fields, frozen=True)
    assert [one.name for one in dataclasses.fields(made)] == names
    return made


def given(value: object) -> bool:
    return value is not dataclasses.MISSING


def message(call: Callable[[Any], object], kind: Any) -> str:
    """Return the error of a call, without the name of the function that was called."""
    with pytest.raises((TypeError, AttributeError)) as caught:
        call(kind)
    return str(caught.value).partition("()")[2] or str(caught.value)


def values_for(kind: Any) -> dict[str, Any]:
    return {one.name: number for number, one in enumerate(dataclasses.fields(kind))}


def test_the_package_has_hundreds_of_classes_that_cost_little() -> None:
    assert sum(costs_little(kind) for kind in package_classes()) > 300


@pytest.mark.parametrize("kind", [Flow, Single, Kept, *package_classes()])
def test_a_class_behaves_as_that_of_dataclasses(kind: Any) -> None:
    if not costs_little(kind):
        empty = not dataclasses.fields(kind)
        child = kind.__bases__ != (object,)
        assert empty or child or hasattr(kind, "__post_init__") or kind.__dataclass_params__.order
        return
    twin = standard(kind)
    values = values_for(kind)
    last = list(values)[-1]
    one, same = kind(**values), kind(*values.values())
    expected = twin(**values)
    assert type(one) is kind
    assert dataclasses.asdict(one) == dataclasses.asdict(expected)
    assert one == same
    assert one != expected
    shown = "__repr__" in vars(kind) and vars(kind)["__repr__"].__module__ != "tierd.frozen"
    assert shown or repr(one) == repr(expected)
    assert hash(one) == hash(same)
    changed = replace(one, **{last: "changed"})
    assert type(changed) is kind
    assert dataclasses.asdict(changed) == dataclasses.asdict(expected) | {last: "changed"}
    assert dataclasses.asdict(one) == values
    assert not hasattr(one, "__dict__")
    with pytest.raises(FrozenInstanceError, match=last):
        setattr(changed, last, 1)


@pytest.mark.parametrize("kind", [Flow, Single, Kept])
def test_errors_are_those_of_dataclasses(kind: Any) -> None:
    twin = standard(kind)
    assert costs_little(kind)
    calls: list[Callable[[Any], object]] = [
        lambda made: made(only=1, unknown=1),
        lambda made: made(1, 2, 3, 4, 5),
        lambda made: setattr(made(*range(len(values_for(kind)))), "unknown", 1),
        lambda made: delattr(made(*range(len(values_for(kind)))), next(iter(values_for(kind)))),
    ]
    for call in calls:
        assert message(call, kind) == message(call, twin)


def test_every_object_has_its_own_default() -> None:
    one, other = Kept(), Kept()
    one.values["a"] = 1
    assert (one.total, other.total) == (1, 0)
    assert Flow("up") == Flow("up", 1.0, ())


def test_fields_that_are_not_compared_or_shown() -> None:
    assert Kept(note="a") == Kept(note="b")
    assert Kept(types=b"a") != Kept(types=b"b")
    assert "types" not in repr(Kept(types=b"a"))


def test_the_methods_that_a_class_writes_are_its_own() -> None:
    assert costs_little(OwnMethods)
    assert OwnMethods(1) == OwnMethods(11)
    assert (hash(OwnMethods(11)), repr(OwnMethods(11))) == (1, "<11>")
    assert OwnEquality(1) == OwnEquality(-1)
    assert hash(OwnEquality(3)) == hash(standard(OwnEquality)(3)), "that of the fields"


def test_an_object_is_copied_and_pickled() -> None:
    before = Kept({"a": 1}, b"t", "n")
    for after in (copy.copy(before), copy.deepcopy(before), pickle.loads(pickle.dumps(before))):
        assert type(after) is Kept
        assert dataclasses.asdict(after) == dataclasses.asdict(before)
    assert copy.deepcopy(before).values is not before.values


def test_a_copy_of_a_copy() -> None:
    assert replace(replace(Single(1), only=2), only=3) == Single(3)
    assert replace(Single(1)) == Single(1)


def test_a_field_that_is_not_there_is_refused() -> None:
    changes: dict[str, Any] = {"speed": 1}
    with pytest.raises(AttributeError, match="speed"):
        replace(Flow("up"), **changes)


def test_a_class_cannot_be_a_base() -> None:
    with pytest.raises(TypeError, match="Child: Flow cannot be a base"):
        type("Child", (Flow,), {})


def test_a_class_that_checks_its_values_still_does() -> None:
    assert replace(Checked(0.5), share=1.0) == Checked(1.0)
    with pytest.raises(ValueError, match="2"):
        replace(Checked(0.5), share=2.0)


def test_a_class_may_have_no_fields() -> None:
    twin = standard(WithoutFields)
    assert costs_little(WithoutFields)
    assert WithoutFields() == replace(WithoutFields())
    assert hash(WithoutFields()) == hash(twin())
    assert repr(WithoutFields()) == repr(twin())


def test_other_classes_are_those_of_dataclasses() -> None:
    for kind in (Checked, Ordered, WithoutSlots):
        assert not costs_little(kind)
    assert Ordered(1) < Ordered(2)
    assert replace(WithoutSlots(1), two=3) == dataclasses.replace(WithoutSlots(1), two=3)
