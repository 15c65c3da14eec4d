"""systemd's own tools check the unit and its examples."""

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

# Releases of systemd have different settings and warnings. The unpacked one is downloaded first.
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
    """If not, the tests above would pass with a systemd that checks nothing."""
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


def test_every_preset_is_shipped_and_told_with_what_it_is_for() -> None:
    presets = {path.stem for path in (ROOT / "configs").glob("*.yaml")} - {"tierd"}
    assert set(shipped.KINDS["preset"]) == presets
    lines = shipped.presets().splitlines()
    assert {line.split()[0] for line in lines} == presets
    assert all(len(line.split()) > 4 and len(line) <= 100 for line in lines)


@pytest.mark.parametrize(
    ("program", "warned"),
    [
        ("/usr/bin/tierd", False),
        ("/opt/tierd/bin/tierd", False),
        ("/home/me/.venv/bin/tierd", True),
    ],
)
def test_the_unit_runs_the_program_that_prints_it(program: str, warned: bool) -> None:
    made = shipped.unit(program)
    assert f"\nExecStart={program} run\n" in made
    assert f"\nExecReload={program} reload\n" in made
    assert f"\nExecStopPost=-{program} restore --after-service\n" in made
    assert made.startswith("# This unit cannot start") is warned
    if program == shipped.PACKAGED:
        assert made == UNIT.read_text()


def test_what_the_guide_installs_the_unit_can_see() -> None:
    guide = (ROOT / "docs/guide.md").read_text()
    folder = re.search(r"python3 -m venv (\S+)", guide)
    link = re.search(r"ln -sf (\S+) (\S+)", guide)
    assert folder
    assert link
    assert link[1] == f"{folder[1]}/bin/tierd"
    for program in link.groups():
        assert f"\nExecStart={program} run\n" in shipped.unit(program)
        assert "cannot start" not in shipped.unit(program)
