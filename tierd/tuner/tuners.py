"""Choose who steers the quotas: the configured tuner, or the best that the kernel can run.

`auto` is `demand` on every kernel that has a `user_input` goal. Every kernel that can migrate has
one. If the fast node is full, which is the normal case, `consist` and the command of the cover
letter move almost nothing. `demand` comes within a few times of the oracle. docs/benchmarks has the
figures and the number of trials.
"""

from tierd.configuration.config import Config, Tuner
from tierd.machine.features import Capabilities, Feature
from tierd.plans.damon import Goal, GoalTuner, Metric
from tierd.plans.plan import TARGET, Aim, Controller, TunerChoice


def choose(capabilities: Capabilities, config: Config) -> TunerChoice:
    """Return the tuner, and the reason for it."""
    match config.tuner:
        case Tuner.auto:
            return TunerChoice(
                Controller.demand, "moves what is hot below and no more; the best there is here"
            )
        case Tuner.demand:
            return TunerChoice(
                Controller.demand, "moves what is hot below and no more; as configured"
            )
        case Tuner.emulated:
            return TunerChoice(
                Controller.emulated,
                "the law of the kernel's goals, measured by tierd; as configured",
            )
        case Tuner.kernel:
            return _kernel(capabilities)


def _kernel(capabilities: Capabilities) -> TunerChoice:
    if not capabilities.has(Feature.node_goals):
        return TunerChoice(
            Controller.emulated, "this kernel has no node goals, so tierd measures for the same law"
        )
    if goal_tuner(capabilities, Controller.kernel) is GoalTuner.consist:
        return TunerChoice(
            Controller.kernel, "the kernel's node goals, slowly (consist); as configured"
        )
    return TunerChoice(
        Controller.kernel, "the kernel's node goals, at once (temporal); as configured"
    )


def goal_tuner(capabilities: Capabilities, loop: Controller) -> GoalTuner:
    """Return the algorithm by which the kernel turns a goal into a quota."""
    if loop is not Controller.kernel:
        return GoalTuner.consist
    return GoalTuner.temporal if has_temporal(capabilities) else GoalTuner.consist


def has_temporal(capabilities: Capabilities) -> bool:
    """Return whether the kernel has the goal tuner `temporal`, and is safe with it."""
    # `temporal` sets the quota to 0 when the goal is reached. damos_quota_is_full() must take that
    # 0 as nothing to move. Before fail_charge, kernels may take it for no limit.
    return capabilities.has(Feature.goal_tuner) and capabilities.has(Feature.fail_charge)


def goal(loop: Controller, aim: Aim) -> Goal:
    """Return the goal of a scheme that moves pages. At the start it keeps the quota at a byte."""
    match loop:
        case Controller.kernel:
            return Goal(aim.metric, aim.target_bp, nid=aim.node)
        case Controller.emulated:
            return Goal(Metric.user_input, aim.target_bp, current_value=aim.target_bp)
        case Controller.demand:
            return Goal(Metric.user_input, TARGET, current_value=TARGET)
