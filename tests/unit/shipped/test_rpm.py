"""The rpm package: built by rpmbuild, unpacked, and run from there.

There is no rpm distribution here, so its scripts are only checked for shell syntax.
"""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.needed import needed
from tierd import __version__
from tierd.console import shipped

ROOT = Path(__file__).parents[3]
SPEC = ROOT / "rpm/tierd.spec"

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(600)]

# Large folders that are not sources.
LEFT_OUT = shutil.ignore_patterns(".git", ".venv", "__pycache__", ".*_cache", ".hypothesis")


def run(*argv: str | Path) -> str:
    words = [str(word) for word in argv]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    needed(shutil.which("rpmbuild") is not None or "rpmbuild is not installed (package rpm)")
    top = tmp_path_factory.mktemp("rpm")
    tree = top / f"tierd-{__version__}"
    shutil.copytree(ROOT, tree, ignore=LEFT_OUT)
    (top / "SOURCES").mkdir()
    run("tar", "-C", top, "-czf", top / f"SOURCES/{tree.name}.tar.gz", tree.name)
    # Dependencies are not checked, because rpm does not know Debian's packages.
    run("rpmbuild", "-bb", "--nodeps", "--define", f"_topdir {top}", SPEC)
    (made,) = (top / "RPMS/noarch").iterdir()
    return made


@pytest.fixture(scope="module")
def unpacked(package: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("root")
    run("sh", "-c", f"cd {place} && rpm2archive - < {package} | tar -xz")
    return place


def test_it_has_this_version_and_these_dependencies(package: Path) -> None:
    assert run("rpm", "-qp", "--qf", "%{NAME} %{VERSION} %{ARCH}", package) == (
        f"tierd {__version__} noarch"
    )
    wanted = run("rpm", "-qp", "--requires", package)
    for one in ("prometheus-client", "pyyaml"):
        assert f"python3dist({one})" in wanted


def test_the_configuration_is_kept_and_nothing_else_is_one(package: Path) -> None:
    assert run("rpm", "-qpc", package).split() == ["/etc/tierd/tierd.yaml"]
    flags = run("rpm", "-qp", "--qf", "[%{FILENAMES} %{FILEFLAGS:fflags}\n]", package)
    assert "/etc/tierd/tierd.yaml cn\n" in flags


def test_it_starts_nothing(package: Path) -> None:
    scripts = run("rpm", "-qp", "--scripts", package)
    assert " enable" not in scripts
    assert " start " not in scripts
    for name in ("POSTIN", "PREUN", "POSTUN"):
        text = run("rpm", "-qp", "--qf", f"%{{{name}}}", package)
        subprocess.run(["sh", "-n"], input=text, text=True, check=True)


def test_what_ships_is_in_it_and_runs(unpacked: Path) -> None:
    library = unpacked / "usr/share/tierd"
    for place in shipped.FILES.values():
        packed = library / "tierd/files" / Path(place).name
        assert packed.read_text() == (ROOT / place).read_text()
    unit = unpacked / "usr/lib/systemd/system/tierd.service"
    assert unit.read_text() == (ROOT / "systemd/tierd.service").read_text()
    launcher = unpacked / "usr/bin/tierd"
    there = launcher.read_text().replace("/usr/share/tierd", str(library))
    launcher.write_text(there)
    assert run(sys.executable, "-B", launcher, "--version").strip() == f"tierd {__version__}"
    # The unit that `print` shows starts this program.
    printed = run(sys.executable, "-B", launcher, "print", "unit")
    assert printed == unit.read_text().replace("/usr/bin/tierd", str(launcher))
