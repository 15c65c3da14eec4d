"""Make the shipped rules faster: divide all of their times, so that a test can wait for them.

What is divided: `for:`, the ranges of queries, and the two thresholds in seconds (the bytes of an
hour, and the age of the last round). Names, conditions and shares stay the same.
"""

import re
from typing import Any

# Lower bounds of ranges, `for:` and ages. A range needs some scrapes, and a busy machine may be
# late by almost as much.
RANGE_S_MIN = 3.0
FOR_S_MIN = 3.0
AGE_S_MIN = 8.0

_UNITS_S = {"s": 1, "m": 60, "h": 3600}
_RANGE = re.compile(r"\[(\d+)([smh])\]")
_AGE = re.compile(r"(time\(\) - \w+ > )(\d+)")
_HOUR = re.compile(r"\b3600 \*")


def hastened(rules: dict[str, Any], times: float) -> dict[str, Any]:
    """Return a file of rules with all times divided."""
    return {
        **rules,
        "groups": [
            {**group, "rules": [_rule(rule, times) for rule in group["rules"]]}
            for group in rules["groups"]
        ],
    }


def _rule(rule: dict[str, Any], times: float) -> dict[str, Any]:
    sooner = {**rule, "expr": expression(rule["expr"], times)}
    if "for" in rule:
        sooner["for"] = _milliseconds(max(FOR_S_MIN, _seconds(rule["for"]) / times))
    return sooner


def expression(text: str, times: float) -> str:
    """Return a query with its ranges and seconds divided."""
    text = _RANGE.sub(
        lambda found: f"[{_milliseconds(max(RANGE_S_MIN, _seconds(found[0][1:-1]) / times))}]", text
    )
    text = _AGE.sub(lambda found: f"{found[1]}{max(AGE_S_MIN, int(found[2]) / times):g}", text)
    return _HOUR.sub(f"{3600 / times:g} *", text)


def _seconds(text: str) -> float:
    return int(text[:-1]) * _UNITS_S[text[-1]]


def _milliseconds(seconds: float) -> str:
    return f"{round(seconds * 1000)}ms"
