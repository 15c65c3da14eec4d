"""A command, or a root shell, in a virtual machine: `python -m tests.vm KERNEL MACHINE [-- …]`."""

import argparse
import sys

from tests.vm import guest, kernels
from tests.vm.errors import VmError
from tierd.errors import TierdError
from tierd.sim import machine


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.vm", description=__doc__)
    parser.add_argument("kernel", choices=kernels.SERIES)
    parser.add_argument("machine", choices=machine.names())
    parser.add_argument("--timeout", type=float, default=300.0, help="of the command, in seconds")
    parser.add_argument("command", nargs="*", help="none: a root shell")
    arguments = parser.parse_args()
    try:
        chosen = machine.load(arguments.machine)
        if not arguments.command:
            return guest.shell(arguments.kernel, chosen)
        command = guest.Command(tuple(arguments.command), arguments.timeout)
        result = guest.run(arguments.kernel, chosen, [command]).results[0]
    except (VmError, TierdError) as error:
        print(f"no virtual machine: {error}", file=sys.stderr)
        return 1
    sys.stdout.write(result.stdout)
    sys.stderr.write(result.stderr)
    return 124 if result.status is None else result.status


if __name__ == "__main__":
    sys.exit(main())
