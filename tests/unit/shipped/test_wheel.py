"""The wheel and the source archive, built by pip and installed where nothing else is."""

import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

from tierd import __version__
from tierd.console import shipped

ROOT = Path(__file__).parents[3]

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(600)]


def run(*argv: str | Path) -> str:
    done = subprocess.run(
        [str(word) for word in argv], capture_output=True, text=True, check=False, cwd="/"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel."""
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder, ROOT)
    return folder / f"tierd-{__version__}-py3-none-any.whl"


def test_what_ships_is_in_the_wheel_and_nothing_that_does_not(built: Path) -> None:
    with zipfile.ZipFile(built) as wheel:
        names = set(wheel.namelist())
        for place in shipped.FILES.values():
            packed = wheel.read(f"tierd/files/{Path(place).name}").decode()
            assert packed == (ROOT / place).read_text()
    tops = {name.split("/")[0] for name in names}
    assert tops == {"tierd", f"tierd-{__version__}.dist-info", f"tierd-{__version__}.data"}


def test_it_runs_where_nothing_else_is_installed(built: Path, tmp_path: Path) -> None:
    place = tmp_path / "venv"
    venv.create(place, with_pip=True)
    run(place / "bin/pip", "install", "-q", built)
    tierd = place / "bin/tierd"
    assert run(tierd, "--version").strip() == f"tierd {__version__}"
    assert run(tierd, "print", "unit") == (ROOT / "systemd/tierd.service").read_text()
    said = run(
        tierd, "run", "--simulate", "--for", "3s", "--run-dir", tmp_path / "run",
        "--state-dir", tmp_path / "lib",
    )  # fmt: skip
    assert "nothing real is touched" in said


def test_the_source_archive_builds_the_same_wheel(tmp_path: Path) -> None:
    hatch = tmp_path / "hatch"
    venv.create(hatch, with_pip=True)
    run(hatch / "bin/pip", "install", "-q", "hatchling>=1.27")
    done = subprocess.run(
        [str(hatch / "bin/hatchling"), "build", "-t", "sdist", "-d", str(tmp_path)],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    archive = tmp_path / f"tierd-{__version__}.tar.gz"
    with tarfile.open(archive) as sources:
        sources.extractall(tmp_path, filter="data")
    again = tmp_path / "again"
    tree = tmp_path / f"tierd-{__version__}"
    run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", again, tree)
    with zipfile.ZipFile(next(again.glob("*.whl"))) as wheel:
        names = set(wheel.namelist())
    assert {f"tierd/files/{Path(place).name}" for place in shipped.FILES.values()} <= names
