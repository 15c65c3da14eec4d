"""Record the answers of real kernels: `python -m tests.sim.answers.record [SERIES ...]`.

Boots a guest of each series, asks there (`--here`), and stores the answers beside this file.
"""

import argparse
import json
import sys

from tests.sim.answers.table import AREAS, HERE, ask, kept
from tests.vm import guest
from tests.vm.guard import require_guest
from tierd.clock import SystemClock
from tierd.sim.kernel_series import SERIES
from tierd.sim.machine_model import load
from tierd.sysfs import RealSysfs

# Twenty seconds on an idle machine, of which the commands of 6.12 are most.
ASK_S_MAX = 600.0


def here() -> int:
    """Ask this kernel, which must be in a guest."""
    require_guest()
    sysfs, clock = RealSysfs(), SystemClock()
    sys.stdout.write(json.dumps({area: ask(sysfs, clock, area) for area in AREAS}))
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim.answers.record", description=__doc__)
    parser.add_argument("series", nargs="*", default=SERIES)
    parser.add_argument("--here", action="store_true", help="ask this kernel")
    arguments = parser.parse_args()
    if arguments.here:
        return here()
    command = guest.Command(
        ("python3", "-B", "-m", "tests.sim.answers.record", "--here"), timeout_s=ASK_S_MAX
    )
    for series in arguments.series:
        result = guest.run(series, load("two-tier"), [command]).results[0]
        if result.status != 0:
            sys.stderr.write(result.stderr)
            return 1
        (HERE / f"answers-{series}.json").write_text(kept(json.loads(result.stdout)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
