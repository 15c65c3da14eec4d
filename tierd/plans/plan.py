"""A plan: what tierd does on this machine, why, and the writes that make the kernel do it."""

from enum import StrEnum

from tierd.configuration.config import Mode, Promoter
from tierd.frozen import dataclass
from tierd.plans.damon import (
    GATE_CLOSED,
    GATE_OPEN,
    Action,
    Kdamond,
    Metric,
    Write,
    Writes,
    fingerprint,
    gate_paths,
    input_path,
    quota_path,
)
from tierd.plans.groups import Group
from tierd.plans.scope import Match
from tierd.units import BP_MAX

TARGET = 10_000
"""The target_value of a goal that tierd steers. An input of the same value keeps the quota."""

# The input of a goal with which a quota doubles in every window: it is a score of zero.
GROWING_INPUT = 0

# The inputs of a sweep. Its goal has the tuner `temporal`: it is reached, or it is not. Where
# commits open sweeps, an input between these two stands for one that is open and slower. It is
# slower by the share input / TARGET of its speed.
OPEN_INPUT = 0
CLOSED_INPUT = 2 * TARGET


def is_open(value: int) -> bool:
    """Return whether a sweep with this input is open."""
    return value < TARGET


class Direction(StrEnum):
    """The direction in which pages move. Its value is the first part of a scheme's id."""

    promote = "promote"
    demote = "demote"
    evict = "evict"
    """To storage, from a node that has no slower one: page cache is dropped, and the rest goes to
    swap. The target of such a migration is its source."""


ACTIONS = {
    Direction.promote: Action.migrate_hot,
    Direction.demote: Action.migrate_cold,
    Direction.evict: Action.pageout,
}


class Grain(StrEnum):
    """What a migration tells hot memory from cold memory by."""

    regions = "regions"
    """Access counts of whole regions."""
    pages = "pages"
    """Visits to single pages."""


class Visit(StrEnum):
    """What a sweep does with each page that it visits. Each visit makes the page old."""

    promote = "promote"
    """Moves the page up if it is young: touched since the last visit."""
    demote = "demote"
    """Moves the page down if it is old."""
    clear = "clear"
    """Moves nothing. A visit to promote follows a short time later."""
    push = "push"
    """Moves the page down, whether it is young or old, if it belongs to a group that has more than
    its share of the fast memory."""
    relieve = "relieve"
    """Moves the page down if it is young: the node is so busy that slower memory answers sooner."""
    age = "age"
    """Moves nothing. A visit to demote follows after the idle time."""


FEW = (Visit.push, Visit.relieve)
"""The visits that move few of the pages that they pass, and take hot ones."""


class Controller(StrEnum):
    """The part that sets the quotas, within their limit."""

    kernel = "kernel"
    """The kernel's own node goals."""
    emulated = "emulated"
    """tierd, by the same formula as the kernel's node goals."""
    demand = "demand"
    """tierd, by how much is hot on slower nodes and cold on faster ones."""


@dataclass(frozen=True, slots=True)
class TunerChoice:
    """Who steers the quotas, and why."""

    loop: Controller
    reason: str


AS_CONFIGURED = "as configured"


@dataclass(frozen=True, slots=True)
class PromoterChoice:
    """What promotes, and why. `promoter` is never `auto`."""

    promoter: Promoter
    reason: str

    @property
    def hints(self) -> bool:
        """True if hint faults promote, and no scheme of tierd does."""
        return self.promoter is Promoter.numa_balancing


@dataclass(frozen=True, slots=True)
class HintFaults:
    """What the hint faults of NUMA balancing bring up to one node."""

    id: str
    """`hint-faults-0` brings pages up to node 0."""
    node: int
    sources: tuple[int, ...]
    """The nodes that pages come from."""
    rate_max_bytes_per_s: float
    reason: str


