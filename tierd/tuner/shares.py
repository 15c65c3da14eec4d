"""Decide whose memory moves where groups of cgroups share the fast memory. Pure.

Rules of this file:
1. The share of a group is its floor, and by weight a part of what no floor takes. What it does not
   use is lent to others, until it asks for it.
2. A group asks if it lacks some of its share and its memory comes up. That is seen by the kernel's
   count of its bytes on each node: it rises on fast nodes while it falls on slow ones.
3. A group whose memory cannot come up, because the fast nodes are full of hot memory of others, is
   given a chance: it asks for a while. If nothing comes up, the next chance comes later.
4. While the memory of a group that asks comes up, or there is no room for it, groups that have
   their share wait, and those that have more give. A chance with room keeps nothing from others.
"""

from collections.abc import Iterable, Mapping
from dataclasses import field
from math import inf

from tierd.configuration.config import REST, WEIGHT, Moves
from tierd.frozen import dataclass, replace
from tierd.machine.sample import GroupSample
from tierd.plans.groups import NO_ROLES, Roles
from tierd.plans.plan import Direction
from tierd.tuner.measurement import Limits, Measurement
from tierd.units import BP_MAX

# A group has its share if it has less or more by this part of it at most. The kernel's counts of
# cgroups lag behind by less than that.
NEAR_SHARE = 0.02

# A group that has reached its ceiling waits until it is below the ceiling by this part of it. On a
# small node much may come up in the second before it is told to wait.
WAITS_SHARE = 0.1

# A group goes on to ask if RISES_SHARE of what it lacks came up within ASKS_S seconds: at that pace
# all of it would take a minute. Others wait meanwhile, so a few pages that come up by chance are no
# rise. A large group is limited by the rate: for it RATE_SHARE of that is enough, because several
# groups may rise at the same time. ASKS_S is also the length of a chance: a round of visits to a
# small node takes 6 s. A second without room for anything to come up, or in which another group
# uses the room, counts as NO_ROOM_WEIGHT of a second. So a chance is longer then, and still ends.
RISES_SHARE = 1 / 6
RATE_SHARE = 1 / 16
ASKS_S = 10.0
NO_ROOM_WEIGHT = 1 / 6

# And at least this part of its share must have come up. The last few percent are often cold, and
# single pages of them come up by chance. Promotion may move a quarter of a percent of the fast
# node per second, so several groups that ask can all rise so fast.
RISES_SHARE_MIN = 1 / 128

# Seconds between two chances in which nothing came up: at first, doubled each time, and at most.
REST_S_MIN = 30.0
REST_S_MAX = 600.0

# The group that is the farthest above its share gives. Another one gives too if it is above its own
# share by at least this part of that. A push takes no more than the one with the least of them can
# give, because nobody knows whose pages the sweep visits first.
GIVES_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class Share:
    """What a group has, and what it should have, in bytes."""

    name: str
    fast_bytes: int
    slow_bytes: int
    floor_bytes: float
    ceiling_bytes: float
    """It is infinite if there is none."""
    share_bytes: float = 0.0
    moves: Moves = Moves.both
    asks: bool = False
    """True if it lacks some of its share, and would use it."""
    holds: bool = False
    """True if others wait or give for it."""

    @property
    def lacks_bytes(self) -> float:
        """What it may get: as much as it has less than its share, and no more than it has below."""
        lacks = max(0.0, self.share_bytes - self.fast_bytes)
        return min(lacks, self.slow_bytes) if lacks > NEAR_SHARE * self.share_bytes else 0.0

    @property
    def over_bytes(self) -> float:
        """What it has beyond its share."""
        over = self.fast_bytes - self.share_bytes
        return over if over > NEAR_SHARE * self.share_bytes else 0.0


@dataclass(frozen=True, slots=True)
class Asking:
    """What is known of a group from round to round."""

    fast_bytes: int
    slow_bytes: int
    asks: bool = False
    holds: bool = False
    """True if others wait or give for it, until it does not ask any more."""
    rose_bytes: float = 0.0
    """What came up within ASKS_S, and has not shown yet that it rises. Older moves weigh less and
    less."""
    sank_bytes: float = 0.0
    """What went down, in the same way."""
    lacks: bool = False
    """True if it lacked some of its share."""
    vain_s: float = 0.0
    """How long there has been room and nothing came up, since it began to ask."""
    rest_s: float = REST_S_MIN
    """How long it rests after a chance in vain."""
    rest_left_s: float = 0.0


