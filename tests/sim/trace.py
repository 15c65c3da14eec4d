"""How DAMON behaves over a minute, to compare simulated kernels with real ones.

The contract tests check single facts. Here a kernel finds a hot set, promotes it, demotes a cold
set and walks a node under a quota. Every 20 rounds a row records its progress. Real
kernels were recorded: `python -m tests.sim.trace SERIES` boots a guest and records again.
"""

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path

from tests.contract import guests
from tests.contract.context import (
    AGGR_US,
    COUNTER,
    FAST,
    MIB,
    PAGE,
    SLOW,
    Context,
    Scheme,
    running,
)
from tests.contract.real import RealSubject
from tests.contract.subject import Subject, rest
from tests.vm import guest
from tierd.sim import machine_model

RECORDED = Path(__file__).parent.parent / "fixtures" / "traces"

# Rounds of the counter between two rows; each is an aggregation.
ROUNDS = 20
APPLY_US = 10 * AGGR_US
TIMEOUT_S = 400.0

HOT_BYTES = 16 * MIB
COLD_BYTES = 200 * MIB
DEMOTED_BYTES = 100 * MIB
WARM_BYTES = 64 * MIB
# A page of the warm set is seen by few samples, and by none in most aggregations.
WARM_HZ = 6.0
YOUNG_AGE = 60

Row = dict[str, int]
Trace = dict[str, list[Row]]


def trace(subject: Subject) -> Trace:
    """Record all parts, on a kernel at rest."""
    # NUMA balancing would move the hot set away from the node without CPUs.
    subject.sysfs.write("proc/sys/kernel/numa_balancing", "0")
    parts: dict[str, Callable[[Subject], list[Row]]] = {
        "monitor": monitor,
        "promote": promote,
        "demote": demote,
        "walk": walk,
        "ages": ages,
    }
    found: Trace = {}
    for name, part in parts.items():
        rest(subject)
        found[name] = part(subject)
        subject.sets.close()
    return found


def monitor(subject: Subject) -> list[Row]:
    """Record the number of regions, and the memory in hot regions."""
    _place_hot_and_cold(subject)
    rows = []
    with running(subject, SLOW, COUNTER) as context:
        for _ in range(8):
            after_rounds(context, 2 * ROUNDS)
            regions = context.tried_regions(0)
            hot = sum(r.end - r.start for r in regions if r.nr_accesses >= 5)
            rows.append({"regions": len(regions), "hot_mib": hot // MIB})
    return rows


def promote(subject: Subject) -> list[Row]:
    """Record the promotion of a hot set, 2 MiB in ten rounds."""
    _place_hot_and_cold(subject)
    scheme = Scheme(
        action="migrate_hot",
        target_nid=FAST,
        accesses_min=1,
        apply_us=APPLY_US,
        bytes=2 * MIB,
        only="young",
    )
    with running(subject, SLOW, COUNTER, scheme) as context:
        return [_moved(context, "hot", FAST) for _ in range(10)]


def demote(subject: Subject) -> list[Row]:
    """Record the demotion of a cold set. The quota is used on the whole node, by address."""
    subject.sets.place("cold", FAST, DEMOTED_BYTES)
    scheme = Scheme(
        action="migrate_cold",
        target_nid=SLOW,
        apply_us=APPLY_US,
        bytes=20 * MIB,
        never="young",
    )
    with running(subject, FAST, COUNTER, scheme) as context:
        return [_moved(context, "cold", SLOW) for _ in range(8)]


def walk(subject: Subject) -> list[Row]:
    """Record what a quota of 300 MiB tries of 1 GiB, window by window."""
    with running(subject, SLOW, COUNTER, Scheme(bytes=300 * MIB)) as context:
        after_rounds(context, 2 * ROUNDS)
        stats = context.stats()[1]
        return [
            {
                "rounds": context.applied(),
                "tried_pages": stats.sz_tried // PAGE,
                "exceeded": stats.qt_exceeds,
            }
        ]


def ages(subject: Subject) -> list[Row]:
    """Record how much memory has a low age, next to a set that is accessed rarely."""
    subject.sets.place("hot", SLOW, HOT_BYTES // 2)
    subject.sets.heat("hot")
    subject.sets.place("warm", SLOW, WARM_BYTES)
    subject.sets.heat("warm", WARM_HZ)
    rows = []
    with running(subject, SLOW, COUNTER) as context:
        after_rounds(context, 8 * ROUNDS)
        for _ in range(4):
            after_rounds(context, 2 * ROUNDS)
            young = (r for r in context.tried_regions(0) if r.age < YOUNG_AGE)
            rows.append({"young_mib": sum(r.end - r.start for r in young) // MIB})
    return rows


def after_rounds(context: Context, more: int) -> None:
    """Wait until the counter, the first scheme, was applied `more` times more."""
    goal = context.applied() + more
    context.until(lambda: context.applied() >= goal)


def _place_hot_and_cold(subject: Subject) -> None:
    subject.sets.place("cold", SLOW, COLD_BYTES)
    subject.sets.place("hot", SLOW, HOT_BYTES)
    subject.sets.heat("hot")


def _moved(context: Context, name: str, nid: int) -> Row:
    after_rounds(context, ROUNDS)
    stats = context.stats()[1]
    return {
        "rounds": context.applied(),
        "tried_pages": stats.sz_tried // PAGE,
        "applied_pages": stats.sz_applied // PAGE,
        "arrived_pages": context.subject.sets.where(name).get(nid, 0),
    }


def record(series: str) -> Path:
    """Boot a guest, and store the trace that it prints."""
    argv = ("python3", "-B", "-m", "tests.sim.trace", series, "--workload", "/job/workload")
    files = {"workload": guests.workload().read_bytes()}
    verdict = guest.run(
        series, machine_model.load(guests.MACHINE), [guest.Command(argv, TIMEOUT_S)], files
    )
    (result,) = verdict.results
    if result.status != 0:
        raise RuntimeError(f"{series}: {result.status}\n{result.stderr}")
    found = {"release": verdict.release, **json.loads(result.stdout)}
    path = RECORDED / f"trace-{series}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(found, indent=1) + "\n")
    return path


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim.trace", description=__doc__)
    parser.add_argument("series")
    parser.add_argument("--workload", type=Path, help="in a guest: trace it")
    arguments = parser.parse_args()
    if arguments.workload is None:
        sys.stdout.write(f"{record(arguments.series)}\n")
    else:
        json.dump(trace(RealSubject(arguments.workload)), sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
