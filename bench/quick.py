"""A real program on a machine with slow memory, with tierd and without: `make bench-quick`.

Trials of the two take turns, each in a machine of its own. There are as many as the time allows,
and at least one of each. Nothing is left out of what it says at the end.
"""

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from bench import cells, choices, comparison, configuration, machines, program, speed
from bench.cells import Cell, Key
from bench.errors import BenchError
from tierd.units import parse_rate
from tierd.views import plots

SCHEMA = "tierd.bench.program/2"

BEFORE_S = 15
AFTER_S = 75

# A tenth of tierd's default, because memory is ten times as slow as on a real machine.
CAP_BYTES_PER_S = 20_000_000

MINUTES_MAX = 15.0
TIMES = 3
FOLDER = Path("bench-quick")


def order(names: tuple[str, ...], trial: int) -> tuple[str, ...]:
    """Return the names in the order of this trial: each one is the first in its turn.

    So a host that becomes slower, or what a boot leaves behind, favours none of them.
    """
    first = (trial - 1) % len(names)
    return names[first:] + names[:first]


def run(arguments: argparse.Namespace, folder: Path) -> list[Cell]:
    """Run as many boots as the time allows."""
    began_s = time.monotonic()
    longest_s = 0.0
    found: list[Cell] = []
    for boot in range(arguments.times):
        boot_s = time.monotonic()
        if found and boot_s - began_s + longest_s > arguments.minutes * 60:
            print(f"no time for boot {boot + 1}", flush=True)
            break
        first = arguments.first + boot * arguments.rounds
        trials = range(first, first + arguments.rounds)
        names = [name for trial in trials for name in order(arguments.contenders, trial)]
        print(f"boot {boot + 1}: {', '.join(names)}", flush=True)
        for cell in measured(arguments, tuple(names), first):
            cells.save(folder, cell)
            found.append(cell)
        longest_s = max(longest_s, time.monotonic() - boot_s)
    return found


def measured(arguments: argparse.Namespace, names: tuple[str, ...], first: int) -> Iterator[Cell]:
    """Boot once, and return a cell for each turn. The trials of a contender begin with `first`."""
    told = machines.serve(
        arguments.kernel,
        names,
        arguments.program,
        (arguments.before, arguments.after),
        arguments.cap,
        arguments.seconds_max,
    )
    made = machines.made()
    numbers = dict.fromkeys(names, first)
    for name, seen in told:
        key = Key(arguments.kernel, name, arguments.program, numbers[name])
        numbers[name] += 1
        yield Cell(key, {"schema": SCHEMA, **seen, "made": made})


def show(found: list[Cell], folder: Path) -> None:
    """Print the comparison, and save its picture beside the cells."""
    compared = comparison.compare(program.BY_NAME[found[0].key.phase].title, found)
    print()
    print(comparison.text(compared, plots.ink_for(sys.stdout.encoding)))
    picture = folder / f"{found[0].key.phase}.svg"
    picture.write_text(comparison.svg(compared))
    print(f"picture and cells: {picture}, {folder}")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.quick", description=__doc__)
    parser.add_argument("--kernel", choices=configuration.SERIES, default="7.2")
    parser.add_argument("--program", choices=program.BY_NAME, default="redis")
    contenders = choices.among(program.CONTENDERS)
    parser.add_argument("--contenders", type=contenders, default=("none", "tierd", "all-fast"))
    parser.add_argument("--times", type=int, default=TIMES, help="boots, at most")
    parser.add_argument("--rounds", type=int, default=1, help="turns of each in a boot")
    parser.add_argument("--first", type=int, default=1, help="number of the first trial")
    parser.add_argument("--minutes", type=float, default=MINUTES_MAX, help="for all trials")
    parser.add_argument("--seconds-max", type=int, default=0, help="of a boot; 0 is any")
    parser.add_argument("--before", type=int, default=BEFORE_S, help="seconds without it")
    parser.add_argument("--after", type=int, default=AFTER_S, help="seconds with it")
    parser.add_argument("--cap", type=parse_rate, default=CAP_BYTES_PER_S, help="such as 20MB/s")
    parser.add_argument("--data", type=Path, default=FOLDER, metavar="DIR")
    parser.add_argument("--keep", action="store_true", help="as cells of docs/benchmarks")
    parser.add_argument("--show", type=Path, metavar="DIR", help="only show what a run has left")
    arguments = parser.parse_args()
    if arguments.show:
        kept = list(cells.load(arguments.show))
        if not kept:
            print(f"{arguments.show} has no cells", file=sys.stderr)
            return 1
        show(kept, arguments.show)
        return 0
    folder = arguments.data / time.strftime("%Y%m%d-%H%M%S")
    if arguments.keep:
        folder = speed.folder(arguments.cap)
    try:
        found = run(arguments, folder)
    except BenchError as error:
        print(f"not measured: {error}", file=sys.stderr)
        return 1
    show(found, folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
