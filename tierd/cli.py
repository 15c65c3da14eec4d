"""The verbs and their exit codes; the only place that prints."""

import argparse
import os
import sys
from collections.abc import Callable, Sequence

from tierd.console.arguments import parse
from tierd.errors import ExitCode, TierdError

Command = Callable[[argparse.Namespace, Callable[[str], None]], ExitCode]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; every failure is a sentence on stderr and an exit code by its kind."""
    arguments = parse(sys.argv[1:] if argv is None else argv)
    # Imported after the arguments are known good: `tierd --help` should not load a daemon.
    from tierd.console import commands

    command: Command = commands.COMMANDS[arguments.verb]
    try:
        code = command(arguments, _say)
        sys.stdout.flush()
        return int(code)
    except TierdError as error:
        _complain(str(error))
        if error.hint:
            _complain(error.hint)
        return int(error.exit_code)
    except BrokenPipeError:
        # The reader has seen enough. Point stdout at nothing, or the interpreter complains at
        # exit when it flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return int(ExitCode.ok)
    except KeyboardInterrupt:
        return 130


def _say(text: str) -> None:
    print(text, flush=True)


def _complain(text: str) -> None:
    print(f"tierd: {text}", file=sys.stderr)
