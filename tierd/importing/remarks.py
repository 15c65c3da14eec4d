"""What is said about each part of a foreign policy: what became of it, and why."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from typing import Any

from tierd.configuration.settings import BY_FIELD
from tierd.frozen import dataclass, replace
from tierd.importing.foreign import Given

# Characters of the policy's own words in a remark; a path may have thousands.
SAID_MAX = 120


class Kind(StrEnum):
    """What became of a part of the policy."""

    carried = "carried"
    improved = "improved"
    changed = "changed"
    lost = "lost"


ABOUT = {
    Kind.carried: "Carried over",
    Kind.improved: "Better in tierd than in the policy",
    Kind.changed: "Carried over with another meaning or value: look at these",
    Kind.lost: "Cannot be said in a configuration of tierd",
}


@dataclass(frozen=True, slots=True)
class Remark:
    """What became of one part of a policy."""

    kind: Kind
    given: tuple[str, ...]
    """The part, in the words of the policy."""
    lines: tuple[int, ...]
    """Where it is in the file."""
    setting: str | None
    """The setting of tierd that it is about."""
    value: str | None
    """The value of the setting."""
    text: str
    """Why, in words."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the translation: values by field of the configuration, and remarks."""

    values: Mapping[str, Any] = field(default_factory=dict)
    remarks: tuple[Remark, ...] = ()


def remark(
    kind: Kind, given: Iterable[Given[Any]], text: str = "", *, about: str = "", value: Any = None
) -> Remark:
    """Return a remark; `about` is a field of the configuration, and `value` its value."""
    listed = tuple(given)
    assert listed, text
    setting = BY_FIELD[about] if about else None
    shown = None
    if setting is not None and value is not None:
        shown = setting.value_type.write(value)
    return Remark(
        kind,
        _distinct(_plain(one.said) for one in listed),
        tuple(sorted({one.place.line for one in listed})),
        None if setting is None else setting.name,
        shown,
        text,
    )


def noted(
    kind: Kind, given: Iterable[Given[Any]], text: str = "", *, about: str = "", value: Any = None
) -> Part:
    """Return a part of the translation that is only a remark."""
    return Part({}, (remark(kind, given, text, about=about, value=value),))


def joined(parts: Iterable[Part]) -> Part:
    """Return all values and remarks; remarks that say the same of several places are one."""
    values: dict[str, Any] = {}
    found: dict[tuple[object, ...], list[Remark]] = {}
    for part in parts:
        values |= part.values
        for one in part.remarks:
            found.setdefault((one.kind, one.setting, one.value, one.text), []).append(one)
    order = list(Kind)
    merged = sorted(map(_merged, found.values()), key=lambda one: order.index(one.kind))
    return Part(values, tuple(merged))


def _merged(same: Sequence[Remark]) -> Remark:
    return replace(
        same[0],
        given=_distinct(said for one in same for said in one.given),
        lines=tuple(sorted({line for one in same for line in one.lines})),
    )


def _plain(said: str) -> str:
    """Return words that are harmless in a comment: on one line, and not long."""
    safe = said if said.isprintable() else ascii(said)[1:-1]
    return safe if len(safe) <= SAID_MAX else f"{safe[:SAID_MAX]}..."


def _distinct(said: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(said))
