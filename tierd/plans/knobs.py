"""Kernel settings outside DAMON that a plan changes while it runs. Pure."""

from collections.abc import Iterator

from tierd.configuration.config import Config, Mode
from tierd.machine import interleave
from tierd.machine.interleave import Interleave
from tierd.plans.plan import Knob
from tierd.topology import Topology

DAMON_STAT_ENABLED = "sys/module/damon_stat/parameters/enabled"
DEMOTION_ENABLED = "sys/kernel/mm/numa/demotion_enabled"


def knobs(config: Config, topology: Topology, weights: Interleave | None) -> tuple[Knob, ...]:
    """Return the settings that this configuration asks for. `weights` are those of the kernel."""
    return (*_knobs(config), *_weights(config, topology, weights))


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
