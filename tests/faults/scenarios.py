"""Scenarios: a state of a kernel, and the one thing that tierd then does to it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

from tests.faults.faulty import Disk, FaultySysfs, StillClock
from tierd import policy
from tierd.configuration.config import Config, Promoter, Tuner
from tierd.kdamonds import apply, restore
from tierd.kdamonds.applied import Applied
from tierd.kdamonds.kernel import NR_KDAMONDS, Kernel
from tierd.kdamonds.restore import Restored
from tierd.machine import discovery, features, numa_balancing
from tierd.machine.override import Override
from tierd.plans import damon
from tierd.plans.damon import Goal, Kdamond, Metric, Scheme, Write
from tierd.plans.plan import Plan
from tierd.sim import machine_model
from tierd.sim.sim_kernel import SimKernel

CLOCK = StillClock()

# Coarse memory makes a kernel in under a millisecond; nothing here looks at pages.
BLOCK_PAGES = 512

# The plan of the kernel's tuner has no sensors, so it has fewer writes. The time of a sweep grows
# with the square of the writes, and the steps are the same under each tuner.
DEFAULT = Config(tuner=Tuner.kernel, manage_demotion_enabled=True)
OTHER_RATE = replace(DEFAULT, rate_max_bytes_per_s=50_000_000, manage_demotion_enabled=False)
OTHER_GOAL = replace(DEFAULT, used_bp=9900)
# Its settings are more than those of any other plan.
HINTED = replace(DEFAULT, promoter=Promoter.numa_balancing)


@dataclass
class World:
    """A simulated kernel behind a FaultySysfs, the disk, and the plan that runs, if any."""

    kernel: SimKernel
    sysfs: FaultySysfs
    disk: Disk
    applied: Applied | None = None

    @property
    def look(self) -> Kernel:
        """The kernel as a new task sees it, with all waits left."""
        return Kernel.patient(self.sysfs, CLOCK)


Act = Callable[[World], Applied | Restored]


@dataclass(frozen=True)
class Scenario:
    """`prepare` runs without faults, `act` with them."""

    name: str
    prepare: Callable[[World], None]
    act: Act
    machine: str = "two-tier"
    series: tuple[str, ...] = ("6.12", "7.3")

    @property
    def removes(self) -> bool:
        """True if a failure removes all kdamonds, because the act is a start or a stop."""
        return self.name.startswith(("start", "adopt", "stop"))


def world(scenario: Scenario, series: str, disk: Disk) -> World:
    kernel = SimKernel(series, machine_model.load(scenario.machine), block_pages=BLOCK_PAGES)
    made = World(kernel, FaultySysfs(kernel), disk)
    scenario.prepare(made)
    made.sysfs.operations = 0
    disk.records = 0
    return made


def plan_for(world: World, config: Config, override: Override | None = None) -> Plan:
    return _plan(world.kernel.series.name, world.kernel.machine.name, config, override)


@cache
def _plan(series: str, name: str, config: Config, override: Override | None) -> Plan:
    """Return a plan from a cache: plans are immutable, so thousands of worlds can share one."""
    kernel = SimKernel(series, machine_model.load(name), block_pages=BLOCK_PAGES)
    topology = discovery.survey(kernel, override)
    found = numa_balancing.read(kernel, topology, {})
    return policy.plan(topology, features.probe(kernel), config, numa_balancing=found)


def steered(world: World) -> Plan:
    """The default plan with goals that tierd itself feeds."""
    made = default(world)
    kdamonds = tuple(_steered(kdamond) for kdamond in made.kdamonds)
    return replace(
        made,
        kdamonds=kdamonds,
        writes=damon.writes(kdamonds, features.probe(world.kernel)),
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
        world.applied = apply.start(world.look, plan(world), world.disk.record)

    return prepare


def paused(world: World) -> None:
    running(default)(world)
    world.applied = apply.pause(world.look, of(world), world.disk.record)


def one_dead(world: World) -> None:
    running(default)(world)
    world.kernel.end_kdamond(1)


def all_gone(world: World) -> None:
    """Somebody else has turned our kdamonds off and removed them."""
    running(default)(world)
    for index in range(2):
        world.kernel.write(damon.state_path(index), "off")
    world.kernel.write(NR_KDAMONDS, "0")


def half_changed(world: World) -> None:
    """tierd was killed after it wrote the files of another plan, and before the commit."""
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
    """Start as the daemon does, with the saved state of an earlier one if there is any."""

    def act(world: World) -> Applied:
        saved = world.disk.saved()
        return apply.start(world.look, plan(world), world.disk.record, saved=saved)

    return act


def reload(plan: Callable[[World], Plan]) -> Act:
    def act(world: World) -> Applied:
        return apply.change_plan(world.look, of(world), plan(world), world.disk.record)

    return act


def tune(world: World) -> Applied:
    changes = tuple(
        Write(write.path, "9000")
        for write in of(world).plan.writes
        if write.path.endswith("/current_value")
    )
    return apply.tune(world.look, of(world), changes)


def revive(world: World) -> Applied:
    return apply.revive(world.look, of(world), 1, world.disk.record)


def stop(world: World) -> Restored:
    saved = world.disk.saved()
    assert saved is not None
    return restore.restore_all(world.look, saved)


def other_rate(world: World) -> Plan:
    return plan_for(world, OTHER_RATE)


def other_goal(world: World) -> Plan:
    return plan_for(world, OTHER_GOAL)


def hinted(world: World) -> Plan:
    return plan_for(world, HINTED)


def fewer_nodes(world: World) -> Plan:
    return plan_for(world, DEFAULT, ((0,), (1,)))


SCENARIOS = (
    Scenario("start", nothing, start(default)),
    Scenario("start, hint faults", nothing, start(hinted), series=("7.3",)),
    Scenario("adopt", running(default), start(default)),
    Scenario("adopt, other rate", running(default), start(other_rate)),
    Scenario("adopt, half changed", half_changed, start(other_rate), series=("7.3",)),
    Scenario("adopt, fewer nodes", running(default), start(fewer_nodes), "three-tier", ("7.3",)),
    Scenario("adopt, one dead", one_dead, start(default), series=("6.12",)),
    Scenario("reload, same", running(default), reload(default), series=("7.3",)),
    Scenario("reload, other goal", running(default), reload(other_goal), series=("7.3",)),
    Scenario("reload, other rate", running(default), reload(other_rate)),
    Scenario("reload, hint faults", running(default), reload(hinted), series=("7.3",)),
    Scenario("replace, fewer nodes", running(default), reload(fewer_nodes), "three-tier", ("7.3",)),
    Scenario("tune", running(steered), tune),
    Scenario(
        "pause",
        running(default),
        lambda w: apply.pause(w.look, of(w), w.disk.record),
    ),
    Scenario("resume", paused, lambda w: apply.resume(w.look, of(w), w.disk.record)),
    Scenario("revive", one_dead, revive),
    Scenario("revive, all gone", all_gone, revive, series=("7.3",)),
    Scenario("stop", running(default), stop),
    Scenario("stop, hint faults", running(hinted), stop, series=("7.3",)),
)
