"""The wheel and the source archive: built by pip, and installed in an empty environment."""

import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from tests import lock
from tierd import __version__
from tierd.console import shipped

ROOT = Path(__file__).parents[3]

# pip uses the installed hatchling. It would download another one without a hash.
WHEEL = (sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation")

NEEDS = ("prometheus-client", "pyyaml")

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(600)]


def run(*argv: str | Path, cwd: Path = Path("/")) -> str:
    done = subprocess.run(
        [str(word) for word in argv], capture_output=True, text=True, check=False, cwd=cwd
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the path of the wheel."""
    folder = tmp_path_factory.mktemp("wheel")
    run(*WHEEL, "-w", folder, ROOT)
    return folder / f"tierd-{__version__}-py3-none-any.whl"


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the unpacked source archive."""
    folder = tmp_path_factory.mktemp("sdist")
    run(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", folder, cwd=ROOT)
    run("tar", "-xzf", folder / f"tierd-{__version__}.tar.gz", "-C", folder)
    return folder / f"tierd-{__version__}"


def test_what_ships_is_in_the_wheel_and_nothing_that_does_not(built: Path) -> None:
    with zipfile.ZipFile(built) as wheel:
        names = set(wheel.namelist())
        for place in shipped.FILES.values():
            packed = wheel.read(f"tierd/files/{Path(place).name}").decode()
            assert packed == (ROOT / place).read_text()
    assert "tierd/py.typed" in names
    tops = {name.split("/")[0] for name in names}
    assert tops == {"tierd", f"tierd-{__version__}.dist-info", f"tierd-{__version__}.data"}


def test_it_runs_where_nothing_else_is_installed(built: Path, tmp_path: Path) -> None:
    place = tmp_path / "venv"
    venv.create(place, with_pip=True)
    # The packages with the lock's hashes are enough. Nothing else may be downloaded.
    needs = tmp_path / "needs.txt"
    needs.write_text("".join(map(lock.requirement, NEEDS)))
    run(place / "bin/pip", "install", "-q", "--require-hashes", "-r", needs)
    run(place / "bin/pip", "install", "-q", "--no-index", built)
    tierd = place / "bin/tierd"
    assert run(tierd, "--version").strip() == f"tierd {__version__}"
    unit = run(tierd, "print", "unit")
    assert unit == (ROOT / "systemd/tierd.service").read_text().replace(
        "/usr/bin/tierd", str(tierd)
    )
    assert f"ExecStart={tierd} run\n" in unit
    assert run(tierd, "print", "preset", "gentle") == (ROOT / "configs/gentle.yaml").read_text()
    said = run(
        tierd, "run", "--simulate", "--for", "3s", "--run-dir", tmp_path / "run",
        "--state-dir", tmp_path / "lib",
    )  # fmt: skip
    assert "this machine is not touched" in said


def test_the_source_archive_has_all_that_its_tests_import(sources: Path) -> None:
    words = ("--collect-only", "-q", "-q", "-p", "no:cacheprovider")
    said = run(sys.executable, "-B", "-m", "pytest", *words, cwd=sources)
    assert "tests/e2e/test_bench.py: " in said


def test_the_source_archive_builds_the_same_wheel(sources: Path, tmp_path: Path) -> None:
    again = tmp_path / "again"
    run(*WHEEL, "-w", again, sources)
    with zipfile.ZipFile(next(again.glob("*.whl"))) as wheel:
        names = set(wheel.namelist())
    assert {f"tierd/files/{Path(place).name}" for place in shipped.FILES.values()} <= names
