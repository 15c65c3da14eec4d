"""The input of a tuner: the schemes that it steers, and what changed since the last round.

Values only. `readout` makes them from samples. `demand` and `feedback` decide by them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

from tierd.plans.plan import Aim, Controller, Direction


@dataclass(frozen=True, slots=True)
class Way:
    """One scheme: its source, its target, and its limits."""

    id: str
    direction: Direction
    source: int
    target: int
    rate_max_bytes_per_s: float
    quota_bytes_max: int
    aim: Aim


@dataclass(frozen=True, slots=True)
class Limits:
    """What stays the same from round to round."""

    controller: Controller
    ways: tuple[Way, ...]
    headroom_bp: int
    charges_failures: bool
    """True if a byte that was tried and not moved uses up quota (before fail_charge, 7.2)."""


@dataclass(frozen=True, slots=True)
class NodeMeasurement:
    """A node now. `hot_bytes` and `cold_bytes` are None if no sensor counts them."""

    total_bytes: int
    free_bytes: int
    mark_bytes: int
    """What the kernel keeps free by itself. It reclaims memory when less is free."""
    hot_bytes: int | None = None
    cold_bytes: int | None = None
    heat_bytes: int = 0
    """Bytes, weighted by how often they are accessed. Memory that is always in use counts whole."""
    faint_bytes: int = 0
    """The part of the heat that may be chance."""
    huge_bytes: int = 0
    """Bytes in huge pages. A huge page moves as a whole."""

    @property
    def sure_bytes(self) -> int:
        """The heat that is not chance."""
        return self.heat_bytes - self.faint_bytes

    @property
    def used_bytes(self) -> int:
        return self.total_bytes - self.free_bytes


@dataclass(frozen=True, slots=True)
class WayMeasurement:
    """A scheme since the last round; `quota_bytes` is its quota in force."""

    tried_bytes: int
    applied_bytes: int
    quota_bytes: int
    window_s: float
    """How long its windows really were, on average."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """What was seen since the last round."""

    seconds: float
    nodes: Mapping[int, NodeMeasurement]
    ways: Mapping[str, WayMeasurement]
    pressure: float = 0.0
    """Share of the time that some task waited for memory."""
    stalls: int = 0
    """Allocations that had to free memory before they could go on."""
    again_s: float = inf
    """Seconds until free memory is read again, if that is before the next round."""

    @property
    def blind_s(self) -> float:
        """How long a decision holds before its effect is seen."""
        return min(self.seconds, self.again_s)
