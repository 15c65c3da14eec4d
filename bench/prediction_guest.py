"""In a guest: makes the profile of a store, or measures what the fast node serves of it.

    python3 -m bench.prediction_guest --workload PROGRAM --store-mib 800 record --minutes 5
    python3 -m bench.prediction_guest --workload PROGRAM --store-mib 800 truth --settle 150

The store is that of the benchmark (`bench.store`): its heat falls by Zipf's law and is scattered
over its pages. It begins on the fast node. Prints one JSON object.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench import contender, place, probe, store
from bench.configuration import BY_NAME
from bench.contender import Contender
from bench.phase import Phase, Scene
from bench.place import Place
from tests.contract.sets import WorkloadSets
from tests.vm.guard import require_guest
from tierd.sysfs import RealSysfs

MIB = 1 << 20
SKEW = 0.99
SEED = 1
# Seconds over which the share is measured, and between two looks.
MEASURED_S = 60.0
LOOK_S = 5.0
# As tierd's default. It is more than such a machine can move.
CAP_BYTES_PER_S = 200_000_000

READS = Phase("prediction", "zipf 0.99, ranks shuffled over all values", Scene.store, 0, skew=SKEW)


def record(minutes: int, folder: Path) -> dict[str, Any]:
    """Return the profile that `tierd record` makes, with nobody moving anything."""
    path = folder / "profile.jsonl"
    argv = [sys.executable, "-m", "tierd", "record", str(path), "--for", f"{minutes}m"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    sys.stderr.write(done.stdout + done.stderr)
    return {"status": done.returncode, "profile": path.read_text()}


def truth(sets: WorkloadSets, where: Place, settle_s: float, folder: Path) -> dict[str, Any]:
    """Return what the fast node serves under tierd, after some time, look by look."""
    running = Contender(BY_NAME["demand"], where, folder, CAP_BYTES_PER_S)
    looks: list[float] = []
    first = served(sets, where)
    try:
        running.start(lambda: None)
        time.sleep(settle_s)
        end_s = time.monotonic() + MEASURED_S
        while time.monotonic() < end_s:
            looks.append(served(sets, where))
            time.sleep(LOOK_S)
    finally:
        running.stop()
        sys.stderr.write(running.log())
    pages = store.pages_on(sets, Scene.store, where.fast)
    return {
        "first": first,
        "looks": looks,
        "served": round(statistics.fmean(looks), 4),
        "pages_on_fast": pages,
        "best": int(sets.ask(f"best {store.STORE} {pages}")) / store.WHOLE,
    }


def served(sets: WorkloadSets, where: Place) -> float:
    return round(store.served(sets, Scene.store, where.fast, where.fast_bytes), 4)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workload", type=Path, required=True, help="built from workload.c")
    parser.add_argument("--store-mib", type=int, required=True)
    parser.add_argument("what", choices=("record", "truth"))
    parser.add_argument("--minutes", type=int, default=5)
    parser.add_argument("--settle", type=float, default=150.0)
    arguments = parser.parse_args()
    require_guest()
    where = place.find(RealSysfs())
    contender.quiet()
    Path("/proc/sys/vm/drop_caches").write_text("3")
    with tempfile.TemporaryDirectory(prefix="tierd-bench.") as scratch:
        folder = Path(scratch)
        sets = WorkloadSets(arguments.workload, folder)
        try:
            free = {node: probe.free_bytes(node) for node in (where.fast, where.slow)}
            sets.place(store.STORE, where.fast, arguments.store_mib * MIB)
            store.read(sets, READS, SEED, store.pages_on(sets, Scene.store, where.fast), 0)
            if arguments.what == "record":
                found = record(arguments.minutes, folder)
            else:
                found = truth(sets, where, arguments.settle, folder)
        finally:
            sets.close()
    print(json.dumps({**found, "free": free}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
