"""Who steers the quotas on a kernel: what was asked for, or the best that it can run.

`auto` is `demand` wherever there is a `user_input` goal, which is every kernel that can migrate.
On a full fast node, which is where tiering lives, `consist` and the cover letter's command move
next to nothing, and `demand` is within a few times of the oracle; docs/benchmarks has the figures,
with how many trials stand behind each.
"""

from tierd.configuration.config import Config, Tuner
from tierd.machine.observe import Capabilities, Feature
from tierd.plans.damon import Goal, GoalTuner, Metric
from tierd.plans.plan import Aim, Loop, TunerChoice
from tierd.tuner.throttle import TARGET


def choose(capabilities: Capabilities, config: Config) -> TunerChoice:
    """The tuner, and why it is this one."""
    match config.tuner:
        case Tuner.auto:
            return TunerChoice(
                Loop.demand, "moves what is hot below and no more; the best there is here"
            )
        case Tuner.demand:
            return TunerChoice(Loop.demand, "moves what is hot below and no more; as configured")
        case Tuner.emulated:
            return TunerChoice(
                Loop.emulated, "the law of the kernel's goals, measured by tierd; as configured"
            )
        case Tuner.kernel:
            return _kernel(capabilities)


def _kernel(capabilities: Capabilities) -> TunerChoice:
    if not capabilities.has(Feature.node_goals):
        return TunerChoice(
            Loop.emulated, "this kernel has no node goals, so tierd measures for the same law"
        )
    if goal_tuner(capabilities, Loop.kernel) is GoalTuner.consist:
        return TunerChoice(Loop.kernel, "the kernel's node goals, slowly (consist); as configured")
    return TunerChoice(Loop.kernel, "the kernel's node goals, at once (temporal); as configured")


def goal_tuner(capabilities: Capabilities, loop: Loop) -> GoalTuner:
    """How the kernel turns the goal into a quota."""
    if loop is not Loop.kernel:
        return GoalTuner.consist
    # `temporal` answers a goal reached with a quota of 0. damos_quota_is_full() knows that 0 as
    # nothing, where earlier code takes it for no limit; fail_charge came after that.
    known = capabilities.has(Feature.goal_tuner) and capabilities.has(Feature.fail_charge)
    return GoalTuner.temporal if known else GoalTuner.consist


def goal(loop: Loop, aim: Aim) -> Goal:
    """The one goal of a scheme that moves pages; at the start each keeps its quota of a byte."""
    match loop:
        case Loop.kernel:
            return Goal(aim.metric, aim.target_bp, nid=aim.node)
        case Loop.emulated:
            return Goal(Metric.user_input, aim.target_bp, current_value=aim.target_bp)
        case Loop.demand:
            return Goal(Metric.user_input, TARGET, current_value=TARGET)
