"""What one round knows: each migration, and each fast node with the migrations to and from it.

Pure. `promotion` and `demotion` decide by a FastNode. Each decision is a Want.
"""

from collections.abc import Collection, Iterator, Mapping
from math import inf

from tierd.frozen import dataclass, replace
from tierd.plans.plan import Direction, Migration, Sweep, Visit
from tierd.plans.sampling import SAMPLED_S_MIN
from tierd.plans.visits import makes_room
from tierd.topology import huge_page_bytes
from tierd.tuner.gate import Bar, fitting_bytes
from tierd.tuner.habit import Habit
from tierd.tuner.heat import Heat
from tierd.tuner.latencies import NO_ANSWERS, Answers
from tierd.tuner.measurement import Limits, Measurement, NodeMeasurement, SchemeMeasurement
from tierd.units import BP_MAX

# Seconds in which a scheme pays back what it moved beyond its rate, and in which missing room is
# made.
CLEAR_S = 1.0

# If the loop comes late, what lacks is made up more slowly: until the next look at most so many
# times what lacks. Quotas go on without tierd, in each window.
LATE_MAX = 2.0

# Seconds in which the heat below is moved, if the rate limit allows: heat that lasts, heat that is
# new, and faint heat. New heat may go again, and faint heat is worth little (docs/constants.md).
HEAT_CLEAR_S = 0.25
NEW_CLEAR_S = 4.0
FAINT_CLEAR_S = 12.0

# New heat uses this share of the rate at most. A single reading of a large node shows much heat by
# chance, and the next one tells.
NEW_SHARE = 1 / 8

# A huge page needs free memory of its size above the watermark. Up to three may be on their
# way at once. With less room, kernels 6.17 to 7.2 copy it to its own node.
HUGE_ROOM_PAGES = 3

# Hot memory may be huge pages if the huge pages of its node are more than this share of its heat.
# Only then is room kept for them, because nothing else uses that room.
HUGE_SHARE = 0.5

# The quota in bytes of a scheme that waits for room. Three doublings later it is enough for 20
# MB/s, and until then little moves in vain. It is never more than the bytes to move
# (docs/constants.md).
READY_BYTES = 256 << 10

# Where the rate limit is high, it is this share of what the limit allows in a window: so that from
# there to the limit it takes seven doublings, on a node of any size.
READY_SHARE = 1 / 80

# The share of the bandwidth that firmware tells from which on a node counts as saturated. Memory
# reaches 80 to 90 % of it in practice, and answers much later before it does.
SATURATED = 0.75

# Share of a node. Less than this is noise of sampling.
DEAD_SHARE = 0.002

# Promotion stops if tasks wait for memory for more than this share of the time, averaged over
# seconds.
PRESSURE_MAX = 0.05

# Nobody waits for memory of a node that has this part of its headroom free above the mark. Somebody
# may wait elsewhere: for another node, or within the limit of a cgroup.
TIGHT_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class Want:
    """What a scheme should move per second and per window, and why."""

    bytes_per_s: float
    reason: str
    quota_bytes: int = 0
    bytes_max: float = inf
    """The most that it may move until the next round, if all that is tried moves."""
    bar: Bar | None = None
    """The bar of a sweep; None for a scheme that goes by regions."""


