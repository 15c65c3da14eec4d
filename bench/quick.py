"""A real program on a machine with slow memory, with tierd and without: `make bench-quick`.

Trials of the two take turns, each in a machine of its own. There are as many as the time allows,
and at least one of each. Nothing is left out of what it says at the end.
"""

import argparse
import sys
import time
from pathlib import Path

from bench import cells, comparison, configuration, machines, program
from bench.cells import Cell, Key
from bench.errors import BenchError
from tests.vm.slow import Slowness
from tierd.units import parse_rate
from tierd.views import plots

SCHEMA = "tierd.bench.program/1"

# The name in the tables: the configuration behind it, and if all memory is fast.
CONTENDERS = {"none": ("none", False), "tierd": ("demand", False), "all-fast": ("none", True)}

BEFORE_S = 20
AFTER_S = 90

# A tenth of tierd's default, because memory is ten times as slow as on a real machine.
CAP_BYTES_PER_S = 20_000_000

MINUTES_MAX = 15.0
TIMES = 3
FOLDER = Path("bench-quick")


def order(names: tuple[str, ...], trial: int) -> tuple[str, ...]:
    """Return the names in the order of this trial.

    It is reversed in every second trial, so that a host that becomes slower favours none of them.
    """
    return names if trial % 2 else names[::-1]


def run(arguments: argparse.Namespace, folder: Path) -> list[Cell]:
    """Run as many trials as the time allows."""
    began_s = time.monotonic()
    longest_s = 0.0
    found: list[Cell] = []
    for trial in range(1, arguments.times + 1):
        round_s = time.monotonic()
        if found and round_s - began_s + longest_s > arguments.minutes * 60:
            print(f"no time for trial {trial} of each", flush=True)
            break
        for name in order(arguments.contenders, trial):
            print(f"trial {trial}: {name}", flush=True)
            cell = measured(arguments, name, trial)
            cells.save(folder, cell)
            found.append(cell)
        longest_s = max(longest_s, time.monotonic() - round_s)
    return found


def measured(arguments: argparse.Namespace, name: str, trial: int) -> Cell:
    chosen, even = CONTENDERS[name]
    told = machines.serve(
        arguments.kernel,
        chosen,
        arguments.program,
        (arguments.before, arguments.after),
        arguments.cap,
        Slowness(even=even),
    )
    key = Key(arguments.kernel, name, arguments.program, trial)
    return Cell(key, {"schema": SCHEMA, "contender": chosen, **told, "made": machines.made()})


def show(found: list[Cell], folder: Path) -> None:
    """Print the comparison, and save its picture beside the cells."""
    compared = comparison.compare(program.BY_NAME[found[0].key.phase].title, found)
    print()
    print(comparison.text(compared, plots.ink_for(sys.stdout.encoding)))
    picture = folder / f"{found[0].key.phase}.svg"
    picture.write_text(comparison.svg(compared))
    print(f"picture and cells: {picture}, {folder}")


def contenders(text: str) -> tuple[str, ...]:
    names = tuple(text.split(","))
    unknown = [name for name in names if name not in CONTENDERS]
    if unknown:
        raise argparse.ArgumentTypeError(f"{', '.join(unknown)}: expected {', '.join(CONTENDERS)}")
    return names


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.quick", description=__doc__)
    parser.add_argument("--kernel", choices=configuration.SERIES, default="7.2")
    parser.add_argument("--program", choices=program.BY_NAME, default="redis")
    parser.add_argument("--contenders", type=contenders, default=("none", "tierd"))
    parser.add_argument("--times", type=int, default=TIMES, help="trials of each, at most")
    parser.add_argument("--minutes", type=float, default=MINUTES_MAX, help="for all trials")
    parser.add_argument("--before", type=int, default=BEFORE_S, help="seconds without it")
    parser.add_argument("--after", type=int, default=AFTER_S, help="seconds with it")
    parser.add_argument("--cap", type=parse_rate, default=CAP_BYTES_PER_S, help="such as 20MB/s")
    parser.add_argument("--data", type=Path, default=FOLDER, metavar="DIR")
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
    try:
        found = run(arguments, folder)
    except BenchError as error:
        print(f"not measured: {error}", file=sys.stderr)
        return 1
    show(found, folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
