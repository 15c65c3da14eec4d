"""Frozen dataclasses that cost little to define, to make and to copy.

The state of the daemon is frozen, in more than three hundred classes. The standard library compiles
seven functions for each class when it is defined. And while it makes an object, it sets each field
by a slow call, because the object refuses a plain assignment. That was half of the time that the
modules of the daemon took to load. The classes here behave as those of `dataclasses`. A new object
first belongs to another class, which has the same slots and is not frozen. When all fields are set,
it becomes one of its own class. Functions are compiled when the first object is made.

Only plain classes are made in this way: frozen, with slots, with no base and no `__post_init__`.
The standard library makes all others.
"""

import dataclasses
from collections.abc import Callable
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    # A type checker knows what the standard library's decorator does.
    from dataclasses import dataclass, replace
else:

    def dataclass(**options):
        """Return the decorator that `dataclasses.dataclass` would return for these options."""

        def decorate(kind):
            plain = options == {"frozen": True, "slots": True} and _is_plain(kind)
            return _defined(kind) if plain else dataclasses.dataclass(**options)(kind)

        return decorate

    def replace(value, /, **changes):
        """Return a copy with these fields changed, as `dataclasses.replace` does."""
        kind = type(value)
        if kind.__new__ is object.__new__:
            return dataclasses.replace(value, **changes)
        copy = _thawing(kind)(value)
        for name, now in changes.items():
            setattr(copy, name, now)
        copy.__class__ = kind
        return copy


def _is_plain(kind: type) -> bool:
    """Return whether a class is one that can be made here.

    An object can change its class only if both have the same slots and no other base. A class with
    `__post_init__` wants it called.
    """
    if kind.__bases__ != (object,) or hasattr(kind, "__post_init__"):
        return False
    return bool(getattr(kind, "__annotations__", None))


def _defined(plain: type) -> type:
    """Return the frozen dataclass with the fields of this class."""
    kind = cast("Any", dataclasses.dataclass(init=False, repr=False, eq=False, slots=True)(plain))
    # `dataclasses` would add a `__setattr__` compiled for this class.
    kind.__dataclass_params__.frozen = True
    fields = dataclasses.fields(kind)
    shown = tuple(one.name for one in fields if one.repr)
    values = _values_of(tuple(one.name for one in fields))
    compared = _values_of(tuple(one.name for one in fields if one.compare))

    def new(_kind: type, /, *given: Any, **named: Any) -> Any:
        # The first object of the class. Every later one is made by the compiled function.
        kind.__new__ = _making(kind)
        return kind.__new__(kind, *given, **named)

    def equals(self: Any, other: object) -> Any:
        if type(other) is not kind:
            return NotImplemented
        return compared(self) == compared(other)

    def hashed(self: Any) -> int:
        return hash(compared(self))

    def text(self: Any) -> str:
        parts = ", ".join(f"{name}={getattr(self, name)!r}" for name in shown)
        return f"{kind.__qualname__}({parts})"

    def reduced(self: Any) -> tuple[type, tuple[Any, ...]]:
        return kind, values(self)

    kind.__new__ = new
    kind.__setattr__ = _refuse_set
    kind.__delattr__ = _refuse_delete
    kind.__init_subclass__ = classmethod(_refuse_subclass)
    kind.__reduce__ = reduced
    written = plain.__dict__
    for name, method in (("__eq__", equals), ("__hash__", hashed), ("__repr__", text)):
        # A method that the class wrote itself stays. Python adds `__hash__ = None` beside `__eq__`.
        if written.get(name) is None:
            setattr(kind, name, method)
    return cast("type", kind)


def _values_of(names: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    """Return what reads these fields of an object as a tuple."""
    if not names:
        return lambda _value: ()
    if len(names) == 1:
        only = attrgetter(names[0])
        return lambda value: (only(value),)
    return cast("Callable[[Any], tuple[Any, ...]]", attrgetter(*names))


def _refuse_set(_self: Any, name: str, _value: Any) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_delete(_self: Any, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _refuse_subclass(kind: type) -> None:
    base = kind.__bases__[0].__name__
    raise TypeError(f"{kind.__name__}: {base} cannot be a base, see tierd/frozen.py")


@cache
def _twin(kind: Any) -> type:
    """Return a class whose objects have the same slots and are not frozen."""
    names = tuple(one.name for one in dataclasses.fields(kind))
    return type(kind.__name__, (), {"__slots__": names})


def _making(kind: Any) -> Callable[..., Any]:
    """Return the `__new__` of a class: it takes the fields as `__init__` of a dataclass does."""
    known: dict[str, Any] = {"_kind": kind, "_twin": _twin(kind)}
    arguments, lines = [], []
    for one in dataclasses.fields(kind):
        value = one.name
        if one.default is not dataclasses.MISSING:
            known[f"_default_{one.name}"] = one.default
            arguments.append(f"{one.name}=_default_{one.name}")
        elif one.default_factory is not dataclasses.MISSING:
            known["_absent"] = dataclasses.MISSING
            known[f"_default_{one.name}"] = one.default_factory
            arguments.append(f"{one.name}=_absent")
            value = f"_default_{one.name}() if {one.name} is _absent else {one.name}"
        else:
            arguments.append(one.name)
        lines.append(f"_made.{one.name} = {value}")
    # The name of the class stands in the error about a field that is missing or not known.
    name = kind.__name__
    body = ("_made = _twin()", *lines, "_made.__class__ = _kind", "return _made")
    return _compiled(name, f"_cls, /, {', '.join(arguments)}", body, known)


@cache
def _thawing(kind: Any) -> Callable[[Any], Any]:
    """Return what copies an object of this class into one that is not frozen."""
    names = (one.name for one in dataclasses.fields(kind))
    body = ("_copy = _twin()", *(f"_copy.{name} = _value.{name}" for name in names), "return _copy")
    return _compiled("thaw", "_value", body, {"_twin": _twin(kind)})


def _compiled(
    name: str, arguments: str, body: tuple[str, ...], known: dict[str, Any]
) -> Callable[..., Any]:
    """Return a function with these lines: a line for each field takes a third of a loop's time."""
    exec(f"def {name}({arguments}):\n  " + "\n  ".join(body), known)
    return cast("Callable[..., Any]", known[name])


__all__ = ["dataclass", "replace"]
