"""The suite by hand: `python -m tests.contract SERIES [--simulated] [--only 'quota.*']`.

Shows what differs from the table, and with --all what was seen everywhere.
"""

import argparse
import json
import sys

from tests.contract.behaviour import SERIES, table
from tests.contract.guests import Seen, collected, observe
from tests.contract.run import chosen
from tests.contract.simulated import lines
from tests.vm.errors import VmError


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.contract", description=__doc__)
    parser.add_argument("series", choices=SERIES)
    parser.add_argument("--simulated", action="store_true", help="not in a guest")
    parser.add_argument("--only", default="*", help="a pattern of ids, as `quota.*`")
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--all", action="store_true", help="show all that was seen")
    arguments = parser.parse_args()
    series, only, times = arguments.series, arguments.only, arguments.times
    try:
        if arguments.simulated:
            seen = collected("simulated", lines(chosen(only), series, times))
        else:
            seen = observe(series, only, times)
    except VmError as error:
        print(error, file=sys.stderr)
        return 1
    return show(series, seen, everything=arguments.all)


def show(series: str, seen: Seen, *, everything: bool) -> int:
    """Print each behaviour that is not as the table says; how many those are, as a status."""
    wrong = 0
    print(seen.release)
    for entry in table():
        for line in seen.lines.get(entry.id, ()):
            problems = tuple(entry.problems(series, line))
            wrong += bool(problems)
            if problems or everything:
                print(f"{entry.id} ({line['took_s']} s)")
            if everything:
                print(f"    {json.dumps(line.get('seen'))[:600]}")
            for problem in problems:
                print(f"  - {problem}")
    print(f"{sum(map(len, seen.lines.values()))} seen, {wrong} not as the table says")
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main())
