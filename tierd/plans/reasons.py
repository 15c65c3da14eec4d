"""Why a migration or a kdamond is in the plan, in words. Pure."""

from collections.abc import Iterable, Iterator

from tierd.configuration.config import Config, Mode, Tuner
from tierd.machine.features import FEATURE_TABLE, Capabilities, Feature, because
from tierd.plans import sampling
from tierd.plans.damon import Intervals
from tierd.plans.plan import Aim, Controller, Direction, Migration, TunerChoice
from tierd.plans.ways import Way
from tierd.topology import Node
from tierd.units import format_duration_us, format_percent, format_size

# What cannot be done of a plan.
VISITS_COMMIT_CGROUPS = (
    "no visits to single pages for an hour: they need commits here, which name cgroups of the "
    "configuration. Such commits have failed because cgroups go all the time, or a kdamond has "
    "ended (Linux 7.2 needs no commits)"
)
SAMPLES_HIDE_TOUCHES = (
    "no visits to single pages: with so many monitoring.regions DAMON's samples would hide what "
    "the programs touch (auto leaves enough time between two samples of a page)"
)
NOTHING_IS_PUSHED = (
    "shares: hot memory is not pushed down, only cold memory makes room (this takes visits to "
    "single pages)"
)


def where(config: Config, source: int, way: Way) -> str:
    """Return what a migration moves, and from where to where."""
    near = "next nearest" if way.fallback else "nearest"
    if way.direction is Direction.promote:
        what = f"what is accessed in {format_percent(config.hot_accesses_min_bp)} of the samples"
        place = f"up to node {way.target}, {near} of the next faster tier"
    else:
        what = "what nobody accesses"
        place = f"down to node {way.target}, {near} of the next slower tier"
    verb = "count" if config.mode is Mode.observe else "move"
    return f"{verb} {what} on node {source} {place}{way.among}"


def until(loop: Controller, direction: Direction, aim: Aim) -> str:
    """Return when a migration stops."""
    share = format_percent(aim.target_bp)
    if loop is not Controller.demand:
        stop = "used" if direction is Direction.promote else "free"
        return f" until node {aim.node} is {share} {stop}"
    if direction is Direction.demote:
        return f", to keep {share} of node {aim.node} free"
    return f", as much as is hot and node {aim.node} has room for"


def watched(
    config: Config,
    capabilities: Capabilities,
    intervals: Intervals,
    node: Node,
    migrations: Iterable[Migration],
) -> str:
    """Return why a node is watched, and how often DAMON looks."""
    directions = {one.direction for one in migrations}
    if len(directions) == 2:
        place = "has faster and slower neighbours"
    elif Direction.promote in directions:
        place = "has a faster neighbour"
    else:
        place = "has a slower neighbour"
    if intervals.goal is not None:
        low, high = intervals.goal.min_sample_us, intervals.goal.max_sample_us
        how = f"sampling every {format_duration_us(low)} to {format_duration_us(high)}, as needed"
    else:
        how = f"sampling every {format_duration_us(intervals.sample_us)}"
    tunes = config.auto_intervals and capabilities.has(Feature.intervals_goal)
    if tunes and sampling.asks_ages(config):
        how += " (not tuned, because a minimum age is configured)"
    return f"node {node.id} ({format_size(node.size_bytes)}) {place}; {how}"


def lacking(config: Config, capabilities: Capabilities, tuner: TunerChoice) -> Iterator[str]:
    """Yield what this kernel lacks for a plan. A feature that tierd can replace is no loss."""
    wanted = [Feature.fail_charge]
    if sampling.wants_tuning(config):
        wanted.insert(0, Feature.intervals_goal)
    if config.tuner is Tuner.kernel:
        wanted += [Feature.node_goals, Feature.goal_tuner]
    for feature in wanted:
        if feature in capabilities.unknown:
            yield f"cannot tell whether the kernel has {feature}: it has no type information (BTF)"
        elif feature is Feature.node_goals and not capabilities.has(feature):
            yield f"no {feature} (Linux {FEATURE_TABLE[feature].since}): {tuner.reason}"
        elif not capabilities.has(feature):
            yield because(feature)
