"""The state of tierd at one moment. Status, metrics and API show it."""

from collections import deque
from dataclasses import asdict
from enum import StrEnum
from typing import Any

from tierd.frozen import dataclass

SCHEMA = "tierd.status/1"
RECENT_SCHEMA = "tierd.recent/1"


class State(StrEnum):
    """What the daemon is doing; the value is the label of `tierd_state`."""

    starting = "starting"
    active = "active"
    observing = "observing"
    paused = "paused"
    degraded = "degraded"
    stopping = "stopping"


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """A node now, in bytes."""

    numa_node: int
    tier: str
    size_bytes: int
    free_bytes: int
    headroom_target_bytes: int | None
    """What demotion keeps free here; None on a node that demotes to nowhere."""
    hot_bytes: int | None = None
    """Hot memory that could go to a faster node; None where nobody senses it."""
    cold_bytes: int | None = None
    """Memory that nobody accesses and that could go to a slower node, free memory included."""
    vmstat: tuple[tuple[str, int], ...] = ()
    """The node's own counters of promotion and demotion, in pages since boot."""
    heat_bytes: int | None = None
    """Bytes in use, weighted by how often they are touched; None where nobody senses it."""


@dataclass(frozen=True, slots=True)
class SchemeStatus:
    """A scheme since the counters began, and its rate over the last refresh."""

    scheme: str
    action: str
    source_node: int
    target_node: int
    tried_bytes_total: int
    applied_bytes_total: int
    quota_exceeded_total: int
    quota_effective_bytes: int | None
    quota_bytes_max: int
    applied_bytes_per_s: float
    wanted_bytes_per_s: float | None = None
    """What the tuner asks for now; None where the kernel decides."""
    reason: str = ""
    """Why it moves as much as it does, in words."""
    parked: bool = False
    """True if the quota in force is less than a page, so that nothing moves."""
    bar_seconds: float | None = None
    """A scheme that visits pages promotes those that were touched within this time, or demotes
    those that were not. None for other schemes."""
    bar_share: float | None = None
    """The share of visited memory that moved lately, by that bar."""


@dataclass(frozen=True, slots=True)
class HintFaultsStatus:
    """What hint faults of NUMA balancing bring up to a node."""

    hint_faults: str
    numa_node: int
    promoted_bytes_total: int
    """Since boot, by the kernel's counter."""
    promoted_bytes_per_s: float
    rate_max_bytes_per_s: float
    """What they may bring up now."""
    reason: str


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """A group of cgroups: its fast memory, and its share of it, in bytes."""

    group: str
    fast_bytes: int
    slow_bytes: int
    share_bytes: int
    floor_bytes: int
    ceiling_bytes: int | None
    """None if it has no ceiling."""
    asks: bool
    """True if it has less than its share, and would use more."""
    waits: bool
    """True if its memory may not come up now."""
    gives: bool
    """True if its memory goes down now, even if it is hot."""
    moves: str = "both"
    """Where its memory may go: both, up or none."""
    bytes_by_tier: tuple[tuple[str, int], ...] = ()
    """Names of tiers and bytes, the fastest tier first."""
    up_bytes_total: int = 0
    """Memory of it that was seen to come up to the fastest tier, whoever moved it."""
    down_bytes_total: int = 0
    """The same for what went down from it."""


@dataclass(frozen=True, slots=True)
class GoalStatus:
    """A goal of the kernel's loop, as a share of the node in 1/10000."""

    goal: str
    current_bp: int
    target_bp: int


@dataclass(frozen=True, slots=True)
class KdamondStatus:
    """A kdamond: the kernel thread that watches one node."""

    numa_node: int
    up: bool
    pid: int
    restarts_total: int
    cpu_seconds_total: float
    """Since the counters began, which survive the daemon."""
    cpu_seconds_before: float = 0.0
    """How much of that was before this daemon first read it."""
    cpu_known: bool = True
    """False where /proc does not show the kernel's threads, as in a container; then it is 0."""


@dataclass(frozen=True, slots=True)
class EventStatus:
    """Something that happened, when (seconds since the epoch), and why."""

    at: float
    event: str
    text: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything a reader may ask; replaced whole at each tick, so readers need no lock."""

    at: float
    version: str
    pid: int
    started_at: float
    state: State
    reason: str
    mode: str
    tuner: str
    tuner_reason: str
    machine: str
    """`this machine`, or the name of the simulated one."""
    nodes: tuple[NodeStatus, ...] = ()
    schemes: tuple[SchemeStatus, ...] = ()
    goals: tuple[GoalStatus, ...] = ()
    groups: tuple[GroupStatus, ...] = ()
    kdamonds: tuple[KdamondStatus, ...] = ()
    degraded: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    conflict_owners: tuple[str, ...] = ()
    """Whose doing these are: `tierd.machine.neighbours.Owner`."""
    events: tuple[EventStatus, ...] = ()
    loop_duration_seconds: float = 0.0
    refreshed_seconds_ago: float | None = None
    """How old the kernel's statistics were then; None before the first update."""
    pgmigrate_success: int | None = None
    """Pages that anybody moved since boot, on the whole machine; the next, could not be moved."""
    pgmigrate_fail: int | None = None
    page: str | None = None
    """The address of the web page; None if it is not served."""
    promoter: str = ""
    promoter_reason: str = ""
    hint_faults: tuple[HintFaultsStatus, ...] = ()


# `status` shows the last few events. The longer history is in its own files.
EVENTS_KEPT = 50


def remember(events: tuple[EventStatus, ...], *new: EventStatus) -> tuple[EventStatus, ...]:
    """Return the events with `new` added, without the oldest."""
    return tuple(deque((*events, *new), maxlen=EVENTS_KEPT))


def document(snapshot: Snapshot) -> dict[str, Any]:
    """Return the snapshot as the JSON object of `tierd status --json`. Fields are only added."""
    return {"schema": SCHEMA, **asdict(snapshot)}


def look(snapshot: Snapshot) -> dict[str, Any]:
    """Return the parts of a snapshot that `tierd why` needs."""
    return {
        "at": snapshot.at,
        "state": snapshot.state,
        "tuner": snapshot.tuner,
        "nodes": [asdict(node) for node in snapshot.nodes],
        "schemes": [asdict(scheme) for scheme in snapshot.schemes],
        "goals": [asdict(goal) for goal in snapshot.goals],
        "hint_faults": [asdict(one) for one in snapshot.hint_faults],
    }
