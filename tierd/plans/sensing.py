"""The schemes of sensors, and where they stand in a kdamond. Pure.

A sensor counts the memory that fits its access pattern, and moves nothing.
"""

from tierd.machine.features import Capabilities, Feature
from tierd.plans.damon import AccessPattern, Action, Quota, Scheme


def scheme(pattern: AccessPattern, *, target_nid: int, window_us: int) -> Scheme:
    """Return a scheme that only counts. Its action is `stat`, so it needs no quota.

    No kernel is given a target that is not a node, although nothing moves.
    """
    return Scheme(
        action=Action.stat,
        target_nid=target_nid,
        pattern=pattern,
        apply_interval_us=window_us,
        quota=Quota(bytes_max=0),
    )


def comes_last(capabilities: Capabilities) -> bool:
    """Return whether sensors stand behind the schemes that move pages.

    Those reset the age of regions, so the place of sensors is before them. But with fail_charge,
    tries that fail cost next to nothing. So a scheme splits a piece of its quota off the same
    region a hundred times in a window, and a sensor before it counts the rest each time.
    """
    return capabilities.has(Feature.fail_charge)
