"""Builds our C programs with the machine's gcc, once per source."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

from tests.vm import apt, cache

FOLDER = Path(__file__).parent


def program(name: str, libraries: Sequence[str] = ()) -> Path:
    """Return a static program for guests, built from `name`.c beside this file."""
    return _built(name, ("-static",), libraries)


def plugin(name: str) -> Path:
    """Return a shared object for the emulator, built from `name`.c beside this file."""
    return _built(name, ("-shared", "-fPIC"), ())


def _built(name: str, options: Sequence[str], libraries: Sequence[str]) -> Path:
    source = FOLDER / f"{name}.c"
    words = ["gcc", "-O2", *options, str(source), *libraries, "-o"]
    read = b"".join(path.read_bytes() for path in (source, *sorted(FOLDER.glob("*.h"))))
    digest = hashlib.sha256(read).hexdigest()[:16]
    return cache.made(f"{name}-{digest}", lambda into: _build(words, into / name)) / name


def _build(words: Sequence[str], to: Path) -> None:
    apt.run([*words, str(to)])
