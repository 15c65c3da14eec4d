"""Prometheus and promtool: from the machine, or Debian's, unpacked into the cache.

They are Go programs that need only a C library, so an unpacked package works.
"""

import shutil
from dataclasses import dataclass
from functools import cache as once
from pathlib import Path

from tests.needed import needed
from tests.vm import apt, cache
from tests.vm.errors import Missing, VmError

PACKAGES = ("prometheus", "promtool")


@dataclass(frozen=True, slots=True)
class Programs:
    """The paths of the programs."""

    promtool: Path
    prometheus: Path


@once
def find() -> Programs | str:
    """Return the programs, or why there are none."""
    own = [shutil.which(name) for name in ("promtool", "prometheus")]
    if own[0] is not None and own[1] is not None:
        return Programs(Path(own[0]), Path(own[1]))
    try:
        folder = cache.made("prometheus", _make) / "usr/bin"
    except VmError as error:
        return f"no promtool: it is not installed, and Debian's cannot be had: {error}"
    return Programs(folder / "promtool", folder / "prometheus")


def programs() -> Programs:
    """Return the programs. A test without them is skipped."""
    return needed(find())


def _make(into: Path) -> None:
    source = apt.ready()
    for package in PACKAGES:
        have = [version for _, version in source.versions(f"^{package}$")]
        if not have:
            raise Missing(f"no package {package} in the suites {', '.join(apt.SUITES)}")
        # The oldest version, because it needs the oldest C library.
        deb = source.download(package, have[-1], into)
        apt.run(["dpkg-deb", "-x", str(deb), str(into)])
        deb.unlink()
    apt.run([str(into / "usr/bin/promtool"), "--version"])
