"""All settings as one frozen value; an empty file is `Config()`.

`settings.py` says how a user writes each field, and `configfile.py` reads files into this value.
"""

from enum import StrEnum

from tierd.frozen import dataclass


class Mode(StrEnum):
    manage = "manage"
    observe = "observe"


class Tuner(StrEnum):
    auto = "auto"
    kernel = "kernel"
    emulated = "emulated"
    demand = "demand"


class Promoter(StrEnum):
    """What brings hot memory up."""

    damon = "damon"
    numa_balancing = "numa-balancing"
    auto = "auto"


class OnStop(StrEnum):
    restore = "restore"
    keep = "keep"


class OnConflict(StrEnum):
    refuse = "refuse"
    take_over = "take_over"


class Cpusets(StrEnum):
    """Whether memory that a cpuset binds to some of the nodes stays where it is."""

    heed = "heed"
    ignore = "ignore"


class CgroupMode(StrEnum):
    include = "include"
    exclude = "exclude"


@dataclass(frozen=True, slots=True)
class CgroupClass:
    """Subtrees of the cgroup tree whose memory may move (include), or may not (exclude)."""

    name: str
    mode: CgroupMode
    paths: tuple[str, ...]


# The name of the class of all memory that is in no class of `shares`.
REST = "rest"

# The name of the class of all memory that a cpuset binds to some of the nodes.
BOUND = "cpusets"

# The weight of a class for which none is set, and of the rest.
WEIGHT = 100


class Moves(StrEnum):
    """Where the memory of a class of `shares` may go."""

    both = "both"
    up = "up"
    """It comes up as that of others does, and never goes down, though it is idle."""
    none = "none"
    """It stays where it is."""


@dataclass(frozen=True, slots=True)
class ShareClass:
    """Subtrees of the cgroup tree that share the fast memory with others.

    Without a floor and a ceiling these follow `memory.low` and `memory.high` of the cgroups.
    """

    name: str
    paths: tuple[str, ...]
    """A part of a path may be a pattern, such as *."""
    floor_bp: int | None = None
    """The share of the fast memory, in 1/10000, that it keeps even if its memory is cold."""
    ceiling_bp: int | None = None
    weight: int = WEIGHT
    """Its part of what no floor takes, compared with the weights of others."""
    moves: Moves = Moves.both

    @property
    def follows_limits(self) -> bool:
        fixed = self.moves is Moves.none
        return self.floor_bp is None and self.ceiling_bp is None and not fixed


# 20 basis points: the largest share of a node for which both promotion and demotion work, so that
# hot and cold pages change places. The cover letter's targets are 99.7 % used and 0.5 % free.
OVERLAP_BP = 20

# 5 samples per aggregation: fewer cannot tell hot from warm.
SAMPLES_PER_AGGREGATION_MIN = 5


def used_bp_for(headroom_bp: int) -> int:
    """Return how full promotion may make a node: a little more than demotion leaves it."""
    return 10000 - headroom_bp + max(1, min(OVERLAP_BP, headroom_bp // 2))


@dataclass(frozen=True, slots=True)
class Config:
    """Every setting, with its default."""

    mode: Mode = Mode.manage
    tuner: Tuner = Tuner.auto
    promoter: Promoter = Promoter.damon
    headroom_bp: int = 50
    """Share of a fast node kept free, in 1/10000: demotion's goal (node_mem_free_bp)."""
    used_bp: int = 9970
    """Share of a fast node in use up to which promotion fills it (node_mem_used_bp)."""
    rate_max_bytes_per_s: int | None = None
    """The most bytes per second that one scheme may move; None chooses by the machine."""
    cost_bp: int | None = None
    """Share of a processor, in 1/10000, that visits to pages may take of each kdamond; 0: none.
    None chooses by the machine."""
    window_ms: int = 1000
    """The quota window: the time between two times that a scheme moves memory."""
    tick_ms: int = 1000
    hot_accesses_min_bp: int = 500
    """Promote what was accessed in at least this share of the samples of an aggregation."""
    hot_age_ms_min: int = 0
    cold_age_ms_min: int = 0
    tiers: tuple[tuple[int, ...], ...] | None = None
    """The override: node ids, fastest tier first; None uses the kernel's memory_tiering."""
    bandwidths: tuple[tuple[int, int], ...] | None = None
    """Pairs of a node and its bytes per second; None uses those of firmware."""
    cgroups: tuple[CgroupClass, ...] = ()
    shares: tuple[ShareClass, ...] = ()
    cpusets: Cpusets = Cpusets.heed
    on_stop: OnStop = OnStop.restore
    on_conflict: OnConflict = OnConflict.refuse
    manage_demotion_enabled: bool = False
    """Switch /sys/kernel/mm/numa/demotion_enabled on while running, and back on stop."""
    manage_interleave_weights: bool = False
    """Set the weights of weighted interleave by bandwidth while running, and back on stop."""
    manage_damon_stat: bool = True
    """Stop damon_stat while running (it uses DAMON exclusively), and restart it on stop."""
    measures_latency: bool = True
    """Measure how late nodes answer while memory comes up, and stop that where it does not help."""
    profile: bool = True
    """Keep a profile of how hot memory is, for `tierd simulate`."""
    metrics_address: str | None = "127.0.0.1:19100"
    """The address that serves /metrics; None serves it nowhere."""
    metrics_textfile: str | None = None
    metrics_certificate: str | None = None
    """A PEM file with certificate and key, for TLS; None serves /metrics without TLS."""
    auto_intervals: bool = True
    """Let the kernel tune its sampling between `sample_us` and `sample_us_max`, where it can."""
    access_bp: int = 400
    """The share of accesses that tuned intervals should see (intervals_goal/access_bp)."""
    sample_us: int = 5_000
    sample_us_max: int = 10_000_000
    aggr_us: int = 100_000
    regions: tuple[int, int] | None = None
    """The least and the most regions of a node; None chooses by the size of the node."""
