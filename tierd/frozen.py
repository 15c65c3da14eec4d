"""A copy of a frozen dataclass with other values in some fields.

The state of the daemon is frozen, and each tick copies a hundred parts of it. To set a field of a
frozen object takes ten times as long as to set one of another object, so `dataclasses.replace` was
a fifth of all that a tick cost. Here the copy is made as an object that has the same fields and is
not frozen. At the end it becomes one of the frozen class.
"""

import dataclasses
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    # A type checker knows the fields of the class.
    from dataclasses import replace
else:

    def replace(value, /, **changes):
        """Return a copy with these fields changed, as `dataclasses.replace` does."""
        kind = type(value)
        thaw = _thawing(kind)
        if thaw is None:
            return dataclasses.replace(value, **changes)
        copy = thaw(value)
        for name, now in changes.items():
            setattr(copy, name, now)
        copy.__class__ = kind
        return copy


@cache
def _thawing(kind: type) -> Callable[[Any], Any] | None:
    """Return what copies an object of this class into one that is not frozen.

    None if that would not do: an object can change its class only if both have the same slots and
    no other base, and a class with `__post_init__` wants it called. Without fields there is nothing
    to copy.
    """
    names = tuple(one.name for one in dataclasses.fields(kind))
    slots = getattr(kind, "__slots__", None)
    if not names or slots != names or kind.__base__ is not object or hasattr(kind, "__post_init__"):
        return None
    thawed = type(kind.__name__, (), {"__slots__": names})
    # Compiled code with a line for each field takes a third of the time of a loop. `dataclasses`
    # makes `__init__` in the same way.
    lines = ("copy = thawed()", *(f"copy.{name} = value.{name}" for name in names), "return copy")
    found: dict[str, Any] = {"thawed": thawed}
    exec("def thaw(value):\n  " + "\n  ".join(lines), found)
    return cast("Callable[[Any], Any]", found["thaw"])


__all__ = ["replace"]
