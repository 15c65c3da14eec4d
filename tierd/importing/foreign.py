"""A policy of damo or HMSDK as one frozen value, whatever it was written in.

Each part knows its place and how its author wrote it. Two values are equal if they mean the same:
places and words are not compared.
"""

from dataclasses import field
from enum import StrEnum
from fractions import Fraction
from typing import Generic, TypeVar

from tierd.configuration.yamltext import FilePlace
from tierd.frozen import dataclass
from tierd.units import VALUE_MAX

T = TypeVar("T")

# What damo writes as `max`.
MAX = VALUE_MAX

# The words of a value that is a default of damo, which the author did not write.
UNSAID = "damo's default"

HOT, COLD = "migrate_hot", "migrate_cold"
MOVING = (HOT, COLD)
ACTIONS = (
    *MOVING,
    "willneed",
    "cold",
    "pageout",
    "hugepage",
    "nohugepage",
    "collapse",
    "lru_prio",
    "lru_deprio",
    "stat",
)
OPERATIONS = ("paddr", "vaddr", "fvaddr")
METRICS = (
    "user_input",
    "some_mem_psi_us",
    "node_mem_used_bp",
    "node_mem_free_bp",
    "node_memcg_used_bp",
    "node_memcg_free_bp",
    "active_mem_bp",
    "inactive_mem_bp",
    "node_eligible_mem_bp",
)
# Metrics whose target is a share. damo takes a percentage for these.
SHARES = (*METRICS[2:6], "active_mem_bp", "inactive_mem_bp")
TUNERS = ("consist", "temporal")
FILTERS = (
    "anon",
    "active",
    "memcg",
    "young",
    "hugepage_size",
    "unmapped",
    "addr",
    "target",
    "probe_hits_wsum",
)
WATERMARKS = ("none", "free_mem_rate")


@dataclass(frozen=True, slots=True)
class Given(Generic[T]):
    """A value that the policy gives, in the words of its author."""

    value: T
    said: str = field(compare=False)
    """For example `sz_bytes 50.000 GiB` or `--damos_quota_space 200MB`."""
    place: FilePlace = field(compare=False)


class Unit(StrEnum):
    """What an access count or an age is counted in."""

    share = "share"
    samples = "samples"
    us = "us"
    aggregations = "aggr_intervals"


@dataclass(frozen=True, slots=True)
class Amount:
    """An access count or an age."""

    value: Fraction
    unit: Unit


@dataclass(frozen=True, slots=True)
class Bounds(Generic[T]):
    """The smallest and the largest value; None if the policy does not give it."""

    least: Given[T] | None = None
    most: Given[T] | None = None


@dataclass(frozen=True, slots=True)
class Goal:
    """A goal of a quota."""

    metric: Given[str]
    target: Given[int]
    """In basis points if the metric is a share."""
    node: Given[int] | None = None
    complement: bool = False


@dataclass(frozen=True, slots=True)
class Quota:
    """How much a scheme may do."""

    time_us: Given[int] | None = None
    size_bytes: Given[int] | None = None
    reset_us: Given[int] | None = None
    weights: Given[str] | None = None
    """Only shown: tierd has its own."""
    goals: tuple[Goal, ...] = ()
    tuner: Given[str] | None = None


@dataclass(frozen=True, slots=True)
class Filter:
    """A filter of a scheme."""

    type: Given[str]
    matching: bool
    allow: bool
    path: str = ""
    """Of a memcg filter."""


@dataclass(frozen=True, slots=True)
class Scheme:
    """What is done with which memory."""

    action: Given[str]
    targets: tuple[Given[int], ...] = ()
    """The nodes that memory moves to; more than one if there are `dests`."""
    sizes: Bounds[int] = Bounds()
    accesses: Bounds[Amount] = Bounds()
    ages: Bounds[Amount] = Bounds()
    apply_us: Given[int] | None = None
    quota: Quota = Quota()
    watermarks: Given[str] | None = None
    filters: tuple[Filter, ...] = ()


@dataclass(frozen=True, slots=True)
class IntervalsGoal:
    """What the kernel tunes its intervals by."""

    access_bp: Given[int]
    aggrs: Given[int]
    sample_us_min: Given[int]
    sample_us_max: Given[int]


@dataclass(frozen=True, slots=True)
class Context:
    """What is watched, how, and what is done with it."""

    operations: Given[str]
    nodes: tuple[Given[int], ...] = ()
    """The nodes that are watched; a file has their addresses instead."""
    ranges: tuple[Given[tuple[int, int]], ...] = ()
    sample_us: Given[int] | None = None
    aggr_us: Given[int] | None = None
    update_us: Given[int] | None = None
    goal: IntervalsGoal | None = None
    regions: Bounds[int] = Bounds()
    schemes: tuple[Scheme, ...] = ()


@dataclass(frozen=True, slots=True)
class ForeignPolicy:
    """All that a policy says."""

    contexts: tuple[Context, ...]
    extras: tuple[Given[str], ...] = ()
    """What tierd has no words for; the value is the name that damo's files have for it."""
    stops_damon_stat: Given[bool] | None = None
    demotes_in_reclaim: Given[bool] | None = None