@dataclass(frozen=True, slots=True)
class Flow:
    """A migration, and all that the round knows of it."""

    migration: Migration
    scheme: SchemeMeasurement
    habit: Habit
    source: NodeMeasurement
    target: NodeMeasurement
    heat: Heat
    """The heat of the source."""
    sharing: int
    """How many migrations have this source and direction. They share what they find there."""
    nearer_bytes_per_s: float = 0.0
    """How much of its rate nearer nodes use, if it is a fallback."""

    @property
    def rate_max_bytes_per_s(self) -> float:
        """What the scheme may move now: its rate, less what it moved beyond its rate before."""
        rate = self.migration.rate_max_bytes_per_s - self.nearer_bytes_per_s
        return max(0.0, rate - self.habit.debt_bytes / CLEAR_S)

    @property
    def heat_bytes(self) -> float:
        return self.heat.all_bytes / self.sharing

    @property
    def slow_bytes_per_s(self) -> float:
        """How fast faint and new heat should move."""
        alike = 1 if self.migration.fallback else self.sharing
        waits, most = self.heat, NEW_SHARE * self.migration.rate_max_bytes_per_s * alike
        return min(most, waits.new_bytes / NEW_CLEAR_S) + waits.faint_bytes / FAINT_CLEAR_S

    @property
    def pace_bytes_per_s(self) -> float:
        """How fast the heat of the source should move, within the rate."""
        wanted = self.heat.lasting_bytes / HEAT_CLEAR_S + self.slow_bytes_per_s
        return min(self.rate_max_bytes_per_s, wanted / self.sharing)

    @property
    def waiting_bytes(self) -> float:
        """The hot bytes on the source that this migration should move.

        A region is larger than its hot part. So the bytes are multiplied by the share of tried
        memory that moved lately.
        """
        hot = self.source.hot_bytes or 0
        return hot * self.habit.least_moved(self.migration) / self.sharing

    @property
    def may_be_huge(self) -> bool:
        """Whether hot memory may be huge pages. A quota of a page moves a whole one."""
        huge, heat = self.source.huge_bytes, HUGE_SHARE * self.source.heat_bytes
        return huge > max(dead_bytes(self.source), heat)

    def ready_bytes(self, coming_bytes_per_s: float) -> int:
        """Return the quota of a scheme that waits, while so much comes up."""
        most = READY_SHARE * self.migration.rate_max_bytes_per_s * self.habit.window_s
        return int(min(max(READY_BYTES, most), coming_bytes_per_s * self.habit.window_s))


# If so much is lacking below the kernel's mark, as a share of the node, room is needed now.
SHORT_SHARE = 0.01


