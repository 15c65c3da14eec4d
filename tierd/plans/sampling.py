"""How often DAMON samples memory, and which accesses count as hot and as cold. Pure."""

from math import ceil

from tierd.configuration.config import Config
from tierd.machine.features import Capabilities, Feature
from tierd.plans.damon import (
    UINT_MAX,
    ULONG_MAX,
    AccessPattern,
    Intervals,
    IntervalsGoal,
    Span,
)
from tierd.plans.plan import Controller, Direction
from tierd.units import BP_MAX

# Microseconds between checks of the layout of memory: DAMON's default.
UPDATE_US = 60_000_000
# Aggregations over which the kernel tunes its intervals: the value of the cover letter.
INTERVALS_GOAL_AGGRS = 3

# Microseconds: the longest sampling interval under the demand tuner. Memory that becomes hot is
# then seen within one aggregation of 0.4 s; the cover letter's 10 s would take minutes.
DEMAND_SAMPLE_US_MAX = 20_000

# Microseconds: the window of the demand tuner. A quota can double once per window, so a short
# window reacts fast. It is one shortest aggregation: a shorter window would see the same counts.
DEMAND_WINDOW_US = 100_000

# The first lag of promotion by page, in samples.
FIRST_LAG_SAMPLES = 4

# A window of sweeps is the shortest lag that there can be. In each window DAMON goes through all
# regions, for each sweep. So a window is long enough that this is no more than so many regions a
# second. But it is never longer than the first lag.
SWEPT_REGIONS_PER_S = 30_000

# Samples per second of a kdamond whose interval does not change, if the longest interval allows it.
# At a microsecond each they take a twentieth of a processor.
SAMPLES_PER_S = 50_000

# Aggregations for which a region must be hot, or cold, before the demand tuner counts it. New heat
# is seen at once. The second is larger, so that memory that is neither hot nor cold stays where it
# is.
DEMAND_HOT_AGE = 0
DEMAND_COLD_AGE = 3

# Microseconds: the least age of cold memory where the kernel cannot tune its intervals. With
# fewer samples, memory that is accessed some times per second would look cold by chance.
DEMAND_COLD_US_MIN = 600_000

# Number of regions of a node: DAMON's default bounds, and on a large node one for so many bytes, up
# to ten times as many, as HMSDK has it. A set of hot memory that is much smaller than a region is
# found late, and much cold memory moves with it. Where little is accessed DAMON merges most of
# them. Where all are different, ten thousand with samples every 20 ms are 500,000 looks per second.
NR_REGIONS = Span(10, 1_000)
REGION_BYTES = 64 << 20
NR_REGIONS_MOST = 10_000

# The least number of regions under the demand tuner, if nothing else limits it. It takes all pages
# of a region for equally hot, so regions must be small.
DEMAND_NR_REGIONS_LEAST = 50

# A sample makes a page old. A visit to pages must see what was touched since the last visit, so
# samples come to the same page only once in so many seconds, on average. That limits the number of
# regions, but not below DAMON's default for the least: fewer could not tell hot from cold.
SAMPLED_S = 20.0
NR_REGIONS_MIN = 10

# Seconds. If samples come to the same page more often, visits find most pages old. Huge pages are
# few, so samples come to them often. Regions see them well: a region has few of them.
SAMPLED_S_MIN = 5.0


