"""The description of the Debian package agrees with the project's."""

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.e2e import debian
from tests.needed import needed
from tests.vm import bare
from tests.vm.errors import VmError
from tests.vm.rootfs import NEWER_SUITE
from tierd import __version__

ROOT = Path(__file__).parents[3]


def test_the_version_is_the_same() -> None:
    first = (ROOT / "debian/changelog").read_text().splitlines()[0]
    assert first.startswith(f"tierd ({__version__})")


def test_it_depends_on_what_the_project_does() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    ours = {re.split("[<>=]", word)[0] for word in project["dependencies"]}
    control = (ROOT / "debian/control").read_text()
    theirs = set(re.findall(r"^ python3-([\w-]+)", control, re.MULTILINE))
    assert theirs == {name.removeprefix("py") if name == "pyyaml" else name for name in ours}


def test_it_packs_the_unit_that_ships() -> None:
    packed = ROOT / "debian/tierd.service"
    assert packed.resolve() == ROOT / "systemd/tierd.service"


def _root_is_a_mount() -> bool:
    """Return False in a chroot whose root is an ordinary directory."""
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    return any(line.split()[4] == "/" for line in mounts)


@pytest.fixture
def package(tmp_path: Path) -> Path:
    made = tmp_path / f"tierd_{__version__}_all.deb"
    made.write_bytes(debian.package())
    return made


@pytest.mark.thorough
@pytest.mark.timeout(600)
def test_debians_tools_build_it(package: Path) -> None:
    words = ["dpkg-deb", "--field", str(package), "Package"]
    assert subprocess.run(words, capture_output=True, text=True, check=True).stdout == "tierd\n"


@pytest.mark.thorough
@pytest.mark.timeout(600)
def test_lintian_finds_nothing(package: Path) -> None:
    needed(shutil.which("lintian") is not None or "lintian is not installed")
    fail = ("--fail-on", "error,warning,info,pedantic", "--display-info", "--pedantic")
    # Debian 12 asks for an override whose tag Debian 13 no longer knows.
    allowed = ("--suppress-tags", "alien-tag")
    done = subprocess.run(
        ["lintian", *fail, *allowed, str(package)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.thorough
@pytest.mark.rare
@pytest.mark.timeout(900)
def test_its_own_tests_pass_where_nothing_else_is_installed(package: Path, tmp_path: Path) -> None:
    """What Debian's machines do with debian/tests: the package is installed, and tested there."""
    needed(shutil.which("autopkgtest") is not None or "autopkgtest is not installed")
    needed(os.geteuid() == 0 or "only root can install a package in a root of its own")
    if not _root_is_a_mount():
        pytest.skip("in a chroot, the kernel refuses mounts that are private to a command")
    source = tmp_path / "source"
    shutil.copytree(ROOT, source, ignore=bare.LEFT_OUT, symlinks=True)
    argv = ["autopkgtest", "--test-name=simulated", str(package), str(source), "--", "chroot"]
    try:
        with bare.copy(NEWER_SUITE) as root:
            words = [*bare.mounted(root, 'exec "$@"'), *argv, str(root)]
            done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=800)
    except VmError as error:
        needed(f"no root: {error}")
        raise
    # 2: a test was left out. The other one needs a machine of its own, with two tiers.
    assert done.returncode in (0, 2), done.stdout[-3000:] + done.stderr[-3000:]
    assert re.search(r"^simulated +PASS$", done.stdout + done.stderr, re.MULTILINE)
