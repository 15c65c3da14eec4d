"""Boots a real arm64 kernel, with pages of 4 or 16 KiB, and runs commands in it.

The emulated board is QEMU's `virt` with UEFI firmware, so that the kernel gets ACPI's tables, HMAT
among them. The root file system is an initramfs, because these kernels have the drivers of disks as
modules. The job comes in the same file. The answer is that of every other guest (`guest.py`).
"""

import gzip
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from tests.vm import apt, cache, emulator, guest, kernels, unpacked
from tests.vm.errors import VmError
from tests.vm.guard import MARK
from tests.vm.guest import Command, Verdict
from tierd.sim.machine_model import MachineModel

ARCHITECTURE = "arm64"

# The flavours of Debian's kernels, with the size of their pages.
PAGE_BYTES = {"arm64": 4096, "arm64-16k": 16384}
SERIES = "7.2"

# What tierd imports, what the agent needs, and a shell. busybox-static is the shell and `mount`.
SUITE = "trixie"
PACKAGES = (
    "python3",
    "python3-yaml",
    "python3-psutil",
    "python3-prometheus-client",
    "busybox-static",
)
FIRMWARE_PACKAGE = "qemu-efi-aarch64"
FIRMWARE = "usr/share/qemu-efi-aarch64/QEMU_EFI.fd"

# Folders that no program of a guest reads.
LEFT_OUT = (
    "usr/share/doc",
    "usr/share/man",
    "usr/share/locale",
    "usr/share/zoneinfo",
)

# Interrupts of version 3 and no emulation of pointer authentication, which would take longer than
# the code that it protects.
BOARD = "virt,gic-version=3"
CPU = "max,pauth-impdef=on"

INIT = """#!/bin/busybox sh
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t cgroup2 cgroup /sys/fs/cgroup
mount -t tmpfs run /run
tar -x -C /job -f /job.tar
hostname tierd-guest
cd /job/project
python3 /job/project/tests/vm/agent.py
echo b > /proc/sysrq-trigger
"""


def run(
    flavour: str,
    machine: MachineModel,
    commands: Sequence[Command],
    files: Mapping[str, bytes] | None = None,
) -> Verdict:
    """Boot a kernel of this flavour, run the commands in turn, and return what they said."""
    image, root, firmware = kernel(flavour), root_file_system(), boot_firmware()
    qemu = emulator.get_arm64()
    environment = {**os.environ, **dict(qemu.environment)}
    name = f"{SERIES} {flavour} on {machine.name}"

    def argv(job: Path, port: Path, _counts: Path) -> list[str]:
        packed = job.parent / "initramfs"
        packed.write_bytes(joined(root.read_bytes(), "job.tar", job.read_bytes()))
        return [
            *guest.ENDING_TOGETHER,
            *qemu.argv,
            *("-accel", "tcg,thread=multi", "-cpu", CPU),
            *("-nodefaults", "-display", "none", "-no-reboot", "-bios", str(firmware)),
            *("-kernel", str(image), "-initrd", str(packed)),
            *("-append", f"console=ttyAMA0 panic=-1 oops=panic quiet {MARK}"),
            *guest.hardware(machine, BOARD),
            *guest.answer_port(port),
        ]

    attempt = partial(guest.once, name, machine, commands, files or {}, argv, environment)
    return guest.tried(name, attempt)


def kernel(flavour: str) -> Path:
    """Return the newest kernel of a flavour, from the cache or by apt."""
    kept = kernels.kept(SERIES, flavour)
    if kept is not None:
        return kept / "vmlinuz"
    return apt.tried(partial(_made, flavour), ARCHITECTURE) / "vmlinuz"


def _made(flavour: str, source: apt.Apt) -> Path:
    release, packages = kernels.offered(source, SERIES, flavour)
    # The kernel is in the first package. Its modules are not needed.
    make = partial(_take_kernel, source, packages[0], release)
    return cache.made(f"kernel-{release}", make)


def _take_kernel(source: apt.Apt, package: tuple[str, str], release: str, into: Path) -> None:
    with tempfile.TemporaryDirectory(dir=into) as scratch:
        deb = source.download(*package, Path(scratch))
        apt.run(["dpkg-deb", "-x", str(deb), scratch])
        image = next(Path(scratch).rglob("vmlinuz*"), None)
        if image is None:
            raise VmError(f"the package {package[0]} of {release} holds no kernel image")
        shutil.copyfile(image, into / "vmlinuz")


def boot_firmware() -> Path:
    """Return the UEFI firmware of the board."""
    # The package is for all architectures.
    return cache.made("firmware-arm64", _take_firmware) / "QEMU_EFI.fd"


def _take_firmware(into: Path) -> None:
    with tempfile.TemporaryDirectory(dir=into) as scratch:
        unpack = partial(unpacked.unpack, packages=(FIRMWARE_PACKAGE,), suite=SUITE)
        apt.tried(lambda source: unpack(source, into=Path(scratch)))
        shutil.copyfile(Path(scratch) / FIRMWARE, into / "QEMU_EFI.fd")


def root_file_system() -> Path:
    """Return the root file system, as a compressed archive in cpio's "newc" format."""
    recipe = hashlib.sha256(repr((SUITE, PACKAGES, LEFT_OUT, INIT)).encode()).hexdigest()[:12]
    return cache.made(f"rootfs-arm64-{recipe}", _make_root) / "root.cpio.gz"


def _make_root(into: Path) -> None:
    with tempfile.TemporaryDirectory(dir=into) as scratch:
        tree = Path(scratch) / "tree"
        tree.mkdir()
        # Nothing is configured: no package here needs its script to have run.
        unpack = partial(unpacked.unpack, packages=PACKAGES, suite=SUITE, into=tree)
        apt.tried(unpack, ARCHITECTURE)
        for part in LEFT_OUT:
            shutil.rmtree(tree / part, ignore_errors=True)
        for name in ("bin", "sbin", "lib"):
            if not (tree / name).exists():
                (tree / name).symlink_to(f"usr/{name}")
        for name in ("proc", "sys", "dev", "run", "tmp", "root", "job", "etc", "var/tmp"):
            (tree / name).mkdir(parents=True, exist_ok=True)
        (tree / "init").write_text(INIT)
        (tree / "init").chmod(0o755)
        names = "\n".join(str(path.relative_to(tree)) for path in sorted(tree.rglob("*")))
        packed = subprocess.run(
            [kernels.static_busybox(), "cpio", "-o", "-H", "newc"],
            input=names.encode(),
            cwd=tree,
            capture_output=True,
            check=True,
        )
        (into / "root.cpio.gz").write_bytes(gzip.compress(packed.stdout, 6))


def joined(archive: bytes, name: str, content: bytes) -> bytes:
    """Return an initramfs with one more file in its root. The kernel unpacks one after the other.

    Each archive begins at a multiple of four bytes.
    """
    return b"".join((_padded(archive), _member(name, content), _member("TRAILER!!!", b"")))


def _member(name: str, content: bytes) -> bytes:
    """Return a regular file as cpio's "newc" format has it: numbers as eight hexadecimal digits."""
    path = name.encode() + b"\0"
    mode, links = 0o100644, 1
    numbers = (1, mode, 0, 0, links, 0, len(content), 0, 0, 0, 0, len(path), 0)
    head = b"070701" + b"".join(b"%08x" % number for number in numbers)
    return _padded(head + path) + _padded(content)


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)
