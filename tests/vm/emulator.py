"""Finds QEMU 10 or newer: the machine's own, or one unpacked into the cache."""

import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from tests.vm import apt, cache
from tests.vm import unpacked as packages

# QEMU 7.2 corrupts guests under software emulation: double faults in about one boot of five.
MAJOR_MIN = 10

BINARY = "qemu-system-x86_64"
PACKAGE = "qemu-system-x86"
SUITE = "trixie"


@dataclass(frozen=True, slots=True)
class Emulator:
    """How to run QEMU: the words before the options, and the environment that it needs."""

    argv: tuple[str, ...]
    environment: tuple[tuple[str, str], ...] = ()


def get() -> Emulator:
    """Return the machine's QEMU if it is new enough, else our own."""
    own = shutil.which(BINARY)
    if own is not None and major(apt.run([own, "--version"])) >= MAJOR_MIN:
        return Emulator((own,))
    return unpacked(cache.made("qemu", _make))


def major(text: str) -> int:
    """Return the major version from the output of `--version`; 0 if there is none."""
    match = re.search(r"version (\d+)\.", text)
    return int(match[1]) if match else 0


def unpacked(tree: Path) -> Emulator:
    """Return the QEMU of unpacked packages, with the files that it reads at run time."""
    data = [tree / "usr/share" / name for name in ("qemu", "seabios")]
    return Emulator(
        (
            *packages.argv(tree, f"usr/bin/{BINARY}"),
            *(word for folder in data for word in ("-L", str(folder))),
        ),
        (("QEMU_MODULE_DIR", str(tree / "usr/lib/x86_64-linux-gnu/qemu")),),
    )


def _make(into: Path) -> None:
    packages.fetch(PACKAGE, SUITE, into)
