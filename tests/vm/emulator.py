"""QEMU 10 or newer: the machine's own, or one unpacked into the cache."""

import platform
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from tests.vm import apt, cache
from tests.vm.errors import Missing

# QEMU 7.2 corrupts guests under software emulation: double faults in about one boot of five.
MAJOR_MIN = 10

BINARY = "qemu-system-x86_64"
PACKAGE = "qemu-system-x86"
SUITE = "trixie"


@dataclass(frozen=True, slots=True)
class Emulator:
    """How to call it: the words before the options, and the environment it needs."""

    argv: tuple[str, ...]
    environment: tuple[tuple[str, str], ...] = ()


def get() -> Emulator:
    """The machine's QEMU where it is new enough, else our own."""
    own = shutil.which(BINARY)
    if own is not None and major(apt.run([own, "--version"])) >= MAJOR_MIN:
        return Emulator((own,))
    return unpacked(cache.made("qemu", _make))


def major(text: str) -> int:
    """The major version in what `--version` prints; 0 for text without one."""
    match = re.search(r"version (\d+)\.", text)
    return int(match[1]) if match else 0


def unpacked(tree: Path) -> Emulator:
    """QEMU out of unpacked packages, with their own loader and C library: any Linux runs it."""
    libraries = [tree / "usr/lib/x86_64-linux-gnu", tree / "lib/x86_64-linux-gnu"]
    # Some libraries live in directories of their own (pulseaudio), which packages add by rpath.
    folders = {path.parent for root in libraries for path in root.rglob("*.so*")}
    loader = next(tree.rglob("ld-linux-x86-64.so.2"))
    data = [tree / "usr/share" / name for name in ("qemu", "seabios")]
    return Emulator(
        (
            str(loader),
            "--library-path",
            ":".join(str(folder) for folder in sorted(folders)),
            str(tree / "usr/bin" / BINARY),
            *(word for folder in data for word in ("-L", str(folder))),
        ),
        (("QEMU_MODULE_DIR", str(tree / "usr/lib/x86_64-linux-gnu/qemu")),),
    )


def _make(into: Path) -> None:
    """Download QEMU with all that it depends on, as if nothing were installed, and unpack it."""
    source = apt.ready()
    if platform.machine() != "x86_64":
        raise Missing("no QEMU of 10 or later here, and Debian's is unpacked on x86-64 only")
    archives = into / "archives"
    (archives / "partial").mkdir(parents=True)
    options = ["-o", f"Dir::Cache::archives={archives}", "--target-release", SUITE]
    options += ["--no-install-recommends", "--download-only", "--yes"]
    apt.run(["apt-get", *source.options, *options, "install", PACKAGE])
    for deb in sorted(archives.glob("*.deb")):
        apt.run(["dpkg-deb", "-x", str(deb), str(into)])
    shutil.rmtree(archives)
