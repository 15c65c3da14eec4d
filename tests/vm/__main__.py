"""A command, or a root shell, in a virtual machine: `python -m tests.vm KERNEL MACHINE [-- …]`."""

import argparse
import sys
from collections.abc import Sequence

from tests.vm import guest, kernels
from tests.vm.errors import VmError
from tests.vm.slow import Slowness
from tierd.errors import TierdError
from tierd.sim import machine_model


def parsed(argv: Sequence[str]) -> argparse.Namespace:
    """Return the options, and as the command everything after the first `--`.

    argparse alone would return an empty command if an option follows the machine.
    """
    parser = argparse.ArgumentParser(
        prog="python -m tests.vm",
        description=__doc__,
        usage="%(prog)s [-h] [--timeout SECONDS] [--slow] KERNEL MACHINE [-- COMMAND ...]",
        epilog="Without a command it is a root shell.",
    )
    parser.add_argument("kernel", choices=kernels.SERIES)
    parser.add_argument("machine", choices=machine_model.names())
    parser.add_argument(
        "--timeout", type=float, default=300.0, metavar="SECONDS", help="of the command"
    )
    parser.add_argument(
        "--slow", action="store_true", help="make memory as slow as its figures say"
    )
    end = argv.index("--") if "--" in argv else len(argv)
    arguments = parser.parse_args(argv[:end])
    arguments.command = tuple(argv[end + 1 :])
    return arguments


def main() -> int:
    arguments = parsed(sys.argv[1:])
    slow = Slowness() if arguments.slow else None
    try:
        chosen = machine_model.load(arguments.machine)
        if not arguments.command:
            return guest.shell(arguments.kernel, chosen, slow)
        command = guest.Command(arguments.command, arguments.timeout)
        result = guest.run(arguments.kernel, chosen, [command], slow=slow).results[0]
    except (VmError, TierdError) as error:
        print(f"no virtual machine: {error}", file=sys.stderr)
        return 1
    sys.stdout.write(result.stdout)
    sys.stderr.write(result.stderr)
    return 124 if result.status is None else result.status


if __name__ == "__main__":
    sys.exit(main())
