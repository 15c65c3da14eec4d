"""Builds the Debian package with Debian's tools from a copy of the checkout."""

import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import pytest

from tests.conftest import REQUIRE_VARIABLE

ROOT = Path(__file__).parent.parent.parent
TOOLS = ("dpkg-buildpackage", "dh", "dh_python3")
PACKAGES = "build-essential, debhelper, dh-python"

# These are large, and not part of the sources.
LEFT_OUT = shutil.ignore_patterns(".git", ".venv", "__pycache__", ".*_cache", ".hypothesis")


@cache
def package() -> bytes:
    """Return the package. Skip the test if a tool to build it is missing."""
    lacking = [tool for tool in TOOLS if shutil.which(tool) is None]
    if lacking:
        reason = f"no package: {', '.join(lacking)} not installed ({PACKAGES})"
        if os.environ.get(REQUIRE_VARIABLE) == "1":
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)
    with tempfile.TemporaryDirectory(prefix="tierd-deb.") as scratch:
        copy = Path(scratch) / "tierd"
        shutil.copytree(ROOT, copy, ignore=LEFT_OUT, symlinks=True)
        _run(["dpkg-buildpackage", "-us", "-uc", "-b"], copy)
        return next(Path(scratch).glob("tierd_*_all.deb")).read_bytes()


def newer(given: bytes) -> bytes:
    """Return the same package with a higher version, for an upgrade."""
    with tempfile.TemporaryDirectory(prefix="tierd-deb.") as scratch:
        old, tree, made = (Path(scratch) / name for name in ("old.deb", "tree", "new.deb"))
        old.write_bytes(given)
        _run(["dpkg-deb", "-R", str(old), str(tree)], Path(scratch))
        control = tree / "DEBIAN/control"
        lines = control.read_text().splitlines()
        control.write_text(
            "".join(f"{line}+1\n" if line.startswith("Version:") else f"{line}\n" for line in lines)
        )
        _run(["dpkg-deb", "--root-owner-group", "-b", str(tree), str(made)], Path(scratch))
        return made.read_bytes()


def _run(argv: list[str], cwd: Path) -> None:
    done = subprocess.run(argv, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{argv[0]} failed:\n{(done.stdout + done.stderr)[-2000:]}"
