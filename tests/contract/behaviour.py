"""The contract table: what DAMON, memory tiers and node counters do, as functions that observe.

A behaviour is a function of a Subject that returns what it saw, as a value for JSON. Its
docstring says in one sentence what the kernel does. `cites` names the kernel function or commit
that does it. `expect` is what every series shows. If series differ, `since` lists
the differences: a difference is never a skipped test.

    @behaviour(cites="damon_sysfs_turn_damon_on()", expect="EBUSY")
    def on_twice(subject: Subject) -> str:
        "`on` is refused while the kdamond runs."
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Protocol

from tests.contract.subject import Subject

# Oldest first. A series that has no entry of its own behaves as the one before it.
SERIES = ("6.12", "6.16", "6.18", "7.2", "7.3")

# The modules that state behaviours, in the order in which they run and are documented.
AREAS = (
    "tests.contract.tree",
    "tests.contract.numbers",
    "tests.contract.lifecycle",
    "tests.contract.inputs",
    "tests.contract.reports",
    "tests.contract.contention",
    "tests.contract.features",
    "tests.contract.machine",
    "tests.contract.quota",
    "tests.contract.commits",
    "tests.contract.migration",
    "tests.contract.nodes",
    "tests.contract.interleave",
    "tests.contract.visits",
)

Observation = (
    None | bool | int | float | str | Sequence["Observation"] | Mapping[str, "Observation"]
)
Run = Callable[[Subject], Observation]


class Rule(Protocol):
    """An expectation that is not equality."""

    def agrees(self, seen: Observation) -> bool: ...
    def __str__(self) -> str: ...


Expected = None | bool | int | float | str | Sequence["Expected"] | Mapping[str, "Expected"] | Rule


@dataclass(frozen=True, slots=True)
class Near:
    """A number within a share of another, named because equality would claim too much."""

    value: float
    relative: float

    def agrees(self, seen: Observation) -> bool:
        if isinstance(seen, bool) or not isinstance(seen, int | float):
            return False
        return abs(seen - self.value) <= self.relative * abs(self.value)

    def __str__(self) -> str:
        return f"{self.value:g} within {self.relative:.0%}"


@dataclass(frozen=True, slots=True)
class Between:
    """A number between two others, both included."""

    least: float
    most: float

    def agrees(self, seen: Observation) -> bool:
        if isinstance(seen, bool) or not isinstance(seen, int | float):
            return False
        return self.least <= seen <= self.most

    def __str__(self) -> str:
        return f"{self.least:g} to {self.most:g}"


@dataclass(frozen=True, slots=True)
class Told:
    """A value that is too long for the table, and the words that replace it there."""

    value: Observation
    words: str

    def agrees(self, seen: Observation) -> bool:
        return agrees(seen, self.value)

    def __str__(self) -> str:
        return self.words


@dataclass(frozen=True, slots=True)
class Since:
    """Expectations by the first series that they hold for."""

    first: Mapping[str, Expected]

    def of(self, series: str) -> Expected:
        known = [name for name in SERIES[: SERIES.index(series) + 1] if name in self.first]
        return self.first[known[-1]]


def since(first: Mapping[str, Expected]) -> Since:
    """`since({"6.12": "EINVAL", "7.2": "ECANCELED"})`; the oldest series must be there."""
    unknown = set(first) - set(SERIES)
    if unknown or SERIES[0] not in first:
        raise ValueError(f"expectations need {SERIES[0]}, and know no {sorted(unknown)}")
    return Since(first)


@dataclass(frozen=True, slots=True)
class Behaviour:
    """A line of the table."""

    area: str
    name: str
    says: str
    cites: str
    expect: Since
    run: Run

    @property
    def id(self) -> str:
        return f"{self.area}.{self.name}"

    def problems(self, series: str, line: Mapping[str, object]) -> list[str]:
        """Return why a line of tests.contract.run differs from the table for this series."""
        if "failed" in line:
            return [str(line["failed"])]
        seen: Observation = line["seen"]  # type: ignore[assignment]  # from JSON
        return list(differences(seen, self.expect.of(series)))


_TABLE: dict[str, Behaviour] = {}


def behaviour(*, cites: str, expect: Expected | Since) -> Callable[[Run], Run]:
    """Add a function to the table; its id is the names of its module and of the function."""

    def enter(run: Run) -> Run:
        says = " ".join((run.__doc__ or "").split())
        if not says or not cites:
            raise ValueError(f"{run.__name__}: a behaviour says what it is and cites who does it")
        by_series = expect if isinstance(expect, Since) else Since({SERIES[0]: expect})
        area = run.__module__.rpartition(".")[2]
        entry = Behaviour(area, run.__name__, says, cites, by_series, run)
        if entry.id in _TABLE:
            raise ValueError(f"{entry.id} is in the table twice")
        _TABLE[entry.id] = entry
        return run

    return enter


def table() -> tuple[Behaviour, ...]:
    """Return all behaviours, in the order of AREAS and of each module."""
    for area in AREAS:
        import_module(area)
    return tuple(_TABLE.values())


def agrees(seen: Observation, wanted: Expected) -> bool:
    """True if the seen value is as expected; a Rule can replace any part of the expected value."""
    if isinstance(wanted, Mapping):
        return (
            isinstance(seen, Mapping)
            and seen.keys() == wanted.keys()
            and all(agrees(seen[name], wanted[name]) for name in wanted)
        )
    if isinstance(wanted, Sequence) and not isinstance(wanted, str):
        return (
            isinstance(seen, Sequence)
            and not isinstance(seen, str)
            and len(seen) == len(wanted)
            and all(agrees(left, right) for left, right in zip(seen, wanted, strict=True))
        )
    if wanted is None or isinstance(wanted, bool | int | float | str):
        # 1 == True in Python, and never in the table.
        return type(seen) is type(wanted) and seen == wanted
    return wanted.agrees(seen)


def differences(seen: Observation, wanted: Expected, where: str = "") -> Iterator[str]:
    """Return a sentence for each part of the seen value that is not as expected."""
    if isinstance(wanted, Told):
        wanted = wanted.value
    if isinstance(wanted, Mapping) and isinstance(seen, Mapping):
        for name in sorted(seen.keys() | wanted.keys()):
            path = f"{where}.{name}".lstrip(".")
            if name not in seen:
                yield f"{path}: missing, expected {wanted[name]!s}"
            elif name not in wanted:
                yield f"{path}: unexpected {seen[name]!r}"
            else:
                yield from differences(seen[name], wanted[name], path)
    elif not agrees(seen, wanted):
        yield f"{where or 'seen'}: {seen!r}, expected {wanted!s}"
