"""Kernel settings outside DAMON that a plan changes while it runs. Pure."""

from collections.abc import Iterator

from tierd.configuration.config import Config, Mode
from tierd.plans.plan import Knob

DAMON_STAT_ENABLED = "sys/module/damon_stat/parameters/enabled"
DEMOTION_ENABLED = "sys/kernel/mm/numa/demotion_enabled"


def knobs(config: Config) -> tuple[Knob, ...]:
    """Return the settings that this configuration asks for."""
    return tuple(_knobs(config))


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
