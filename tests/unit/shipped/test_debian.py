"""The description of the Debian package agrees with the project's."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.e2e import debian
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


@pytest.mark.thorough
@pytest.mark.timeout(600)
def test_debians_tools_build_it(tmp_path: Path) -> None:
    package = tmp_path / "tierd.deb"
    package.write_bytes(debian.package())
    words = ["dpkg-deb", "--field", str(package), "Package"]
    assert subprocess.run(words, capture_output=True, text=True, check=True).stdout == "tierd\n"