@dataclass(frozen=True, slots=True)
class SharesState:
    """What is kept from round to round, by the name of the group."""

    asking: Mapping[str, Asking] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Shared:
    """The groups after a round, and what follows from them."""

    shares: tuple[Share, ...] = ()
    roles: Roles = NO_ROLES
    owed_bytes: float = 0.0
    """What groups that ask lack: room is made for it."""
    giving_bytes: float = 0.0
    """What may be pushed by the filters in force, so that no group falls below its share."""

    @property
    def asked(self) -> bool:
        return self.owed_bytes > 0


def step(
    before: SharesState,
    measurement: Measurement,
    limits: Limits,
    headroom: Mapping[int, int],
    *,
    has_room: bool,
) -> tuple[SharesState, Shared]:
    """Return what is known of the groups after a round, and whose memory moves.

    With `has_room` there is room enough for promotion to begin.
    """
    found = []
    asking = {}
    rate = sum(
        migration.rate_max_bytes_per_s
        for migration in limits.migrations
        if migration.direction is Direction.promote and migration.target_node in limits.fast_nodes
    )
    listed = shares(measurement, limits, headroom)
    rising = {one.name for one in listed if _rises(before.asking.get(one.name), one, measurement)}
    for one in listed:
        known = before.asking.get(one.name)
        free = has_room and rising <= {one.name}
        now = _asked(known, one, measurement.seconds, rate, has_room=free)
        now = replace(now, holds=now.asks and (now.holds or not has_room))
        asking[one.name] = now
        found.append(replace(one, asks=now.asks, holds=now.holds))
    return SharesState(asking), _shared(tuple(found), limits.roles)


def _came_bytes(before: Asking, one: Share) -> int:
    """Return how much came up since the last round; negative if it went down."""
    more, less = one.fast_bytes - before.fast_bytes, before.slow_bytes - one.slow_bytes
    return max(0, min(more, less)) - max(0, min(-more, -less))


def _rises(before: Asking | None, one: Share, measurement: Measurement) -> bool:
    """Return whether memory of a group has just come up at a pace that counts."""
    if before is None:
        return False
    least_bytes = RISES_SHARE_MIN * one.share_bytes * measurement.seconds / ASKS_S
    return _came_bytes(before, one) > least_bytes


def _asked(
    before: Asking | None, one: Share, seconds: float, rate_bytes_per_s: float, *, has_room: bool
) -> Asking:
    """Return what is known of a group after a round. The rate is that of all promotion.

    With `has_room` there is room for its memory, and no other group uses it.
    """
    if before is None:
        before = Asking(one.fast_bytes, one.slow_bytes)
    came_bytes = _came_bytes(before, one)
    kept = 0.5 ** (seconds / ASKS_S)
    now = replace(
        before,
        fast_bytes=one.fast_bytes,
        slow_bytes=one.slow_bytes,
        rose_bytes=before.rose_bytes * kept + max(0, came_bytes),
        sank_bytes=before.sank_bytes * kept + max(0, -came_bytes),
        lacks=one.lacks_bytes > 0,
    )
    if not now.lacks:
        return replace(now, asks=False, vain_s=0.0, rest_s=REST_S_MIN, rest_left_s=0.0)
    if not before.lacks and now.sank_bytes > one.lacks_bytes / 2:
        # It lacks what went down because it was cold.
        return replace(now, rest_left_s=REST_S_MIN)
    least_bytes = RISES_SHARE * one.lacks_bytes
    if rate_bytes_per_s:
        least_bytes = min(least_bytes, RATE_SHARE * rate_bytes_per_s * ASKS_S)
    least_bytes = max(least_bytes, RISES_SHARE_MIN * one.share_bytes)
    if now.rose_bytes >= least_bytes:
        # What has counted does not count again: else much of it would count for a minute.
        rises = replace(now, rose_bytes=0.0, vain_s=0.0, rest_s=REST_S_MIN)
        return replace(rises, asks=True, holds=True)
    if now.asks:
        vain_s = now.vain_s + seconds * (1.0 if has_room else NO_ROOM_WEIGHT)
        if vain_s < ASKS_S:
            return replace(now, vain_s=vain_s)
        later_s = min(REST_S_MAX, 2 * now.rest_s)
        return replace(now, asks=False, vain_s=0.0, rest_s=later_s, rest_left_s=now.rest_s)
    left_s = now.rest_left_s - seconds
    return replace(now, asks=left_s <= 0, rest_left_s=max(0.0, left_s))


