"""Prediction against truth on real kernels, in virtual machines.

    python -m bench.prediction_vm record --kernel 7.2 --into store-7.2.json
    python -m bench.prediction_vm cell --of store-7.2.json --fast 768 --save cells.json
    python -m bench.prediction_vm again --of store-7.2.json --save cells.json  # keep each truth

A store whose heat is scattered is recorded on one size of fast memory, with nobody moving
anything. Then, for each other size, a machine of this size is booted, and the store runs there
under tierd. Each step is one boot. With `--program redis` a program of the benchmark is recorded
in its place, and the share is that of user code's accesses that missed the caches.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench import machines, program, throughput
from bench.errors import BenchError
from bench.prediction import Cell, load, predicted, said, save, table
from bench.prediction_guest import CAP_BYTES_PER_S as RATE_BYTES_PER_S
from tests.contract.guests import workload
from tests.vm import guest
from tests.vm.errors import VmError
from tests.vm.slow import Slowness
from tierd.profile import from_profile, profile
from tierd.profile.curve import Point
from tierd.profile.load import Work
from tierd.sim import machine_model
from tierd.sim.machine_model import MachineModel

MIB = 1 << 20
WORKLOAD = "store of 800 MiB"
STORE_MIB = 800
RECORDED_MIB = 512
SLOW_MIB = 1024
FAST, SLOW = "0", "1"

# `tierd simulate` wants ten, and the closer look comes at the end of a panel of ten minutes.
RECORD_MINUTES = 12
SETTLE_S = 150
# Seconds of a program without anybody, until it has filled its caches; and then with tierd, of
# which the last ones are measured.
BEFORE_S = 8
PROGRAM_S = 210
MEASURED_S = 60.0
# A recorder looks a little later than each minute ends.
SPARE_S = 15
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


def beside_program(
    series: str, fast_mib: int, name: str, turn: str, after_s: int, items: int = 0
) -> dict[str, Any]:
    """Boot a machine where a program runs, give one contender its turn, and return what it told."""
    # Memory waits next to nothing: what is asked is which node serves, and not how fast.
    sized = machines.Sized(machine(fast_mib), items, stretch=1)
    times = (BEFORE_S, after_s)
    ((_, seen),) = machines.serve(series, (turn,), name, times, RATE_BYTES_PER_S, sized=sized)
    return seen


def record_program(series: str, name: str) -> dict[str, Any]:
    seen = beside_program(series, RECORDED_MIB, name, "record", 60 * RECORD_MINUTES + SPARE_S)
    told = {key: seen[key] for key in ("profile", "free", "items")}
    made = machines.made()
    return {**told, "program": name, "series": series, "fast_mib": RECORDED_MIB, "made": made}


def truth_of_program(recorded: dict[str, Any], fast_mib: int) -> tuple[float, str]:
    """Return the share that the fast node serves of a program at last, and the kernel's release."""
    series, name, items = (recorded[key] for key in ("series", "program", "items"))
    seen = beside_program(series, fast_mib, name, "tierd", PROGRAM_S, items)
    end_s = seen["served"]["at_s"][-1]
    share = throughput.window(seen, end_s - MEASURED_S, end_s).fast_share
    if share is None:
        raise BenchError(f"{name} on {series}, {fast_mib} MiB: no share could be read")
    return share, seen["release"]


def title(recorded: dict[str, Any]) -> str:
    """Return what was recorded, in words."""
    name = recorded.get("program")
    return WORKLOAD if name is None else program.BY_NAME[name].title


def work_of(recorded: dict[str, Any]) -> Work:
    found = profile.parse("profile", recorded["profile"])
    # The truth of a program is what missed the caches of the plugin, and that of the store is all
    # that it reads. The guest believes that its processors have other caches.
    cpus = sum(len(node.cpus) for node in machine(recorded["fast_mib"]).nodes)
    held = cpus * Slowness().cache_bytes if recorded.get("program") else 0
    found = replace(found, header=replace(found.header, cache_bytes=held))
    return from_profile.work(found, title(recorded))


def forecast(recorded: dict[str, Any], fast_mib: int) -> Point:
    """Predict a size.

    What the kernel and the guest have for themselves cannot move. On such small nodes it is a
    large part, so the size is that without it, as it was in the guest that was recorded.
    """
    own_bytes = {
        node: size * MIB - recorded["free"][node]
        for node, size in ((FAST, recorded["fast_mib"]), (SLOW, SLOW_MIB))
    }
    fast_bytes, slow_bytes = fast_mib * MIB - own_bytes[FAST], SLOW_MIB * MIB
    return predicted(work_of(recorded), fast_bytes, slow_bytes)


def again(recorded: dict[str, Any], known: Cell) -> Cell:
    """Predict a size anew, and keep the truth that is known."""
    anew = replace(known, **said(forecast(recorded, known.fast_mib)))
    return anew if recorded.get("program") else replace(anew, best=known.best)


def cell(recorded: dict[str, Any], fast_mib: int) -> Cell:
    """Predict a size, boot it, and return both."""
    fields = said(forecast(recorded, fast_mib))
    if recorded.get("program"):
        truth, release = truth_of_program(recorded, fast_mib)
    else:
        words = ("truth", "--settle", str(SETTLE_S))
        found = in_guest(recorded["series"], fast_mib, words, 2 * SETTLE_S)
        truth, release = found["served"], found["release"]
        fields["best"] = round(found["best"], 4)
    return Cell(
        workload=title(recorded),
        seed=1,
        fast_mib=fast_mib,
        truth=round(truth, 4),
        made=machines.made(),
        kernel=release,
        **fields,
    )


def is_of(known: Cell, recorded: dict[str, Any]) -> bool:
    """Return whether a cell was predicted from this record."""
    return known.workload == title(recorded) and known.kernel.startswith(recorded["series"])


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.prediction_vm", description=__doc__)
    steps = parser.add_subparsers(dest="step", required=True)
    first = steps.add_parser("record")
    first.add_argument("--kernel", default="7.2")
    first.add_argument("--program", choices=program.BY_NAME, help="in place of the store")
    first.add_argument("--into", type=Path, required=True)
    then = steps.add_parser("cell")
    then.add_argument("--of", type=Path, required=True, help="what `record` has written")
    then.add_argument("--fast", type=int, required=True, help="a size in MiB")
    then.add_argument("--save", type=Path, required=True)
    anew = steps.add_parser("again")
    anew.add_argument("--of", type=Path, required=True, help="what `record` has written")
    anew.add_argument("--save", type=Path, required=True)
    asked = parser.parse_args(arguments)
    try:
        if asked.step == "record":
            name = asked.program
            told = record_program(asked.kernel, name) if name else record(asked.kernel)
            asked.into.write_text(json.dumps(told) + "\n")
            return 0
        recorded = json.loads(asked.of.read_text())
        if asked.step == "again":
            cells = [
                again(recorded, one) if is_of(one, recorded) else one for one in load(asked.save)
            ]
        else:
            cells = [*load(asked.save), cell(recorded, asked.fast)]
    except BenchError as error:
        print(f"not measured: {error}", file=sys.stderr)
        return 1
    save(asked.save, cells)
    print(table(cells))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