@dataclass(frozen=True, slots=True)
class FastNode:
    """A node that memory is promoted to or demoted from, and all that the round knows of it."""

    id: int
    now: NodeMeasurement
    ups: tuple[Flow, ...]
    """The promotions to this node."""
    downs: tuple[Flow, ...]
    """The demotions from this node."""
    measurement: Measurement
    limits: Limits
    pressure: float
    """Share of the time that tasks waited for memory, lately."""
    answers: Answers = NO_ANSWERS
    """How late it answers, beside the nodes that its memory comes up from."""

    @property
    def waits(self) -> str:
        """Why nothing should come up to a node for whose memory tasks wait; empty if none does."""
        # The kernel counts stalls and the time of waiting for the whole machine.
        stalls = self.now.stalls + (self.measurement.stalls if self._is_tight else 0)
        if stalls:
            return f"{stalls} allocations had to wait"
        if self._is_tight and self.pressure > PRESSURE_MAX:
            return f"tasks wait for memory {self.pressure:.1%} of the time"
        return ""

    @property
    def _is_tight(self) -> bool:
        free = self.now.free_bytes
        if self.now.least_free_bytes is not None:
            free = min(free, self.now.least_free_bytes)
        headroom_bytes = self.now.total_bytes * self.limits.headroom_bp / BP_MAX
        return free < self.now.mark_bytes + TIGHT_SHARE * headroom_bytes

    @property
    def busy(self) -> str:
        """Why its bandwidth is the limit; empty if it is not known to be.

        More hot memory would then only make it busier.
        """
        if self.now.bandwidth_used >= SATURATED:
            return f"{self.now.bandwidth_used:.0%} of the bandwidth of node {self.id} is in use"
        if self.answers.is_late:
            return (
                f"node {self.id} answers in {self.answers.fast_ns:.0f} ns and slower memory in "
                f"{self.answers.slow_ns:.0f} ns"
            )
        return ""

    def goes_by_page(self, fits_bytes: Mapping[int, float]) -> bool:
        """Whether visits to its pages make all the room that is wanted, and are quick enough.

        Each slower node has room for so much of `fits_bytes`.
        """
        return self.is_visited(fits_bytes) and any(
            makes_room(sweep, flow.migration.rate_max_bytes_per_s)
            for sweep in self.limits.sweeps
            for flow in self.downs
            if sweep.visit is Visit.demote and sweep.beside == flow.migration.id
        )

    def is_visited(self, fits_bytes: Mapping[int, float]) -> bool:
        """Whether visits to its pages can make the room for what comes up by page."""
        return any(
            sweep.node == self.id
            and sweep.visit is Visit.demote
            and can_be_visited(self.now, sweep)
            and fitting_bytes(sweep) <= fits_bytes[sweep.target_node]
            for sweep in self.limits.sweeps
        )

    @property
    def sweep_bytes_per_s(self) -> float:
        """How fast the sweeps whose pages come up to this node visit memory together.

        A sweep to a fallback runs seldom. It counts where it is the only one.
        """
        mine = [
            one
            for one in self.limits.sweeps
            if one.visit is Visit.promote and one.target_node == self.id
        ]
        return sum(one.bytes_per_s for one in [s for s in mine if not s.fallback] or mine)

    @property
    def short_bytes(self) -> int:
        """The free memory below which room is needed now, whatever has to go."""
        return self.now.mark_bytes - round(SHORT_SHARE * self.now.total_bytes)

    @property
    def promoted_bytes(self) -> int:
        """What came up by regions."""
        return sum(flow.scheme.applied_bytes for flow in self.ups)

    @property
    def joined_bytes(self) -> int:
        """What came up by regions to the nodes from which memory comes up to this one."""
        below = {flow.migration.source_node for flow in self.ups}
        return sum(
            self.measurement.schemes[one.id].applied_bytes
            for one in self.limits.migrations
            if one.direction is Direction.promote and one.target_node in below
        )

    @property
    def heat_above_bytes(self) -> int:
        """The heat of the node, and of those that its memory goes up to."""
        above = {self.id}
        goes_up = [
            one
            for one in self.limits.migrations
            if one.direction is Direction.promote and not one.fallback
        ]
        for _ in goes_up:
            above |= {one.target_node for one in goes_up if one.source_node in above}
        return sum(self.measurement.nodes[one].heat_bytes for one in above)

    @property
    def came_otherwise_bytes(self) -> int:
        """What came by other moves: up by pages or hint faults, and down from a faster node."""
        moved = self.limits.moved_bytes(self.measurement, to=self.id)
        return moved - self.promoted_bytes + self.now.hinted_bytes

    @property
    def left_bytes(self) -> int:
        """What left the node, up and down, by regions and by pages."""
        return self.limits.moved_bytes(self.measurement, source=self.id)

    @property
    def must_have_room(self) -> bool:
        """Whether other nodes demote to it, on a machine with swap."""
        return self.limits.swaps and any(
            one.direction is Direction.demote and one.target_node == self.id
            for one in self.limits.migrations
        )

    @property
    def dead_bytes(self) -> float:
        return dead_bytes(self.now)

    @property
    def clear_s(self) -> float:
        """In how many seconds what lacks should be made up."""
        return max(CLEAR_S, self.measurement.blind_s / LATE_MAX)

    @property
    def heat_below_bytes(self) -> float:
        """The heat that can come up."""
        return sum(flow.heat_bytes for flow in self.ups)

    @property
    def cold_bytes(self) -> float:
        """The cold memory that is not free, or 0 if it is too little to move."""
        cold = max(0, (self.now.cold_bytes or 0) - self.now.free_bytes)
        return 0.0 if cold < self.dead_bytes else cold

    def floor_bytes(self, headroom_bytes: int) -> int:
        """Return what stays free when memory comes up by regions.

        If the node has cold memory, promotion may use the headroom: demotion fills it again.
        """
        return self.now.mark_bytes if self.cold_bytes else headroom_bytes

    @property
    def cold_share(self) -> float | None:
        """The cold share of the node. It is not known without a sensor, nor without memory."""
        if self.now.cold_bytes is None or not self.now.total_bytes:
            return None
        return self.cold_bytes / self.now.total_bytes

    @property
    def huge_room_bytes(self) -> int:
        """The bytes above the mark that huge pages need to arrive."""
        room_bytes = HUGE_ROOM_PAGES * huge_page_bytes(self.limits.page_bytes)
        return room_bytes if any(flow.may_be_huge for flow in self.ups) else 0

    def with_quota(self, want: Want, flow: Flow) -> Want:
        """Return the want with a quota per window. It is larger if failed tries use up quota."""
        habit = flow.habit
        bytes_ = habit.quota_for(want.bytes_per_s, flow.rate_max_bytes_per_s)
        if self.limits.charges_failures:
            bytes_ /= habit.least_moved(flow.migration)
            bytes_ = min(bytes_, want.bytes_max * habit.window_s / self.measurement.blind_s)
        quota_bytes = max(want.quota_bytes, int(bytes_))
        return replace(want, quota_bytes=min(flow.migration.quota_bytes_max, quota_bytes))


