"""systemd-analyze of two releases: the machine's own, and Debian 13's, which is unpacked.

The unit must work with both. Each has its own settings and warnings.
"""

import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache as once

from tests.needed import needed
from tests.vm import cache, unpacked
from tests.vm.errors import VmError
from tests.vm.rootfs import NEWER_SUITE

# The version in NEWER_SUITE. Most guests have Debian 12, with version 252.
MAJOR = 257

PROGRAM = "usr/bin/systemd-analyze"


@dataclass(frozen=True, slots=True)
class Analyze:
    """A systemd-analyze, and its version."""

    argv: tuple[str, ...]
    major: int

    def run(self, *words: str) -> "subprocess.CompletedProcess[str]":
        argv = [*self.argv, *words]
        return subprocess.run(argv, capture_output=True, text=True, check=False)


@once
def find(which: str) -> Analyze | str:
    """Return the machine's `own`, or that of Debian 13, or why there is none."""
    if which == "own":
        own = shutil.which("systemd-analyze")
        return "systemd-analyze is not installed" if own is None else _known((own,))
    found = newer(PROGRAM)
    return found if isinstance(found, str) else _known(found)


def newer(program: str) -> tuple[str, ...] | str:
    """Return the words that run a program of Debian 13's systemd, or why there is none."""
    try:
        tree = cache.made(
            f"systemd-{MAJOR}", lambda into: unpacked.fetch("systemd", NEWER_SUITE, into)
        )
    except VmError as error:
        return f"no systemd {MAJOR}: {error}"
    return unpacked.argv(tree, program)


def _known(argv: tuple[str, ...]) -> Analyze:
    done = subprocess.run([*argv, "--version"], capture_output=True, text=True, check=True)
    found = re.match(r"systemd (\d+)", done.stdout)
    assert found, done.stdout
    return Analyze(argv, int(found[1]))


def analyze(which: str) -> Analyze:
    """Return a systemd-analyze. A test without it is skipped."""
    return needed(find(which))
