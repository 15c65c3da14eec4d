"""A plan: what tierd intends on this machine, why, and the writes that carry it out."""

from dataclasses import dataclass
from enum import StrEnum

from tierd.configuration.config import Mode
from tierd.plans.damon import Kdamond, Metric, Write, Writes, fingerprint
from tierd.units import BP_MAX


class Direction(StrEnum):
    """Which way pages go; the value leads the id of a scheme."""

    promote = "promote"
    demote = "demote"


class Loop(StrEnum):
    """Who steers the quotas below their limit."""

    kernel = "kernel"
    """The kernel's own node goals."""
    emulated = "emulated"
    """The kernel's law, of shares that tierd measures."""
    demand = "demand"
    """tierd, by what is hot below and cold above."""


@dataclass(frozen=True, slots=True)
class TunerChoice:
    """Who steers, and why it is this one."""

    loop: Loop
    reason: str


@dataclass(frozen=True, slots=True)
class Aim:
    """The share of a node, in 1/10000, at which a scheme stops; known whoever steers."""

    metric: Metric
    node: int
    target_bp: int

    def measured_bp(self, total_bytes: int, free_bytes: int) -> int:
        """Where its node is, as the kernel would measure it (damos_get_node_mem_bp())."""
        free = self.metric is Metric.node_mem_free_bp
        return (free_bytes if free else total_bytes - free_bytes) * BP_MAX // total_bytes


@dataclass(frozen=True, slots=True)
class Item:
    """One scheme of the plan. `id` is stable: `promote-1-0` moves from node 1 to node 0."""

    id: str
    direction: Direction
    source_node: int
    target_node: int
    kdamond: int
    scheme: int
    """Index within the kdamond's context."""
    aim: Aim
    rate_max_bytes_per_s: float
    quota_bytes_max: int
    """Per window; more than the rate where a kernel charges what could not be moved."""
    window_us: int
    reason: str


class Sense(StrEnum):
    """What a `stat` scheme, which moves nothing and has no limit, adds up in each window."""

    all = "all"
    """Everything: a clock, since each window adds the size of the whole node."""
    hot = "hot"
    """What promotion would take."""
    heat = "heat"
    """The part of that which is accessed more often than a bound."""
    cold = "cold"
    """What demotion would take."""


@dataclass(frozen=True, slots=True)
class Sensor:
    """One `stat` scheme of the plan."""

    sense: Sense
    node: int
    kdamond: int
    scheme: int
    weight: float = 0.0
    """What each byte of it adds to the heat of the node, in bytes that are always accessed."""


@dataclass(frozen=True, slots=True)
class KdamondItem:
    """One kdamond of the plan and the node that it watches; `id` is `watch-1`."""

    id: str
    index: int
    node: int
    reason: str


@dataclass(frozen=True, slots=True)
class Knob:
    """A setting outside of DAMON's tree that is changed while running, and put back after.

    A knob that the machine lacks, or that stands right already, is left alone.
    """

    id: str
    path: str
    value: str
    reason: str


@dataclass(frozen=True, slots=True)
class Plan:
    """The whole intent; `writes` is what builds it in the kernel, in order."""

    mode: Mode
    tuner: TunerChoice
    kdamonds: tuple[Kdamond, ...]
    watches: tuple[KdamondItem, ...]
    items: tuple[Item, ...]
    sensors: tuple[Sensor, ...]
    knobs: tuple[Knob, ...]
    writes: Writes
    nodes: tuple[int, ...]
    """Every node that the plan names; each has memory, or the plan is not valid any more."""
    degraded: tuple[str, ...] = ()
    """What this kernel cannot do of it, each with the reason."""

    @property
    def fingerprint(self) -> str:
        """Equal for plans that leave the kernel, and the settings around DAMON, alike."""
        return fingerprint((*self.writes, *(Write(knob.path, knob.value) for knob in self.knobs)))

    def series(self, item: Item) -> str:
        """The name of a scheme's totals: what was moved, and what only would have been."""
        return item.id if self.mode is Mode.manage else f"{item.id}:{self.mode}"

    def item(self, kdamond: int, scheme: int) -> Item | None:
        """The item that a scheme of the kernel belongs to; None for a sensor."""
        wanted = (kdamond, scheme)
        return next((item for item in self.items if (item.kdamond, item.scheme) == wanted), None)
