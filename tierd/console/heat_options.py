"""The options of `tierd record`, `tierd simulate` and `tierd report`."""

import argparse

from tierd.console.options import (
    config_option,
    count_value,
    duration_ms,
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
    how = record.add_mutually_exclusive_group()
    how.add_argument(
        "--damon-stat",
        action="store_true",
        help="only read what the kernel's module damon_stat counts, which is less certain",
    )
    simulate_option(how)
    for_option(record, "stop after this time (default: until Ctrl-C)", None)


def simulate(simulate: argparse.ArgumentParser) -> None:
    what = simulate.add_mutually_exclusive_group()
    what.add_argument(
        "file",
        nargs="?",
        type=path_value,
        metavar="PROFILE",
        help="a profile that `tierd record` made, or a workload file (docs/simulate.md); default: "
        "the profile that tierd keeps while it runs",
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


def report(report: argparse.ArgumentParser) -> None:
    how = report.add_mutually_exclusive_group()
    how.add_argument(
        "--ab",
        dest="ab_ms",
        type=duration_ms,
        metavar="DURATION",
        help="pause and resume tierd in turns of this length, such as 10min",
    )
    how.add_argument(
        "--before",
        type=path_value,
        metavar="FILE",
        help="compare with what an earlier report saved (--save)",
    )
    report.add_argument(
        "--turns",
        type=count_value,
        default=6,
        metavar="N",
        help="pairs of turns, for --ab (default: 6)",
    )
    for_option(report, "how long to measure without --ab (default: 5min)", 300_000)
    figure = report.add_mutually_exclusive_group()
    figure.add_argument(
        "--command", metavar="COMMAND", help="prints the application's own figure, a number"
    )
    figure.add_argument(
        "--prometheus", metavar="URL", help="ask this Prometheus for the application's own figure"
    )
    report.add_argument("--query", metavar="QUERY", help="the query for --prometheus")
    report.add_argument(
        "--better",
        choices=["higher", "lower"],
        default="higher",
        help="which values of the application's figure are good (default: higher)",
    )
    report.add_argument("--save", type=path_value, metavar="FILE", help="save it for --before")
    report.add_argument(
        "--html", type=path_value, metavar="FILE", help="write one web page that can be sent"
    )
    json_option(report)
