"""How often DAMON looks at memory, and what it is to take for hot and for cold.

Pure.
"""

from tierd.configuration.config import Config
from tierd.machine.observe import Capabilities, Feature
from tierd.plans.damon import (
    PAGE_BYTES,
    UINT_MAX,
    ULONG_MAX,
    AccessPattern,
    Intervals,
    IntervalsGoal,
    Span,
)
from tierd.plans.plan import Direction, Loop
from tierd.units import BP_MAX

# The sampling of the cover letter is the config's default: 20 samples per aggregation, of which it
# wants 4 % to see an access over 3 aggregations, by looking every 5 ms to 10 s. DAMON's own
# defaults are where it starts, and where it stays without the interval goal.
UPDATE_US = 60_000_000
INTERVALS_GOAL_AGGRS = 3

# How long the demand tuner lets DAMON go without a look: what becomes hot is then seen within an
# aggregation of a second, where the cover letter's 10 s would take minutes, and an idle machine is
# looked at a tenth as often as a busy one.
DEMAND_SAMPLE_US_MAX = 20_000

# What passes by once is no demand: an age is in aggregations, of 0.1 s to 1 s, and is zero again
# when the accesses of a region change. Much longer for cold than for hot, so that what is neither
# stays where it is.
DEMAND_HOT_AGE = 0
DEMAND_COLD_AGE = 3

# Where DAMON does not slow down by itself where little is found, 60 looks of 5 ms are idle in one
# region of twelve of a set of which each page is touched eight times a second; twice as many, in
# one of a hundred. A quarter less of such a set trades places for nothing (6.12).
DEMAND_COLD_US_MIN = 600_000


def intervals(capabilities: Capabilities, config: Config, loop: Loop) -> Intervals:
    """How often DAMON looks, and whether it finds that out by itself."""
    tuned = capabilities.has(Feature.intervals_goal) and wants_tuning(config)
    longest_us = config.sample_us_max
    if loop is Loop.demand:
        longest_us = max(config.sample_us, min(longest_us, DEMAND_SAMPLE_US_MAX))
    goal = IntervalsGoal(
        access_bp=config.access_bp,
        aggrs=INTERVALS_GOAL_AGGRS,
        min_sample_us=config.sample_us,
        max_sample_us=longest_us,
    )
    return Intervals(config.sample_us, config.aggr_us, UPDATE_US, goal if tuned else None)


def wants_tuning(config: Config) -> bool:
    """Ages count aggregations. Tuned, one of these is 100 ms or 200 s, so that an age in time can
    only be kept where intervals are fixed.
    """
    return config.auto_intervals and not asks_ages(config)


def asks_ages(config: Config) -> bool:
    """Whether a minimum age is configured."""
    return bool(config.hot_age_ms_min or config.cold_age_ms_min)


def pattern(config: Config, looks: Intervals, loop: Loop, direction: Direction) -> AccessPattern:
    """What is hot enough to go up, or cold enough to go down."""
    if direction is Direction.promote:
        # At least one: a region that nobody was seen to touch is not hot at any threshold.
        least = max(1, -(-looks.samples * config.hot_accesses_min_bp // BP_MAX))
        accesses, age_ms, age = Span(least, UINT_MAX), config.hot_age_ms_min, DEMAND_HOT_AGE
    else:
        accesses, age_ms, age = Span(0, 0), config.cold_age_ms_min, _demand_cold_age(looks)
    if loop is not Loop.demand:
        age = 0
    if age_ms:
        age = -(-age_ms * 1000 // looks.aggr_us)
    return AccessPattern(Span(PAGE_BYTES, ULONG_MAX), accesses, Span(age, UINT_MAX))


def _demand_cold_age(looks: Intervals) -> int:
    if looks.goal is not None:
        return DEMAND_COLD_AGE
    return max(DEMAND_COLD_AGE, -(-DEMAND_COLD_US_MIN // looks.aggr_us))
