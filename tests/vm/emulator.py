"""Finds QEMU 10 or newer: the machine's own, or one unpacked into the cache."""

import re
import shutil
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.vm import apt, cache
from tests.vm import unpacked as packages

# QEMU 7.2 corrupts guests under software emulation: double faults in about one boot of five.
MAJOR_MIN = 10

BINARY = "qemu-system-x86_64"
PACKAGE = "qemu-system-x86"
BINARY_ARM64 = "qemu-system-aarch64"
PACKAGE_ARM64 = "qemu-system-arm"
SUITE = "trixie"


@dataclass(frozen=True, slots=True)
class Emulator:
    """How to run QEMU: the words before the options, and the environment that it needs."""

    argv: tuple[str, ...]
    environment: tuple[tuple[str, str], ...] = ()


def get() -> Emulator:
    """Return the machine's QEMU if it is new enough, else our own."""
    return _found(BINARY, PACKAGE, "qemu")


def get_arm64() -> Emulator:
    """Return a QEMU that emulates arm64 processors on this x86-64 machine."""
    return _found(BINARY_ARM64, PACKAGE_ARM64, "qemu-arm64")


def _found(binary: str, package: str, name: str) -> Emulator:
    own = shutil.which(binary)
    if own is not None and major(apt.run([own, "--version"])) >= MAJOR_MIN:
        return Emulator((own,))
    make = partial(packages.fetch, package, SUITE)
    return unpacked(cache.made(name, make), binary)


def major(text: str) -> int:
    """Return the major version from the output of `--version`; 0 if there is none."""
    match = re.search(r"version (\d+)\.", text)
    return int(match[1]) if match else 0


def unpacked(tree: Path, binary: str = BINARY) -> Emulator:
    """Return the QEMU of unpacked packages, with the files that it reads at run time."""
    data = [tree / "usr/share" / name for name in ("qemu", "seabios")]
    return Emulator(
        (
            *packages.argv(tree, f"usr/bin/{binary}"),
            *(word for folder in data for word in ("-L", str(folder))),
        ),
        (("QEMU_MODULE_DIR", str(tree / "usr/lib/x86_64-linux-gnu/qemu")),),
    )
