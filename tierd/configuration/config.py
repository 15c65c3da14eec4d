"""What a user may set, as one frozen value; an empty file is `Config()`.

`settings.py` says how each field is written, `configfile.py` reads files into it.
"""

from dataclasses import dataclass
from enum import StrEnum


class Mode(StrEnum):
    manage = "manage"
    observe = "observe"


class Tuner(StrEnum):
    auto = "auto"
    kernel = "kernel"
    emulated = "emulated"
    demand = "demand"


class OnStop(StrEnum):
    restore = "restore"
    keep = "keep"


class OnConflict(StrEnum):
    refuse = "refuse"
    take_over = "take_over"


class CgroupMode(StrEnum):
    include = "include"
    exclude = "exclude"


@dataclass(frozen=True, slots=True)
class CgroupClass:
    """Subtrees of the cgroup tree that migration is limited to, or kept away from."""

    name: str
    mode: CgroupMode
    paths: tuple[str, ...]


# The share of a node over which promotion and demotion are both at work, at most: inside of it hot
# and cold pages trade places. The cover letter's targets, 99.7 % used and 0.5 % free, overlap so.
OVERLAP_BP = 20


def used_bp_for(headroom_bp: int) -> int:
    """How full promotion may fill a node, so that demotion still has something to do there."""
    return 10000 - headroom_bp + max(1, min(OVERLAP_BP, headroom_bp // 2))


@dataclass(frozen=True, slots=True)
class Config:
    """Every setting with its default: an empty file is this."""

    mode: Mode = Mode.manage
    tuner: Tuner = Tuner.auto
    headroom_bp: int = 50
    """Share of a fast node kept free, in 1/10000: demotion's goal (node_mem_free_bp)."""
    used_bp: int = 9970
    """Share of a fast node in use up to which promotion fills it (node_mem_used_bp)."""
    rate_max_bytes_per_s: int = 200 * 1000**2
    """Most bytes per second that one scheme may move."""
    window_ms: int = 1000
    """The quota window: how often a scheme applies."""
    tick_ms: int = 1000
    hot_accesses_min_bp: int = 500
    """Promote what was accessed in at least this share of the samples of an aggregation."""
    hot_age_ms_min: int = 0
    cold_age_ms_min: int = 0
    tiers: tuple[tuple[int, ...], ...] | None = None
    """Override: node ids, fastest tier first; None trusts the kernel's memory_tiering."""
    cgroups: tuple[CgroupClass, ...] = ()
    on_stop: OnStop = OnStop.restore
    on_conflict: OnConflict = OnConflict.refuse
    manage_demotion_enabled: bool = False
    """Switch /sys/kernel/mm/numa/demotion_enabled on while running, and back on stop."""
    manage_damon_stat: bool = True
    """Stop damon_stat while running (it holds DAMON exclusively), and restart it on stop."""
    metrics_address: str | None = "127.0.0.1:19100"
    """Where /metrics is served; None is nowhere."""
    metrics_textfile: str | None = None
    metrics_certificate: str | None = None
    """A PEM file with certificate and key, for TLS; None serves /metrics in the clear."""
    auto_intervals: bool = True
    """Let the kernel tune its sampling between `sample_us` and `sample_us_max`, where it can."""
    access_bp: int = 400
    """The share of accesses that tuned intervals should see (intervals_goal/access_bp)."""
    sample_us: int = 5_000
    sample_us_max: int = 10_000_000
    aggr_us: int = 100_000
    regions: tuple[int, int] | None = None
    """Least and most regions per watched node; None goes by the size of the node."""
