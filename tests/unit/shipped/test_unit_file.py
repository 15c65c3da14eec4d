"""The unit and its examples, as systemd's own tools judge them."""

import re
import shutil
from pathlib import Path

import pytest

from tests import systemd
from tierd.console import shipped
from tierd.errors import ExitCode

ROOT = Path(__file__).parents[3]
UNIT = ROOT / "systemd/tierd.service"
EXAMPLES = sorted((ROOT / "systemd/examples").glob("*.conf"))

EXPOSURE_MAX = 2.0

# Settings come and go with its releases, and so do warnings. The unpacked one is fetched first.
of_each_systemd = pytest.mark.parametrize(
    "which", ["own", pytest.param(str(systemd.MAJOR), marks=pytest.mark.thorough)]
)


def settings(path: Path) -> dict[str, str]:
    pairs = (line.partition("=") for line in path.read_text().splitlines())
    return {name: value for name, sign, value in pairs if sign and not name.startswith("#")}


@of_each_systemd
def test_its_exposure_is_small(which: str) -> None:
    said = systemd.analyze(which).run("security", "--offline=yes", "--no-pager", str(UNIT)).stdout
    found = re.search(r"Overall exposure level for \S+: ([0-9.]+)", said)
    assert found, said
    assert float(found[1]) <= EXPOSURE_MAX


@of_each_systemd
@pytest.mark.parametrize("example", [None, *EXAMPLES], ids=lambda e: e.stem if e else "alone")
def test_systemd_finds_nothing_to_complain_of(
    tmp_path: Path, example: Path | None, which: str
) -> None:
    unit = tmp_path / "tierd.service"
    unit.write_text(UNIT.read_text().replace("/usr/bin/tierd", "/bin/true"))
    if example is not None:
        drop_ins = tmp_path / "tierd.service.d"
        drop_ins.mkdir()
        shutil.copy(example, drop_ins)
    words = ("verify", "--man=no", "--recursive-errors=no", str(unit))
    done = systemd.analyze(which).run(*words)
    ours = [line for line in done.stderr.splitlines() if "tierd" in line]
    assert (done.returncode, ours) == (0, [])


@pytest.mark.thorough
def test_the_unpacked_systemd_is_the_one_that_is_meant() -> None:
    assert systemd.analyze(str(systemd.MAJOR)).major == systemd.MAJOR


@of_each_systemd
def test_what_systemd_does_not_know_is_noticed(tmp_path: Path, which: str) -> None:
    """Else the tests above would pass with a systemd that looks at nothing."""
    unit = tmp_path / "tierd.service"
    unit.write_text("[Service]\nExecStart=/bin/true\nProtectEverything=yes\n")
    words = ("verify", "--man=no", "--recursive-errors=no", str(unit))
    assert "ProtectEverything" in systemd.analyze(which).run(*words).stderr


def test_what_does_not_mend_itself_is_not_tried_again() -> None:
    codes = {ExitCode.unsupported, ExitCode.config}
    told = settings(UNIT)["RestartPreventExitStatus"].split()
    assert {ExitCode(int(code)) for code in told} == codes


@pytest.mark.parametrize("what", sorted(shipped.FILES))
def test_what_ships_can_be_printed(what: str) -> None:
    assert shipped.text(what) == (ROOT / shipped.FILES[what]).read_text()


def test_what_ships_is_packed_under_the_name_that_is_looked_for() -> None:
    packed = (ROOT / "pyproject.toml").read_text()
    for place in shipped.FILES.values():
        assert f'"{place}" = "tierd/files/{Path(place).name}"' in packed
