"""The options of `tierd record` and `tierd simulate`."""

import argparse

from tierd.console.options import (
    config_option,
    for_option,
    json_option,
    pair_value,
    path_value,
    percent_value,
    simulate_option,
    size_value,
)


def record(record: argparse.ArgumentParser) -> None:
    record.add_argument(
        "file",
        nargs="?",
        type=path_value,
        metavar="FILE",
        help="the profile (default: tierd-profile-DATE-TIME.jsonl in this directory)",
    )
    simulate_option(record)
    for_option(record, "stop after this time (default: until Ctrl-C)", None)


def simulate(simulate: argparse.ArgumentParser) -> None:
    what = simulate.add_mutually_exclusive_group()
    what.add_argument(
        "file",
        nargs="?",
        type=path_value,
        metavar="PROFILE",
        help="a profile that `tierd record` made, or a workload file (docs/simulate.md)",
    )
    what.add_argument(
        "--builtin", metavar="NAME", help="a workload that ships; a wrong name lists them"
    )
    simulate.add_argument(
        "--dram",
        type=size_value,
        metavar="SIZE",
        help="how much fast memory, such as 64G (default: a row for each of a dozen sizes)",
    )
    simulate.add_argument(
        "--cxl",
        type=size_value,
        metavar="SIZE",
        help="how much slow memory (default: as much as the programs need)",
    )
    simulate.add_argument(
        "--target-hit",
        type=percent_value,
        metavar="PERCENT",
        help="find the least fast memory that serves this share, such as 99%%",
    )
    simulate.add_argument(
        "--price",
        type=pair_value,
        metavar="FAST,SLOW",
        help="what a GiB costs, such as 12,5 in any currency",
    )
    simulate.add_argument(
        "--latency",
        type=pair_value,
        metavar="FAST,SLOW",
        default=(100.0, 250.0),
        help="in nanoseconds, for the modelled slowdown (default: 100,250)",
    )
    config_option(simulate)
    how = simulate.add_mutually_exclusive_group()
    json_option(how)
    how.add_argument(
        "--svg",
        type=path_value,
        metavar="FILE",
        help="write the curve as an SVG picture; - prints it",
    )
