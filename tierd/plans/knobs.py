"""Kernel settings outside DAMON that a plan changes while it runs. Pure."""

from collections.abc import Iterator

from tierd.configuration.config import Config, Mode
from tierd.machine import interleave
from tierd.machine.interleave import Interleave
from tierd.machine.neighbours import NUMA_BALANCING, NUMA_BALANCING_TIERING
from tierd.machine.numa_balancing import PROMOTE_RATE_LIMIT, NumaBalancing
from tierd.plans.plan import HintFaults, Knob
from tierd.topology import Topology

DAMON_STAT_ENABLED = "sys/module/damon_stat/parameters/enabled"
DEMOTION_ENABLED = "sys/kernel/mm/numa/demotion_enabled"

# The unit of the kernel's rate limit is called MB, and is 1 MiB (MB_TO_PAGES()).
RATE_UNIT_BYTES = 1 << 20


def knobs(
    config: Config,
    topology: Topology,
    weights: Interleave | None,
    hinted: tuple[HintFaults, ...] = (),
    numa_balancing: NumaBalancing | None = None,
) -> tuple[Knob, ...]:
    """Return the settings that this configuration asks for. `weights` are those of the kernel.

    `hinted` is what hint faults promote, if they do.
    """
    return (
        *_knobs(config),
        *_weights(config, topology, weights),
        *_numa_balancing(topology, hinted, numa_balancing),
    )


def _knobs(config: Config) -> Iterator[Knob]:
    if config.manage_damon_stat:
        yield Knob(
            "damon-stat",
            DAMON_STAT_ENABLED,
            "N",
            "damon_stat only makes statistics, and nobody else can use DAMON while it is on",
        )
    if config.manage_demotion_enabled and config.mode is Mode.manage:
        yield Knob(
            "demotion-enabled",
            DEMOTION_ENABLED,
            "true",
            "reclaim demotes in a rush instead of swapping out (manage_demotion_enabled)",
        )


def _weights(config: Config, topology: Topology, weights: Interleave | None) -> Iterator[Knob]:
    """Yield the weights of weighted interleave, after the switch that would change them again."""
    wanted = interleave.proposed(topology)
    asked = config.manage_interleave_weights and config.mode is Mode.manage
    if not asked or weights is None or wanted is None:
        return
    reason = "pages of programs that interleave follow the bandwidths of the nodes"
    if weights.switch is not None:
        yield Knob("interleave-auto", weights.switch, "false", "tierd sets the weights itself")
    for node, weight in wanted.items():
        if node in weights.weights:
            path = f"{interleave.FOLDER}/node{node}"
            yield Knob(f"interleave-{node}", path, str(weight), reason)


def _numa_balancing(
    topology: Topology, hinted: tuple[HintFaults, ...], found: NumaBalancing | None
) -> Iterator[Knob]:
    """Yield the settings with which hint faults promote. The limit is set first."""
    if not hinted or found is None:
        return
    # The kernel has one number, and limits each node by it.
    least = min(one.rate_max_bytes_per_s for one in hinted)
    yield Knob(
        "promote-rate-limit",
        PROMOTE_RATE_LIMIT,
        str(max(1, rate_units(least))),
        "hint faults promote no more than that (rate_limit), and less while there is less room",
    )
    yield Knob(
        "numa-balancing",
        NUMA_BALANCING,
        str(_mode(topology, found)),
        "hint faults promote (promoter)",
    )


def _mode(topology: Topology, found: NumaBalancing) -> int:
    """Return the mode with bit 2. With one socket the other bit costs faults for nothing."""
    if found.promotes:
        return found.mode
    sockets = sum(bool(node.cpus) for node in topology.nodes)
    return NUMA_BALANCING_TIERING | (found.mode if sockets > 1 else 0)


def rate_units(bytes_per_s: float) -> int:
    """Return a rate as the kernel's file has it, rounded down."""
    return int(bytes_per_s) // RATE_UNIT_BYTES
