"""Ranks ways of placing memory against each other: `python -m bench run`, `python -m bench report`.

A run fills in what is missing of the matrix of kernels, phases and configurations, a boot after
the other, and may be ended and begun again at any time. A report reads what there is.
"""

import argparse
import os
import sys
from pathlib import Path

from bench import cells, choices, configuration, figures, machines, phase, report
from bench.configuration import Configuration
from bench.errors import BenchError
from bench.phase import Phase
from tierd.units import parse_rate

MIB = 1 << 20


def run(arguments: argparse.Namespace) -> int:
    """Measure each missing cell. In each trial all configurations have their turn."""
    failed = 0
    kernels = (os.uname().release,) if arguments.here else arguments.kernels
    for trial in range(1, arguments.times + 1):
        for series in kernels:
            for timeline in phase.timelines(arguments.phases):
                for chosen in arguments.configurations:
                    failed += not measured(arguments, series, chosen, timeline, trial)
    return 1 if failed else 0


def write_report(arguments: argparse.Namespace) -> int:
    found = cells.load(arguments.data)
    if not found:
        print(f"nothing has been measured yet: {arguments.data} has no cells", file=sys.stderr)
        return 1
    report.write(found, arguments.data.parent)
    print(f"{arguments.data.parent / 'README.md'}: {len(found)} cells")
    return 0


def measured(
    arguments: argparse.Namespace,
    series: str,
    chosen: Configuration,
    timeline: tuple[Phase, ...],
    trial: int,
) -> bool:
    """Measure the missing cells of one boot.

    True if they are there now, or if this configuration has none of them.
    """
    known = "7.3" if arguments.here else series
    wanted = tuple(one for one in timeline if configuration.runs(chosen, known, one.name))
    if not wanted or not (
        arguments.again or cells.missing(arguments.data, series, chosen.name, wanted, trial)
    ):
        return True
    print(f"{series} {chosen.name} {'+'.join(one.name for one in wanted)} {trial}", flush=True)
    try:
        told = (
            machines.here(chosen.name, wanted, arguments.cap)
            if arguments.here
            else machines.in_guest(series, chosen.name, wanted, arguments.cap, arguments.slow)
        )
    except BenchError as error:
        print(f"  not measured: {error}", file=sys.stderr, flush=True)
        return False
    gap_s = cells.longest_gap_s(told)
    if gap_s > cells.GAP_S_MAX:
        print(
            f"  not kept: the host gave it no time for {gap_s:.1f} s", file=sys.stderr, flush=True
        )
        return False
    for cell in cells.split(told, series, chosen.name, trial, machines.made()):
        cells.save(arguments.data, cell)
        print(f"  {cell.key.phase}: {line(figures.figures(cell.seen))}", flush=True)
    return True


def line(found: figures.Figures) -> str:
    """Return the main figures of a cell on one line, for somebody who watches the run."""

    def seconds(value: float | None) -> str:
        return "never" if value is None else f"after {value:.1f} s"

    excess = "-" if found.excess is None else f"{found.excess:.2f}"
    steady = (
        "-" if found.steady_bytes_per_min is None else f"{found.steady_bytes_per_min / MIB:.1f}"
    )
    futile = "-" if found.futile is None else f"{found.futile:.1%}"
    return (
        f"50 % {seconds(found.t50_s)}, 95 % {seconds(found.t95_s)}, "
        f"at the end {found.residency_end:.1%}; promoted {found.promoted_bytes // MIB} MiB, "
        f"demoted {found.demoted_bytes // MIB} MiB, moved {found.moved_bytes // MIB} MiB, "
        f"excess {excess}, futile {futile}, steady {steady} MiB/min; "
        f"{found.touches_per_s:.0f} touches/s, p99 {found.p99_us:.0f} us"
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    verbs = parser.add_subparsers(required=True, metavar="run|report")
    running = verbs.add_parser("run", help="measure what is missing")
    running.add_argument(
        "--kernels", type=choices.among(configuration.SERIES), default=("6.12", "7.2")
    )
    running.add_argument(
        "--phases", type=choices.among(phase.BY_NAME), default=("static", "shift", "idle")
    )
    running.add_argument(
        "--configurations",
        type=choices.named(configuration.BY_NAME),
        default=tuple(configuration.BY_NAME.values()),
    )
    running.add_argument("--times", type=int, default=1, help="trials of each")
    running.add_argument(
        "--cap", type=parse_rate, default=configuration.CAP_BYTES_PER_S, help="such as 20MB/s"
    )
    running.add_argument(
        "--slow", type=int, default=0, metavar="TIMES",
        help="in a guest whose memory is so many times as slow as its figures",
    )  # fmt: skip
    running.add_argument("--again", action="store_true", help="measure also what is there")
    running.add_argument(
        "--here", action="store_true",
        help="on this machine, as root: its kernel's settings are changed for as long",
    )  # fmt: skip
    running.add_argument("--data", type=Path, default=cells.FOLDER, metavar="DIR")
    running.set_defaults(verb=run)
    reporting = verbs.add_parser("report", help="write tables and plots of what there is")
    reporting.add_argument("--data", type=Path, default=cells.FOLDER, metavar="DIR")
    reporting.set_defaults(verb=write_report)
    arguments = parser.parse_args()
    if getattr(arguments, "here", False) and arguments.slow:
        parser.error("--slow is for guests: this machine's memory is as fast as it is")
    code: int = arguments.verb(arguments)
    return code


if __name__ == "__main__":
    sys.exit(main())
