"""Stock Debian kernels by series, with the initramfs that mounts our root file system."""

import gzip
import lzma
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.vm import apt, cache
from tests.vm.errors import Missing, VmError

SERIES = ("6.12", "6.16", "6.18", "7.2", "7.3")

# The packages of a series. Up to 6.19 one signed package has the kernel and its modules. Later they
# are in two packages, and the kernel may be signed or not yet signed.
IMAGES = ("linux-image-{release}", "linux-binary-{release}", "linux-binary-unsigned-{release}")
MODULES = "linux-modules-{release}"

# Debian's small kernels for virtual machines.
FLAVOUR = "cloud-amd64"

# The only module that these kernels need to read a disk.
BLOCK_MODULE = "virtio_blk.ko"


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel that can be booted. The release is that of `uname -r`."""

    series: str
    release: str
    image: Path
    initramfs: Path


def get(series: str) -> Kernel:
    """Return the newest cloud kernel of a series, from the cache or by apt."""
    if series not in SERIES:
        raise VmError(f"no series {series!r}; there are {', '.join(SERIES)}")
    folder = kept(series, FLAVOUR) or apt.tried(partial(_made, series))
    return _kernel(series, folder)


def kept(series: str, flavour: str) -> Path | None:
    """Return the folder of the newest kernel in the cache; None if there is none."""
    name = re.compile(rf"kernel-{re.escape(series)}[.][^-]+-{flavour}")
    found = [path for path in cache.folder().iterdir() if name.fullmatch(path.name)]
    return max(found, key=lambda path: _release_key(path.name), default=None)


def offered(source: apt.Apt, series: str, flavour: str) -> tuple[str, list[tuple[str, str]]]:
    """Return the newest release that the mirror has, and its packages with their versions."""
    pattern = rf"^linux-(image|binary|binary-unsigned|modules)-{series.replace('.', '[.]')}[.]"
    return newest(dict(source.versions(rf"{pattern}[^-]*-{flavour}$")), series)


def _made(series: str, source: apt.Apt) -> Path:
    release, packages = offered(source, series, FLAVOUR)
    return cache.made(f"kernel-{release}", lambda into: _unpack(source, packages, release, into))


def _kernel(series: str, folder: Path) -> Kernel:
    release = folder.name.removeprefix("kernel-")
    return Kernel(series, release, folder / "vmlinuz", folder / "initramfs")


def newest(have: Mapping[str, str], series: str) -> tuple[str, list[tuple[str, str]]]:
    """Return the newest release of a series with all its packages, and their versions."""
    releases = {name.split("-", 2)[2].removeprefix("unsigned-") for name in have}
    for release in sorted(releases, key=_release_key, reverse=True):
        modules = MODULES.format(release=release)
        for image in (template.format(release=release) for template in IMAGES):
            # From 7.0 on the image package is empty, and depends on the two others.
            whole = [image] if image.startswith("linux-image") else [image, modules]
            if image.startswith("linux-image") and f"linux-binary-{release}" in have:
                continue
            if all(package in have for package in whole):
                return release, [(package, have[package]) for package in whole]
    raise Missing(f"no kernel of series {series} in the suites {', '.join(apt.SUITES)}")


def _release_key(release: str) -> list[int]:
    """Return a key to sort by, so that 7.2.13+deb14 is newer than 7.2.9+deb13."""
    version = release.removeprefix("kernel-").partition("-")[0]
    return [int(part) for part in version.replace("+deb", ".").split(".") if part.isdigit()]


def _unpack(source: apt.Apt, packages: list[tuple[str, str]], release: str, into: Path) -> None:
    with tempfile.TemporaryDirectory(dir=into) as scratch:
        tree = Path(scratch) / "tree"
        for package, version in packages:
            deb = source.download(package, version, Path(scratch))
            apt.run(["dpkg-deb", "-x", str(deb), str(tree)])
            deb.unlink()
        images = [*tree.glob(f"boot/vmlinuz-{release}"), *tree.rglob(f"modules/{release}/vmlinuz")]
        block = next(tree.rglob(f"{BLOCK_MODULE}.xz"), None)
        if not images or block is None:
            raise VmError(f"the packages of {release} hold no kernel image, or no {BLOCK_MODULE}")
        shutil.copyfile(images[0], into / "vmlinuz")
        _pack_initramfs(lzma.decompress(block.read_bytes()), Path(scratch), into / "initramfs")


def static_busybox() -> str:
    """Return the path of the machine's busybox, which must need no C library."""
    path = shutil.which("busybox")
    if path is None:
        raise Missing("busybox is not installed (package busybox-static)")
    if b"/ld-linux" in Path(path).read_bytes():
        raise Missing(f"{path} needs a C library; the package busybox-static has one that does not")
    return path


