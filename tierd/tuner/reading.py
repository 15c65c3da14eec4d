"""What a tuner is told: the schemes that it steers, and what was seen since the last round.

Values only. `readout` makes them from samples; `demand` and `feedback` decide by them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

from tierd.plans.plan import Aim, Direction, Loop


@dataclass(frozen=True, slots=True)
class Way:
    """One scheme: from where to where, and its limits."""

    id: str
    direction: Direction
    source: int
    target: int
    rate_max_bytes_per_s: float
    quota_bytes_max: int
    aim: Aim


@dataclass(frozen=True, slots=True)
class Limits:
    """What does not change from round to round."""

    loop: Loop
    ways: tuple[Way, ...]
    headroom_bp: int
    charges_failures: bool
    """Whether a byte that was tried and not moved uses up quota (before fail_charge, 7.2)."""


@dataclass(frozen=True, slots=True)
class NodeReading:
    """A node now. `hot_bytes` and `cold_bytes` are None where no scheme senses them."""

    total_bytes: int
    free_bytes: int
    mark_bytes: int
    """Below this the kernel reclaims by itself."""
    hot_bytes: int | None = None
    cold_bytes: int | None = None
    heat_bytes: int = 0
    """Bytes by how often they are accessed; those that are always count whole."""
    faint_bytes: int = 0
    """The part of that which may be chance."""
    huge_bytes: int = 0
    """In huge pages, which move whole."""

    @property
    def sure_bytes(self) -> int:
        """The heat that is no chance."""
        return self.heat_bytes - self.faint_bytes

    @property
    def used_bytes(self) -> int:
        return self.total_bytes - self.free_bytes


@dataclass(frozen=True, slots=True)
class WayReading:
    """A scheme since the last round; `quota_bytes` is its quota in force."""

    tried_bytes: int
    applied_bytes: int
    quota_bytes: int
    window_s: float
    """How long its windows really were."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What was seen since the last round."""

    seconds: float
    nodes: Mapping[int, NodeReading]
    ways: Mapping[str, WayReading]
    pressure: float = 0.0
    """Share of the time that some task waited for memory."""
    stalls: int = 0
    """Allocations that had to reclaim, or demote, for themselves."""
    again_s: float = inf
    """How soon what is decided by free memory may change, if that is before the next round."""

    @property
    def blind_s(self) -> float:
        """How long what is decided goes on, whatever comes of it."""
        return min(self.seconds, self.again_s)
