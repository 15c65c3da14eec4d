"""How much the schemes of a node may move, and visits may cost. Pure.

Both are as configured, or by the machine. The time in which a share of a fast node can change its
content should not depend on its size. Moves should also leave the bandwidth of the slow node to the
programs, and visits the processors.
"""

from collections.abc import Sequence

from tierd.configuration.config import Config
from tierd.frozen import dataclass
from tierd.machine.features import Capabilities, Feature
from tierd.plans.plan import Controller, Direction
from tierd.topology import Node, Topology
from tierd.units import BP_MAX, format_percent

# What may move per second, in 1/10000 of the fast node. A quarter of a node then takes 100 s.
FAST_BP_PER_S = 25

# The rate of small nodes: 0.25 % of 80 GB. Each processor of the last ten years copies several
# times as much.
RATE_MIN_BYTES_PER_S = 200 * 1000**2

# The share of the slow node's bandwidth that moves may use, in 1/10000.
BANDWIDTH_BP = 500

MB = 1000**2

# Quota limit of a window as a multiple of the rate limit. Windows of a busy kdamond are late, so
# the limit must be higher; tierd keeps to the rate by what it sees moved. A quota that grows may be
# stopped many windows late, because a command may take a second. Then this limit alone holds, so it
# is no higher. The second is for demotion on kernels that charge failed tries: about half of the
# tries fail.
QUOTA_PER_RATE_MAX = 2
TRIED_PER_RATE_MAX = 4

# What visits may take of a processor in each kdamond, in 1/10000: so much, or this share of all
# processors if that is more. A machine with more memory has more pages to visit, and more
# processors.
COST_BP_MIN = 200
COST_OF_ALL_BP = 10


@dataclass(frozen=True, slots=True)
class Rate:
    """The most bytes per second that may move from a node in one direction, and the reason."""

    bytes_per_s: float
    because: str = ""
    """Empty if the rate is that of the configuration, or of all small machines."""

    @property
    def note(self) -> str:
        """The reason, to be put behind the rate."""
        return f" ({self.because})" if self.because else ""


def rate(
    topology: Topology, config: Config, direction: Direction, source: Node, targets: Sequence[int]
) -> Rate:
    """Return the rate of a node's schemes of one direction, together."""
    if config.rate_max_bytes_per_s is not None:
        return Rate(config.rate_max_bytes_per_s)
    others = [topology.node(one) for one in targets]
    fast, slow = (others, [source]) if direction is Direction.promote else ([source], others)
    by_size = sum(node.size_bytes for node in fast) * FAST_BP_PER_S / 10_000
    if by_size <= RATE_MIN_BYTES_PER_S:
        return Rate(RATE_MIN_BYTES_PER_S)
    known = _bandwidth_bytes_per_s(direction, slow)
    most = by_size if known is None else max(RATE_MIN_BYTES_PER_S, known * BANDWIDTH_BP / 10_000)
    if most < by_size:
        of = " and ".join(str(node.id) for node in slow)
        return Rate(most, f"{format_percent(BANDWIDTH_BP)} of the bandwidth of node {of}")
    of = " and ".join(str(node.id) for node in fast)
    return Rate(by_size, f"{format_percent(FAST_BP_PER_S)} of node {of} per second")


def quota_bytes(
    rate_max_bytes_per_s: float,
    window_us: int,
    loop: Controller,
    direction: Direction,
    capabilities: Capabilities,
) -> int:
    """Return the most bytes of a scheme in one window."""
    per_window = int(rate_max_bytes_per_s * window_us) // 10**6
    if loop is Controller.demand:
        charged = not capabilities.has(Feature.fail_charge)
        tries = charged and direction is not Direction.promote
        per_window *= TRIED_PER_RATE_MAX if tries else QUOTA_PER_RATE_MAX
    # Never 0, which the kernel takes for no limit.
    return max(1, per_window)


def cost_bp(topology: Topology, config: Config) -> int:
    """Return what visits may take of a processor in each kdamond, in 1/10000."""
    if config.cost_bp is not None:
        return config.cost_bp
    with_memory = sum(len(node.cpus) for node in topology.nodes)
    processors = with_memory + sum(len(node.cpus) for node in topology.empty_nodes)
    return min(BP_MAX, max(COST_BP_MIN, processors * COST_OF_ALL_BP))


def _bandwidth_bytes_per_s(direction: Direction, slow: Sequence[Node]) -> int | None:
    """Return the bandwidth of slow nodes as HMAT tells it, or None if one is not known."""
    total = 0
    for node in slow:
        told = node.performance
        if told is None:
            return None
        reads = direction is Direction.promote
        mbps = told.read_bandwidth_mbps if reads else told.write_bandwidth_mbps
        if not mbps:
            return None
        total += mbps * MB
    return total