INIT = """#!/bin/busybox sh
/bin/busybox mount -t devtmpfs dev /dev
/bin/busybox insmod /virtio_blk.ko
/bin/busybox mount -t ext4 /dev/vda /root
/bin/busybox mount --move /dev /root/dev
exec /bin/busybox switch_root /root /sbin/tierd-guest
"""


def _pack_initramfs(module: bytes, scratch: Path, to: Path) -> None:
    """Write an initramfs of busybox, one module and six lines, in cpio's "newc" format."""
    busybox = static_busybox()
    root = scratch / "initramfs"
    for name in ("bin", "dev", "root"):
        (root / name).mkdir(parents=True)
    shutil.copy2(busybox, root / "bin/busybox")
    (root / "virtio_blk.ko").write_bytes(module)
    (root / "init").write_text(INIT)
    (root / "init").chmod(0o755)
    names = "\n".join(str(path.relative_to(root)) for path in sorted(root.rglob("*")))
    packed = subprocess.run(
        [busybox, "cpio", "-o", "-H", "newc"],
        input=names.encode(),
        cwd=root,
        capture_output=True,
        check=True,
    )
    to.write_bytes(gzip.compress(packed.stdout, 6))


def modules(kernel: Kernel, names: Sequence[str]) -> list[tuple[str, bytes]]:
    """Return modules of a kernel, each after those that it depends on, as they can be loaded."""
    make = partial(_unpack_modules, kernel)
    folder = cache.made(f"modules-{kernel.release}", lambda into: apt.tried(partial(make, into)))
    found: dict[str, bytes] = {}
    for name in names:
        _with_needed(folder, name, found)
    return list(found.items())


def _with_needed(folder: Path, name: str, found: dict[str, bytes]) -> None:
    """Add a module after those that it depends on. The kernel's modules have no circles."""
    path = folder / f"{name}.ko.xz"
    if name in found:
        return
    if not path.exists():
        raise VmError(f"{folder.name} has no module {name}")
    module = lzma.decompress(path.read_bytes())
    for needed in needed_by(module):
        _with_needed(folder, needed, found)
    found[name] = module


def needed_by(module: bytes) -> list[str]:
    """Return what a module depends on, by its section .modinfo: texts that end with a zero byte."""
    listed = re.search(rb"\0depends=([^\0]*)\0", module)
    return [] if listed is None else [word for word in listed[1].decode().split(",") if word]


def _unpack_modules(kernel: Kernel, into: Path, source: apt.Apt) -> None:
    names = [MODULES.format(release=kernel.release), IMAGES[0].format(release=kernel.release)]
    have = dict(source.versions(f"^({'|'.join(map(re.escape, names))})$"))
    package = next((name for name in names if name in have), None)
    if package is None:
        kept = cache.folder() / f"kernel-{kernel.release}"
        raise Missing(
            f"the mirror no longer has the modules of {kernel.release}; delete {kept} to get a "
            "newer kernel"
        )
    with tempfile.TemporaryDirectory(dir=into) as scratch:
        deb = source.download(package, have[package], Path(scratch))
        tree = Path(scratch) / "tree"
        apt.run(["dpkg-deb", "-x", str(deb), str(tree)])
        for module in tree.rglob("*.ko.xz"):
            shutil.copyfile(module, into / module.name)
