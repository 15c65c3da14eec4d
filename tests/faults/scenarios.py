"""What tierd does to a kernel, as scenarios: how it begins, and the one thing that is then done."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

from tests.faults.faulty import Disk, FaultySysfs, StillClock
from tierd import policy
from tierd.configuration.config import Config, Tuner
from tierd.kdamonds import apply
from tierd.kdamonds.apply import Applied, Restored
from tierd.kdamonds.kernel import NR_KDAMONDS
from tierd.machine import discovery, observe
from tierd.machine.override import Override
from tierd.plans import damon
from tierd.plans.damon import Goal, Kdamond, Metric, Scheme, Write
from tierd.plans.plan import Plan
from tierd.sim import machine
from tierd.sim.kernel import SimKernel

CLOCK = StillClock()

# Coarse memory makes a kernel in under a millisecond; nothing here looks at pages.
BLOCK_PAGES = 512

# With the kernel's tuner, whose plan has no sensors: a sweep costs by the square of its writes, and
# carrying them out is the same whoever steers.
DEFAULT = Config(tuner=Tuner.kernel, manage_demotion_enabled=True)
OTHER_RATE = replace(DEFAULT, rate_max_bytes_per_s=50_000_000, manage_demotion_enabled=False)
OTHER_GOAL = replace(DEFAULT, used_bp=9900)


@dataclass
class World:
    """A kernel with the fault before it, the disk, and the plan that runs, if one does."""

    kernel: SimKernel
    sysfs: FaultySysfs
    disk: Disk
    applied: Applied | None = None


Act = Callable[[World], Applied | Restored]


@dataclass(frozen=True)
class Scenario:
    """`prepare` runs without faults, `act` with."""

    name: str
    prepare: Callable[[World], None]
    act: Act
    machine: str = "two-tier"
    series: tuple[str, ...] = ("6.12", "7.3")

    @property
    def removes(self) -> bool:
        """Whether the way back from a failure is to remove everything: nothing ran before it."""
        return self.name.startswith(("start", "adopt", "stop"))


def world(scenario: Scenario, series: str, disk: Disk) -> World:
    kernel = SimKernel(series, machine.load(scenario.machine), block_pages=BLOCK_PAGES)
    made = World(kernel, FaultySysfs(kernel), disk)
    scenario.prepare(made)
    made.sysfs.operations = 0
    disk.records = 0
    return made


def plan_for(world: World, config: Config, override: Override | None = None) -> Plan:
    return _plan(world.kernel.profile.series, world.kernel.machine.name, config, override)


@cache
def _plan(series: str, name: str, config: Config, override: Override | None) -> Plan:
    """Plans are pure, so that thousands of worlds may share one."""
    kernel = SimKernel(series, machine.load(name), block_pages=BLOCK_PAGES)
    topology = discovery.survey(kernel, override)
    return policy.plan(topology, observe.probe(kernel), config)


def steered(world: World) -> Plan:
    """The default plan with goals that tierd itself feeds."""
    made = default(world)
    kdamonds = tuple(_steered(kdamond) for kdamond in made.kdamonds)
    return replace(
        made,
        kdamonds=kdamonds,
        writes=damon.writes(kdamonds, observe.probe(world.kernel)),
    )


def _steered(kdamond: Kdamond) -> Kdamond:
    def scheme(one: Scheme) -> Scheme:
        goal = Goal(Metric.user_input, 10_000, current_value=10_000)
        return replace(one, quota=replace(one.quota, goals=(goal,)))

    schemes = tuple(scheme(one) for one in kdamond.context.schemes)
    return replace(kdamond, context=replace(kdamond.context, schemes=schemes))


def nothing(world: World) -> None:
    """A machine that tierd has not touched."""


def running(plan: Callable[[World], Plan]) -> Callable[[World], None]:
    def prepare(world: World) -> None:
        world.applied = apply.start(world.sysfs, CLOCK, plan(world), world.disk.record)

    return prepare


def paused(world: World) -> None:
    running(default)(world)
    world.applied = apply.pause(world.sysfs, CLOCK, of(world), world.disk.record)


def one_dead(world: World) -> None:
    running(default)(world)
    world.kernel.end_kdamond(1)


def all_gone(world: World) -> None:
    """Somebody has turned ours off and removed them."""
    running(default)(world)
    for index in range(2):
        world.kernel.write(damon.state_path(index), "off")
    world.kernel.write(NR_KDAMONDS, "0")


def half_changed(world: World) -> None:
    """tierd died after it had staged another plan and before it committed that."""
    running(default)(world)
    after = plan_for(world, OTHER_RATE)
    saved = of(world).saved
    world.disk.record(replace(saved, writes=after.writes, former=(saved.writes,)))
    for write in after.writes:
        if write.path.endswith("/quotas/bytes"):
            world.kernel.write(write.path, write.value)


def default(world: World) -> Plan:
    return plan_for(world, DEFAULT)


def of(world: World) -> Applied:
    assert world.applied is not None
    return world.applied


def start(plan: Callable[[World], Plan]) -> Act:
    """As the daemon starts: with what an earlier one has left, if it has."""

    def act(world: World) -> Applied:
        saved = world.disk.saved()
        return apply.start(world.sysfs, CLOCK, plan(world), world.disk.record, saved=saved)

    return act


def reload(plan: Callable[[World], Plan]) -> Act:
    def act(world: World) -> Applied:
        return apply.replace(world.sysfs, CLOCK, of(world), plan(world), world.disk.record)

    return act


def tune(world: World) -> Applied:
    changes = tuple(
        Write(write.path, "9000")
        for write in of(world).plan.writes
        if write.path.endswith("/current_value")
    )
    return apply.tune(world.sysfs, CLOCK, of(world), changes)


def revive(world: World) -> Applied:
    return apply.revive(world.sysfs, CLOCK, of(world), 1, world.disk.record)


def stop(world: World) -> Restored:
    saved = world.disk.saved()
    assert saved is not None
    return apply.restore(world.sysfs, CLOCK, saved)


def other_rate(world: World) -> Plan:
    return plan_for(world, OTHER_RATE)


def other_goal(world: World) -> Plan:
    return plan_for(world, OTHER_GOAL)


def fewer_nodes(world: World) -> Plan:
    return plan_for(world, DEFAULT, ((0,), (1,)))


SCENARIOS = (
    Scenario("start", nothing, start(default)),
    Scenario("adopt", running(default), start(default)),
    Scenario("adopt, other rate", running(default), start(other_rate)),
    Scenario("adopt, half changed", half_changed, start(other_rate), series=("7.3",)),
    Scenario("adopt, fewer nodes", running(default), start(fewer_nodes), "three-tier", ("7.3",)),
    Scenario("adopt, one dead", one_dead, start(default), series=("6.12",)),
    Scenario("reload, same", running(default), reload(default), series=("7.3",)),
    Scenario("reload, other goal", running(default), reload(other_goal), series=("7.3",)),
    Scenario("reload, other rate", running(default), reload(other_rate)),
    Scenario("replace, fewer nodes", running(default), reload(fewer_nodes), "three-tier", ("7.3",)),
    Scenario("tune", running(steered), tune),
    Scenario(
        "pause",
        running(default),
        lambda w: apply.pause(w.sysfs, CLOCK, of(w), w.disk.record),
    ),
    Scenario("resume", paused, lambda w: apply.resume(w.sysfs, CLOCK, of(w), w.disk.record)),
    Scenario("revive", one_dead, revive),
    Scenario("revive, all gone", all_gone, revive, series=("7.3",)),
    Scenario("stop", running(default), stop),
)
