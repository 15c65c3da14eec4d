"""Puts values of a policy into settings of tierd, if they fit."""

from collections.abc import Callable, Hashable, Sequence
from typing import TypeVar

from tierd.configuration.settings import BY_FIELD
from tierd.configuration.yamltext import read
from tierd.importing.foreign import Given
from tierd.importing.remarks import Kind, Part, remark

T = TypeVar("T", bound=Hashable)


def fits(field: str, value: object) -> bool:
    """True if the setting takes this value."""
    value_type = BY_FIELD[field].value_type
    node, problems = read("", value_type.write(value))
    return node is not None and not problems and not value_type.read(node).problems


def settled(
    field: str,
    given: Sequence[Given[T]],
    pick: Callable[[Sequence[T]], T],
    why: str,
    text: str = "",
) -> Part:
    """Return the setting for values of several schemes: tierd has one for all of them.

    `why` says which of different values `pick` takes. A value that does not fit is not carried.
    """
    fitting = {value: fits(field, value) for value in {one.value for one in given}}
    good = [one for one in given if fitting[one.value]]
    allowed = BY_FIELD[field].value_type.allowed
    instead = "the value of the other schemes is" if good else "the default stays"
    text_of_bad = f"tierd takes {allowed}: {instead} in force"
    bad = [one for one in given if not fitting[one.value]]
    remarks = [remark(Kind.changed, bad, text_of_bad, about=field)] if bad else []
    if not good:
        return Part({}, tuple(remarks))
    value = pick([one.value for one in good])
    taken = [one for one in good if one.value == value]
    others = [one for one in good if one.value != value]
    remarks.append(remark(Kind.carried, taken, text, about=field, value=value))
    if others:
        said = f"tierd has one value for all schemes: {why} is taken"
        remarks.append(remark(Kind.changed, others, said, about=field, value=value))
    return Part({field: value}, tuple(remarks))
