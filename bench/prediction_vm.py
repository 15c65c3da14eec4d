"""Prediction against truth on real kernels, in virtual machines.

    python -m bench.prediction_vm record --kernel 7.2 --into store-7.2.json
    python -m bench.prediction_vm cell --of store-7.2.json --fast 768 --save cells.json

A store whose heat is scattered is recorded on one size of fast memory, with nobody moving
anything. Then, for each other size, a machine of this size is booted, and the store runs there
under tierd. Each step is one boot.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from bench import machines
from bench.errors import BenchError
from bench.prediction import Cell, load, predicted, table
from tests.contract.guests import workload
from tests.vm import guest
from tests.vm.errors import VmError
from tierd.profile import from_profile, profile
from tierd.profile.load import Work
from tierd.sim import machine_model
from tierd.sim.machine_model import MachineModel

MIB = 1 << 20
WORKLOAD = "store of 800 MiB"
STORE_MIB = 800
RECORDED_MIB = 512
SLOW_MIB = 1024
FAST, SLOW = "0", "1"

# As many as fit into a slot of the machine that made the cells.
RECORD_MINUTES = 5
SETTLE_S = 150
# Twenty times what a boot, Python and the placing need on an idle host.
OVERHEAD_S = 600.0


def machine(fast_mib: int) -> MachineModel:
    """Return the two-tier machine with another size of its nodes."""
    two_tier = machine_model.load("two-tier")
    fast, slow = two_tier.nodes
    return replace(
        two_tier,
        nodes=(replace(fast, size_mib=fast_mib), replace(slow, size_mib=SLOW_MIB)),
    )


def in_guest(series: str, fast_mib: int, words: Sequence[str], work_s: float) -> dict[str, Any]:
    """Boot a machine, and return what `bench.prediction_guest` says there."""
    argv = ("python3", "-B", "-m", "bench.prediction_guest", "--workload", "/job/workload")
    command = guest.Command((*argv, "--store-mib", str(STORE_MIB), *words), 2 * work_s + OVERHEAD_S)
    try:
        verdict = guest.run(
            series, machine(fast_mib), [command], {"workload": workload().read_bytes()}
        )
    except VmError as error:
        raise BenchError(f"no virtual machine: {error}") from error
    (result,) = verdict.results
    if result.status != 0:
        raise BenchError(f"{series}, {fast_mib} MiB: {result.status}\n{result.stderr[-2000:]}")
    sys.stderr.write(result.stderr)
    told: dict[str, Any] = json.loads(result.stdout)
    return {**told, "release": verdict.release}


def record(series: str) -> dict[str, Any]:
    words = ("record", "--minutes", str(RECORD_MINUTES))
    found = in_guest(series, RECORDED_MIB, words, 60 * RECORD_MINUTES)
    return {**found, "series": series, "fast_mib": RECORDED_MIB, "made": machines.made()}


def work_of(recorded: dict[str, Any]) -> Work:
    found = profile.parse("store", recorded["profile"])
    # For the figures it does not matter that fewer than ten minutes were recorded.
    return from_profile.work(found, WORKLOAD)


def cell(recorded: dict[str, Any], fast_mib: int) -> Cell:
    """Predict a size, boot it, and return both.

    What the kernel and the guest have for themselves cannot move. On such small nodes it is a
    large part, so the size is that without it, as it was in the guest that was recorded.
    """
    own_bytes = {
        node: size * MIB - recorded["free"][node]
        for node, size in ((FAST, recorded["fast_mib"]), (SLOW, SLOW_MIB))
    }
    fast_bytes, slow_bytes = fast_mib * MIB - own_bytes[FAST], SLOW_MIB * MIB
    row = predicted(work_of(recorded), fast_bytes, slow_bytes)
    words = ("truth", "--settle", str(SETTLE_S))
    found = in_guest(recorded["series"], fast_mib, words, 2 * SETTLE_S)
    return Cell(
        workload=WORKLOAD,
        seed=1,
        fast_mib=fast_mib,
        predicted=round(row.guess.served, 4),
        low=round(row.guess.low, 4),
        high=round(row.guess.high, 4),
        cannot_tell=row.cannot_tell,
        best=round(found["best"], 4),
        truth=found["served"],
        made=machines.made(),
        kernel=found["release"],
    )


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.prediction_vm", description=__doc__)
    steps = parser.add_subparsers(dest="step", required=True)
    first = steps.add_parser("record")
    first.add_argument("--kernel", default="7.2")
    first.add_argument("--into", type=Path, required=True)
    then = steps.add_parser("cell")
    then.add_argument("--of", type=Path, required=True, help="what `record` has written")
    then.add_argument("--fast", type=int, required=True, help="a size in MiB")
    then.add_argument("--save", type=Path, required=True)
    asked = parser.parse_args(arguments)
    try:
        if asked.step == "record":
            asked.into.write_text(json.dumps(record(asked.kernel)) + "\n")
            return 0
        cells = [*load(asked.save), cell(json.loads(asked.of.read_text()), asked.fast)]
    except BenchError as error:
        print(f"not measured: {error}", file=sys.stderr)
        return 1
    asked.save.write_text(json.dumps([asdict(one) for one in cells], indent=1) + "\n")
    print(table(cells))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
