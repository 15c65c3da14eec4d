"""A moving average: what was seen weighs by the share of a time that it took."""


def moving(before: float, seen: float, seconds: float, over_s: float) -> float:
    """The average over about the last `over_s`, of which the newest value took `seconds`."""
    return before + min(1.0, seconds / over_s) * (seen - before)