def can_be_visited(node: NodeMeasurement, sweep: Sweep) -> bool:
    """Return whether samples leave pages young for long enough that visits tell what is idle."""
    huge_pages = node.huge_bytes / huge_page_bytes(sweep.page_bytes)
    small_pages = (node.total_bytes - node.huge_bytes) / sweep.page_bytes
    return huge_pages + small_pages >= SAMPLED_S_MIN * sweep.samples_per_s


def dead_bytes(node: NodeMeasurement) -> float:
    """Return the bytes of a node below which a count is noise."""
    return node.total_bytes * DEAD_SHARE


def fast_nodes(
    measurement: Measurement,
    limits: Limits,
    habits: Mapping[str, Habit],
    heats: Mapping[int, Heat],
    pressure: float,
    answers: Mapping[int, Answers],
    needed: Collection[str] = (),
) -> Iterator[FastNode]:
    """Yield each node that memory is promoted to or demoted from, in the order of their ids.

    Of the promotions to fallbacks only those that are `needed` are there.
    """
    nodes = measurement.nodes
    ends = [(one.direction, one.source_node, one.fallback) for one in limits.migrations]
    ups: dict[int, list[Flow]] = {}
    downs: dict[int, list[Flow]] = {}
    for one in limits.migrations:
        source, target = one.source_node, one.target_node
        flow = Flow(
            migration=one,
            scheme=measurement.schemes[one.id],
            habit=habits[one.id],
            source=nodes[source],
            target=nodes[target],
            heat=heats[source],
            sharing=ends.count((one.direction, source, one.fallback)),
            nearer_bytes_per_s=_nearer_bytes_per_s(one, measurement, limits),
        )
        if one.direction is Direction.promote and (not one.fallback or one.id in needed):
            ups.setdefault(target, []).append(flow)
        elif one.direction is Direction.demote:
            downs.setdefault(source, []).append(flow)
    for node in sorted(ups.keys() | downs.keys()):
        both = tuple(ups.get(node, ())), tuple(downs.get(node, ()))
        answer = answers.get(node, NO_ANSWERS)
        yield FastNode(node, nodes[node], *both, measurement, limits, pressure, answer)


def _nearer_bytes_per_s(one: Migration, seen: Measurement, limits: Limits) -> float:
    """Return what moves up to nearer nodes than a fallback. Demotion divides its rate itself."""
    if not one.fallback or one.direction is not Direction.promote:
        return 0.0
    ends = one.source_node, one.direction, False
    nearer = (
        seen.schemes[two.id].applied_bytes
        for two in limits.migrations
        if (two.source_node, two.direction, two.fallback) == ends
    )
    return sum(nearer) / seen.seconds