def regions(node_bytes: int) -> Span:
    """Return the number of regions of a node."""
    most = min(NR_REGIONS_MOST, max(NR_REGIONS.max, node_bytes // REGION_BYTES))
    return Span(most * NR_REGIONS.min // NR_REGIONS.max, most)


def demand_regions(node_bytes: int, page_bytes: int, intervals: Intervals, *, visits: bool) -> Span:
    """Return the number of regions of a node under the demand tuner."""
    span = regions(node_bytes)
    span = Span(max(span.min, DEMAND_NR_REGIONS_LEAST), span.max)
    if not visits:
        return span
    samples_per_s = node_bytes / page_bytes / SAMPLED_S
    most = max(NR_REGIONS_MIN, min(span.max, int(samples_per_s * intervals.sample_us / 1e6)))
    return Span(min(span.min, max(NR_REGIONS_MIN, most // 2)), most)


def intervals(capabilities: Capabilities, config: Config, loop: Controller) -> Intervals:
    """Return how often DAMON samples, with the goal by which the kernel tunes that, if it can."""
    tuned = capabilities.has(Feature.intervals_goal) and wants_tuning(config)
    longest_us = config.sample_us_max
    if loop is Controller.demand:
        longest_us = max(config.sample_us, min(longest_us, DEMAND_SAMPLE_US_MAX))
    goal = IntervalsGoal(
        access_bp=config.access_bp,
        aggrs=INTERVALS_GOAL_AGGRS,
        min_sample_us=config.sample_us,
        max_sample_us=longest_us,
    )
    return Intervals(config.sample_us, config.aggr_us, UPDATE_US, goal if tuned else None)


def steady(config: Config, regions_most: int) -> Intervals:
    """Return intervals that do not change, for a kdamond with so many regions at most.

    The kernel tunes an interval until a certain share of the samples finds an access. So on each
    node the heat of scattered pages comes to be the same, whatever is touched there.
    """
    longest_us = max(config.sample_us, min(config.sample_us_max, DEMAND_SAMPLE_US_MAX))
    enough_us = 1000 * ceil(regions_most * 1000 / SAMPLES_PER_S)
    sample_us = max(config.sample_us, min(longest_us, enough_us))
    return Intervals(sample_us, sample_us * config.aggr_us // config.sample_us, UPDATE_US)


def hides_touches(config: Config, node_bytes: int, page_bytes: int) -> bool:
    """Return whether the regions of the configuration are too many for visits to a node's pages."""
    if config.regions is None:
        return False
    most = config.regions[1]
    # Intervals that the configuration fixes stay as they are.
    sample_us = steady(config, most).sample_us if wants_tuning(config) else config.sample_us
    return node_bytes / page_bytes < SAMPLED_S_MIN * rate_hz(most, sample_us)


def rate_hz(regions: int, sample_us: int) -> float:
    """Return how many samples a second a node with so many regions has."""
    return regions * 1e6 / sample_us


def window_us(config: Config, loop: Controller, intervals: Intervals, *, newer: bool) -> int:
    """Return the window of the quotas. `newer`: the kernel is one that can tune its intervals."""
    asked_us = config.window_ms * 1000
    if loop is Controller.demand:
        asked_us = min(asked_us, DEMAND_WINDOW_US)
    # 6.12 ranks regions by counts that are still in progress, so a window is a whole number of
    # aggregations.
    aggr_us = config.aggr_us if newer else intervals.aggr_us
    wanted_us = -(-asked_us // aggr_us) * aggr_us
    goal = intervals.goal
    if goal is None:
        return wanted_us
    # Each tuning of the intervals restarts the apply interval of every scheme (damon_set_attrs()).
    # It happens after each `aggrs` aggregations. A longer window would never end while sampling is
    # at its fastest.
    return min(wanted_us, goal.aggrs * intervals.samples * goal.min_sample_us)


def first_lag_us(sample_us: int) -> int:
    """Return the first lag of promotion by page."""
    return FIRST_LAG_SAMPLES * sample_us


def sweep_window_us(sample_us: int, regions_most: int, *, gated: bool) -> int:
    """Return the window of the sweeps of a node with so many regions at most.

    Sweeps that are `gated` are opened by a commit. That takes a tenth of a second and more, so a
    window that is shorter than the first lag would be of no use.
    """
    if gated:
        return first_lag_us(sample_us)
    samples = ceil(regions_most * 1e6 / SWEPT_REGIONS_PER_S / sample_us)
    return sample_us * min(FIRST_LAG_SAMPLES, samples)


def wants_tuning(config: Config) -> bool:
    """True if the intervals may be longer than configured.

    DAMON counts ages in aggregations, and tuning changes how long these are. So a minimum age in
    milliseconds needs fixed intervals.
    """
    return config.auto_intervals and not asks_ages(config)


def asks_ages(config: Config) -> bool:
    """True if a minimum age is configured."""
    return bool(config.hot_age_ms_min or config.cold_age_ms_min)


def access_pattern(
    config: Config, page_bytes: int, intervals: Intervals, loop: Controller, direction: Direction
) -> AccessPattern:
    """Return which regions are hot enough to promote, or cold enough to demote."""
    if direction is Direction.promote:
        # At least one access: a region without any is not hot, whatever the threshold.
        least = max(1, -(-intervals.samples * config.hot_accesses_min_bp // BP_MAX))
        accesses, age_ms, age = Span(least, UINT_MAX), config.hot_age_ms_min, DEMAND_HOT_AGE
    else:
        accesses, age_ms, age = Span(0, 0), config.cold_age_ms_min, DEMAND_COLD_AGE
        if intervals.goal is None:
            age = max(age, -(-DEMAND_COLD_US_MIN // intervals.aggr_us))
    if loop is not Controller.demand:
        age = 0
    if age_ms:
        age = -(-age_ms * 1000 // intervals.aggr_us)
    return AccessPattern(Span(page_bytes, ULONG_MAX), accesses, Span(age, UINT_MAX))
