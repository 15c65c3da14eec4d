"""Does `tierd report --ab` find what the benchmark finds? One virtual machine answers.

    python -m bench.report_vm --kernel 7.2

A program runs on a machine whose slow memory is slow, with three turns beside it: no tiering,
tierd, and a tierd that its own report pauses and resumes. The benchmark compares the first two. The
report compares its own turns, and does not know what the benchmark found.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from bench import configuration, contender, machines, program, throughput
from bench.errors import BenchError

TURNS = ("none", "tierd", "reported")
BEFORE_S = 8
# Until the report has begun, which takes Python some seconds, and until its last words.
SPARE_S = 120
# A cycle of the program `walk`, so that the benchmark sees each of its regions once.
CYCLE_S = 300
REPORT_S = 2 * contender.AB_PAIRS * contender.AB_S
AFTER_S = max(CYCLE_S, REPORT_S) + SPARE_S
CAP_BYTES_PER_S = 200_000_000


def rate(seen: dict[str, Any]) -> float:
    """Return the operations a second of the last cycle of a turn."""
    end_s = seen["served"]["at_s"][-1]
    found = throughput.window(seen, end_s - CYCLE_S, end_s).rate
    if found is None:
        raise BenchError("the driver told no operations")
    return found


def application(report: dict[str, Any]) -> dict[str, Any]:
    """Return what a report says of the program's own figure."""
    (found,) = (one for one in report["differences"] if one["measure"] == "application")
    return dict(found)


def lines(rates: dict[str, float], report: dict[str, Any]) -> list[str]:
    """Return the benchmark's difference, the report's, and whether the one is in the other."""
    gain = rates["tierd"] - rates["none"]
    words = [
        f"benchmark: {rates['none']:.0f} operations a second without tiering, "
        f"{rates['tierd']:.0f} with tierd: {gain:+.0f}"
    ]
    for one in report["differences"]:
        if one["difference"] is None:
            words.append(f"report: {one['measure']}: {one['verdict']}")
            continue
        interval = "" if one["low"] is None else f" ({one['low']:+.4g} to {one['high']:+.4g})"
        words.append(
            f"report: {one['measure']}: {one['off']:.4g} off, {one['on']:.4g} on: "
            f"{one['difference']:+.4g}{interval} {one['unit']}: {one['verdict']}"
        )
    own = application(report)
    if own["low"] is not None:
        holds = own["low"] <= gain <= own["high"]
        words.append(f"the report's interval {'holds' if holds else 'does NOT hold'} the gain")
    return words


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.report_vm", description=__doc__)
    parser.add_argument("--kernel", choices=configuration.SERIES, default="7.2")
    parser.add_argument("--program", choices=program.BY_NAME, default="walk")
    parser.add_argument("--save", type=Path, help="all that was seen, as JSON")
    asked = parser.parse_args(arguments)
    times = (BEFORE_S, AFTER_S)
    try:
        found = dict(machines.serve(asked.kernel, TURNS, asked.program, times, CAP_BYTES_PER_S))
        if asked.save:
            asked.save.write_text(json.dumps({**machines.made(), "turns": found}) + "\n")
        text = found["reported"]["report"]
        if not text:
            raise BenchError("the report had not ended")
        rates = {name: rate(found[name]) for name in ("none", "tierd")}
    except BenchError as error:
        print(f"not measured: {error}", file=sys.stderr)
        return 1
    print("\n".join(lines(rates, json.loads(text))))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
