"""Run one verb, print its output, and return its exit code. Only this module prints."""

import argparse
import os
import sys
from collections.abc import Callable, Sequence

from tierd.console.arguments import parse
from tierd.errors import ExitCode, TierdError
from tierd.views import terminal
from tierd.views.visible import Say, visible

Command = Callable[[argparse.Namespace, Say], ExitCode]

STDIN, STDOUT, STDERR = 0, 1, 2


class CannotPrint(TierdError):
    """Standard output cannot be written to."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command. A failure gives a sentence on stderr and an exit code."""
    _open_standard_descriptors()
    try:
        try:
            return int(_run(sys.argv[1:] if argv is None else argv))
        finally:
            # argparse prints by itself: its output may not be flushed yet.
            _put("")
    except BrokenPipeError:
        # The reader has closed the pipe, as `head` does.
        return int(ExitCode.ok)
    except CannotPrint as error:
        _complain(str(error))
        return int(error.exit_code)
    except KeyboardInterrupt:
        return 130
    finally:
        # Drop log lines that could not be written; else the interpreter exits with 120.
        _complain()


def _run(argv: Sequence[str]) -> ExitCode:
    arguments = parse(argv)
    # Imported here, as `tierd --help` should not take the time to load this.
    from tierd.console import commands, directories

    command: Command = commands.COMMANDS[arguments.verb]
    try:
        return command(arguments, _say)
    except TierdError as error:
        _complain(str(error))
        if error.hint:
            # The commands in the hint get the options for the same daemon.
            _complain(directories.repeated(error.hint, directories.run_dir(arguments)))
        return error.exit_code


def _open_standard_descriptors() -> None:
    """Open stdin, stdout and stderr if they are closed: else the next file would get their number.

    Printing to a stdout that was closed still fails.
    """
    for descriptor, flags in ((STDIN, os.O_RDONLY), (STDOUT, os.O_RDONLY), (STDERR, os.O_WRONLY)):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, flags)
    sys.stdin = sys.stdin or open(STDIN, closefd=False)  # noqa: SIM115 - for good
    sys.stdout = sys.stdout or open(STDOUT, "w", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(STDERR, "w", closefd=False)  # noqa: SIM115


def _say(text: str, *, painted: bool = False) -> None:
    shown = visible(text)
    if painted:
        shown = terminal.painted(shown)
    encoding = sys.stdout.encoding or "utf-8"
    _put(shown.encode(encoding, "backslashreplace").decode(encoding) + "\n")


def _put(text: str) -> None:
    """Write and flush; raise CannotPrint if that fails."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        _give_up(STDOUT)
        raise
    except OSError as error:
        _give_up(STDOUT)
        raise CannotPrint(f"cannot print to standard output: {error.strerror}") from error


def _complain(text: str | None = None) -> None:
    """Print an error to stderr; without a text, only flush. If that fails, stderr is given up."""
    try:
        if text is not None:
            sys.stderr.write(f"tierd: {visible(text)}\n")
        sys.stderr.flush()
    except OSError:
        # Nobody can read the message; the exit code still shows the failure.
        _give_up(STDERR)


def _give_up(descriptor: int) -> None:
    """Point the descriptor to /dev/null: else the interpreter fails to flush it at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)
