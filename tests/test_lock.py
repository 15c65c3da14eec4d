"""Everything that development installs is pinned with hashes, to the last package."""

import re
import tomllib

from tests import lock
from tests.test_tidy import ROOT

WANTED = (ROOT / "requirements-dev.in").read_text()


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_every_package_has_a_version_and_a_hash() -> None:
    text = lock.FILE.read_text()
    found = lock.entries(text)
    lines = [line for line in text.splitlines() if line and line[0] not in " #"]
    assert [line.split("==")[0] for line in lines] == list(found)
    for name, entry in found.items():
        assert re.match(rf"{re.escape(name)}==\S+ ", entry)
        assert re.search(r"--hash=sha256:[0-9a-f]{64}\n", entry), name


def test_the_lock_has_what_development_asks_for() -> None:
    pins = [line for line in WANTED.splitlines() if line and not line.startswith("#")]
    found = {
        normal(name): entry.split()[0]
        for name, entry in lock.entries(lock.FILE.read_text()).items()
    }
    for pin in pins:
        name, version = pin.split("==")
        assert found[normal(name)].split("==")[1] == version


def test_the_lock_has_what_the_program_and_its_build_need() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    needs = [*project["build-system"]["requires"], *project["project"]["dependencies"]]
    names = {normal(re.split("[<>=]", need)[0]) for need in needs}
    assert names <= set(lock.entries(lock.FILE.read_text()))


def test_nothing_is_installed_from_the_index_without_a_hash() -> None:
    """Check what developers and CI run. Files that we build are installed with `--no-index`."""
    places = [ROOT / "Makefile", ROOT / ".ci/run", ROOT / "tools/setup-debian"]
    for path in places:
        for line in path.read_text().splitlines():
            if "pip install" in line and "$(LOCKER)" not in line:
                assert "--require-hashes" in line or "--no-deps" in line, line