def _shared(found: tuple[Share, ...], in_force: Roles) -> Shared:
    """Return whose memory should move, and how much may be pushed by the filters in force."""
    owed = sum(one.lacks_bytes for one in found if one.asks)
    movable = [one for one in found if one.moves is Moves.both]
    above = [one for one in movable if one.fast_bytes > one.ceiling_bytes]
    full = {one.name for one in found if _is_full(one, waits=one.name in in_force.waits)}
    givers = above
    keeps: set[str] = set()
    if any(one.holds for one in found):
        full |= {one.name for one in found if not one.lacks_bytes}
        most = max((one.over_bytes for one in movable), default=0.0)
        givers += [one for one in movable if one.over_bytes > GIVES_SHARE * most]
        if givers:
            keeps = {one.name for one in found if not one.over_bytes}
    roles = Roles(frozenset(full), frozenset(keeps), frozenset(one.name for one in givers))
    gives = [one.over_bytes for one in found if one.name in in_force.gives]
    return Shared(found, roles, owed, min(gives, default=0.0))


def _is_full(one: Share, *, waits: bool) -> bool:
    """Return whether a group is close to its ceiling. If it `waits` now, it does so for longer."""
    return one.fast_bytes >= one.ceiling_bytes * (1 - (WAITS_SHARE if waits else NEAR_SHARE))


def shares(
    measurement: Measurement, limits: Limits, headroom: Mapping[int, int]
) -> tuple[Share, ...]:
    """Return what each group has and should have; the rest is the last one."""
    fast = [node for node in limits.fast_nodes if node in measurement.nodes]
    nodes = measurement.nodes
    everything = sum(node.total_bytes for node in nodes.values())
    *members, whole = measurement.groups
    # The kernel's own memory stays where it is.
    fixed = sum(max(0, nodes[one].used_bytes - whole.node_bytes.get(one, 0)) for one in fast)
    capacity = sum(nodes[one].total_bytes - headroom.get(one, 0) for one in fast) - fixed
    known = {one.name: one for one in members}
    found: list[tuple[Share, int]] = []
    for group in limits.groups:
        seen = known.get(group.name)
        if seen is not None:
            share = group.share
            floor = (share.floor_bp or 0) * capacity / BP_MAX
            ceiling = inf if share.ceiling_bp is None else share.ceiling_bp * capacity / BP_MAX
            if share.follows_limits:
                floor = seen.low_bytes * capacity / everything
                if seen.high_bytes is not None:
                    ceiling = seen.high_bytes * capacity / everything
            above, below = _above_and_below(seen, fast)
            mine = Share(group.name, above, below, floor, ceiling, moves=share.moves)
            found.append((mine, share.weight))
    above, below = _above_and_below(whole, fast)
    above = max(0, above - sum(one.fast_bytes for one, _ in found))
    below = max(0, below - sum(one.slow_bytes for one, _ in found))
    found.append((Share(REST, above, below, 0.0, inf), WEIGHT))
    divided = divide(found, float(capacity))
    return tuple(replace(one, share_bytes=divided[one.name]) for one, _ in found)


def _above_and_below(seen: GroupSample, fast: Iterable[int]) -> tuple[int, int]:
    above = sum(seen.node_bytes.get(node, 0) for node in fast)
    return above, sum(seen.node_bytes.values()) - above


def divide(groups: list[tuple[Share, int]], capacity: float) -> dict[str, float]:
    """Return the share of each group: its floor, and by weight a part of what no floor takes.

    No group gets more than its ceiling, or than it has memory: what it cannot use is divided among
    the others. A group whose memory does not go down has what it has, and only the rest is divided.
    """
    divided = _divided(groups, capacity)
    fixed = {
        one.name: float(one.fast_bytes)
        for one, _ in groups
        if one.moves is Moves.none or (one.moves is Moves.up and one.fast_bytes > divided[one.name])
    }
    if not fixed:
        return divided
    others = [(one, weight) for one, weight in groups if one.name not in fixed]
    return fixed | divide(others, max(0.0, capacity - sum(fixed.values())))


def _divided(groups: list[tuple[Share, int]], capacity: float) -> dict[str, float]:
    """Return the share of each group as if all memory could move."""
    floors = sum(one.floor_bytes for one, _ in groups)
    # Protections of cgroups may add up to more than there is.
    scale = min(1.0, capacity / floors) if floors else 1.0
    most = {
        one.name: min(one.ceiling_bytes, float(one.fast_bytes + one.slow_bytes))
        for one, _ in groups
    }
    divided = {one.name: min(one.floor_bytes * scale, most[one.name]) for one, _ in groups}
    weights = {one.name: weight for one, weight in groups}
    # Each round fills one group at least.
    for _ in groups:
        left = capacity - sum(divided.values())
        whole = sum(weights.values())
        if left <= 0 or not whole:
            break
        parts = {name: left * weight / whole for name, weight in weights.items()}
        full = [name for name in weights if divided[name] + parts[name] >= most[name]]
        if not full:
            divided |= {name: divided[name] + part for name, part in parts.items()}
            break
        for name in full:
            divided[name] = most[name]
            del weights[name]
    return divided