@dataclass(frozen=True, slots=True)
class Aim:
    """The share of a node, in 1/10000, at which a scheme stops."""

    metric: Metric
    node: int
    target_bp: int

    def measured_bp(self, total_bytes: int, free_bytes: int) -> int:
        """Return the share of the node now, as the kernel measures it (damos_get_node_mem_bp())."""
        if not total_bytes:
            return 0
        free = self.metric is Metric.node_mem_free_bp
        return (free_bytes if free else total_bytes - free_bytes) * BP_MAX // total_bytes


@dataclass(frozen=True, slots=True)
class Migration:
    """One scheme that moves pages. `id` is stable: `promote-1-0` moves from node 1 to node 0."""

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
    """Bytes per window. It is more than the rate where the kernel charges failed tries."""
    window_us: int
    reason: str
    grain: Grain = Grain.regions
    files_only: bool = False
    """Whether it moves page cache only, because there is no swap for the rest."""
    fallback: bool = False
    """Whether nearer nodes come first: it moves what they have no room for, within their rate."""

    @property
    def begins_ready(self) -> bool:
        """True if its quota grows at the start. Others wait until something asks for them."""
        return self.direction is not Direction.evict and not self.fallback


@dataclass(frozen=True, slots=True)
class Sweep:
    """A scheme that visits all pages of a node in the order of their addresses.

    It is open or closed. While it is closed it stays where it is. A sweep that moves pages is also
    a migration, with the same id.
    """

    id: str
    visit: Visit
    node: int
    target_node: int
    """The node that pages move to. A sweep that moves nothing has one too: DAMON wants it."""
    kdamond: int
    scheme: int
    quota_bytes: int
    """The memory that it visits in one window."""
    window_us: int
    first_lag_us: int
    """How long before the visit of a page another sweep clears it, at first: a window or more."""
    page_bytes: int
    round_bytes: int
    """The memory that it visits in one round."""
    samples_per_s: float
    """How many pages of the node DAMON samples per second, at most. A sample makes a page old."""
    gated: bool
    """True if watermarks open and close it; else the input of its goal does."""
    fallback: bool = False
    """Whether nearer nodes come first, as for the migration by regions beside it."""

    @property
    def bytes_per_s(self) -> float:
        """How much memory it visits per second."""
        return self.quota_bytes * 1e6 / self.window_us

    @property
    def moves(self) -> bool:
        return self.visit not in (Visit.clear, Visit.age)

    @property
    def passes_cheaply(self) -> bool:
        """Whether a page that it passes uses up less quota than one that it moves.

        Where its gate is no watermark, the kernel has fail_charge too.
        """
        return self.visit in FEW and not self.gated

    @property
    def beside(self) -> str:
        """The id of the migration by regions that has the same source, target and rate."""
        way = Direction.promote if self.visit is Visit.promote else Direction.demote
        return f"{way}-{self.node}-{self.target_node}"


class Sense(StrEnum):
    """What a `stat` scheme counts in each window. It moves nothing, so it has no limit."""

    all = "all"
    """All memory. This is a clock: each window adds the size of the whole node."""
    hot = "hot"
    """Memory that promotion would move."""
    heat = "heat"
    """The part of hot memory that is accessed more often than a bound."""
    cold = "cold"
    """Memory that demotion would move."""


@dataclass(frozen=True, slots=True)
class Sensor:
    """One `stat` scheme of the plan."""

    sense: Sense
    node: int
    kdamond: int
    scheme: int
    weight: float = 0.0
    """How much each counted byte adds to the heat of the node, in bytes accessed all the time."""
    accesses_min: int = 0
    """The least access count of the regions that it counts."""


@dataclass(frozen=True, slots=True)
class Watch:
    """One kdamond of the plan and the node that it watches. The `id` is, for example, `watch-1`."""

    id: str
    index: int
    node: int
    reason: str


@dataclass(frozen=True, slots=True)
class Knob:
    """A kernel setting outside DAMON that tierd changes while it runs, and puts back after.

    A setting that the machine lacks, or that already has the value, is left alone. Some settings
    change while tierd runs: then `value` is the most.
    """

    id: str
    path: str
    value: str
    reason: str


