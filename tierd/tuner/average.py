"""A moving average. A value has the weight of the time that it covers."""


def moving(before: float, seen: float, seconds: float, over_s: float) -> float:
    """Return the average over about `over_s`. The new value covers `seconds` of it."""
    return before + min(1.0, seconds / over_s) * (seen - before)
