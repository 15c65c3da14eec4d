"""Chooses the run directory and the state directory of the daemon, in one way for every command.

Rules of this file:
1. --run-dir comes first, then TIERD_RUN_DIR, then RUNTIME_DIRECTORY, which systemd sets. The order
   for the state directory is the same.
2. If only the run directory is named, it is the state directory too: one option is enough.
3. The defaults for root are never in a directory in which other users can create files.
4. Commands in messages get the options that name the same directories.
"""

import argparse
import os
import re
from pathlib import Path

from tierd.record.rundir import RunDir

SYSTEM = RunDir(Path("/run/tierd"), Path("/var/lib/tierd"))

# Matches the commands in a message that need these options: in backquotes, or in the last line of
# `status`.
_COMMAND = re.compile(
    r"(?:(?<=`)|(?<=next: )|(?<= \| )|(?<= and ))(?:sudo )?tierd (?:doctor|events|history|observe"
    r"|pause|plan|reload|restore|resume|run|status|tiers|top|why)(?![\w-])"
)
# Matches the commands in a message that take --simulate.
_LOOKS = re.compile(r"(?<=`)tierd (?:doctor|plan|tiers)(?![\w-])")


def run_dir(arguments: argparse.Namespace, *, simulated: bool = False) -> RunDir:
    """Return the directories of the daemon that the command runs or talks to."""
    own = _simulated() if simulated else None
    run = arguments.run_dir or _path("TIERD_RUN_DIR")
    state = arguments.state_dir or _path("TIERD_STATE_DIR") or run
    return RunDir(
        (run or own or _path("RUNTIME_DIRECTORY") or SYSTEM.run).absolute(),
        (state or own or _path("STATE_DIRECTORY") or SYSTEM.state).absolute(),
    )


def _simulated() -> Path:
    """Return the default directory for a daemon on a simulated machine."""
    if os.geteuid() == 0:
        # Not in XDG_RUNTIME_DIR: under sudo that may belong to another user.
        return Path("/run/tierd-simulated")
    base = os.environ.get("XDG_RUNTIME_DIR") or "/tmp"
    return Path(base) / f"tierd-simulated-{os.geteuid()}"


def _path(variable: str) -> Path | None:
    """Return the path in a variable; the first one if it has several, with colons between them."""
    value = os.environ.get(variable, "")
    return Path(value.split(":")[0]) if value else None


def options(folder: RunDir) -> str:
    """Return the options that name these directories; empty if they are the defaults."""
    from shlex import quote

    named = folder.run != SYSTEM.run
    text = f" --run-dir {quote(str(folder.run))}" if named else ""
    if folder.state != (folder.run if named else SYSTEM.state):
        text += f" --state-dir {quote(str(folder.state))}"
    return text


def repeated(text: str, folder: RunDir) -> str:
    """Return the text with the options for these directories added to each command in it."""
    added = options(folder)
    return _COMMAND.sub(lambda found: found[0] + added, text) if added else text


def repeated_machine(text: str, simulated: str) -> str:
    """Return the text with --simulate and the machine's name added to each command in it."""
    from shlex import quote

    return _LOOKS.sub(lambda found: f"{found[0]} --simulate {quote(simulated)}", text)