@dataclass(frozen=True, slots=True)
class Plan:
    """All that tierd wants the kernel to do. `writes` builds it, in order."""

    mode: Mode
    tuner: TunerChoice
    kdamonds: tuple[Kdamond, ...]
    watches: tuple[Watch, ...]
    migrations: tuple[Migration, ...]
    sensors: tuple[Sensor, ...]
    sweeps: tuple[Sweep, ...]
    knobs: tuple[Knob, ...]
    writes: Writes
    nodes: tuple[int, ...]
    """The nodes of the plan. If one has no memory any more, the plan is not valid."""
    page_bytes: int
    """The size of a page: no region is smaller, and a quota below it moves nothing."""
    cost_bp: int = 0
    """Share of a processor, in 1/10000, that visits may take of each kdamond."""
    degraded: tuple[str, ...] = ()
    """What this kernel cannot do of the plan, as sentences with the reason."""
    cgroups: tuple[Match, ...] = ()
    """The cgroup classes, with the cgroups that match them now."""
    groups: tuple[Group, ...] = ()
    """The groups of cgroups that share the fastest tier."""
    promoter: PromoterChoice = PromoterChoice(Promoter.damon, AS_CONFIGURED)
    hint_faults: tuple[HintFaults, ...] = ()
    """What hint faults bring up, if they promote."""

    @property
    def fingerprint(self) -> str:
        """A hash that is equal for plans with the same writes and the same settings."""
        return fingerprint((*self.writes, *(Write(knob.path, knob.value) for knob in self.knobs)))

    @property
    def grows_at_start(self) -> bool:
        """True if the quotas of new kdamonds should grow before tierd writes their first inputs.

        This is so with the tuner `demand`, unless the schemes only count.
        """
        return self.tuner.loop is Controller.demand and self.mode is not Mode.observe

    @property
    def writes_at_start(self) -> Writes:
        """The writes that build new kdamonds. If `grows_at_start`, the inputs make quotas grow."""
        if not self.grows_at_start:
            return self.writes
        begun = [input_writes(one, GROWING_INPUT) for one in self.of_regions if one.begins_ready]
        first = {one.path: one.value for listed in begun for one in listed}
        return tuple(Write(one.path, first.get(one.path, one.value)) for one in self.writes)

    @property
    def steered(self) -> tuple[Migration | Sweep, ...]:
        """The schemes that tierd steers."""
        return (*self.of_regions, *self.sweeps)

    @property
    def of_regions(self) -> tuple[Migration, ...]:
        """The migrations that regions steer."""
        return tuple(one for one in self.migrations if one.grain is Grain.regions)

    def series(self, migration: Migration) -> str:
        """Return the name for the totals of a scheme. `observe` has totals of its own."""
        return migration.id if self.mode is Mode.manage else f"{migration.id}:{self.mode}"

    def migration(self, kdamond: int, scheme: int) -> Migration | None:
        """Return the migration of a scheme in the kernel; None if the scheme is a sensor."""
        wanted = (kdamond, scheme)
        return next((one for one in self.migrations if (one.kdamond, one.scheme) == wanted), None)


def input_writes(mover: Migration | Sweep, value: int) -> Writes:
    """Return the writes that give a scheme this input, once they are committed."""
    if isinstance(mover, Sweep) and mover.gated:
        text = GATE_OPEN if is_open(value) else GATE_CLOSED
        gates = tuple(Write(path, text) for path in gate_paths(mover.kdamond, mover.scheme))
        return (*gates, _speed(mover, value)) if is_open(value) else gates
    return (Write(input_path(mover.kdamond, mover.scheme), str(value)),)


def _speed(sweep: Sweep, value: int) -> Write:
    """Return the write of the quota of an open sweep: whole pages, and one at least.

    With less than a page it would not go on, and with a part of a page it would begin again.
    """
    pages = sweep.quota_bytes * (TARGET - value) // TARGET // sweep.page_bytes
    quota_bytes = min(sweep.quota_bytes, max(1, pages) * sweep.page_bytes)
    return Write(quota_path(sweep.kdamond, sweep.scheme), str(quota_bytes))
