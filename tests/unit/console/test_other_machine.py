"""`tierd check` for another machine, and the cgroups of classes on this one."""

import json
import random
from contextlib import suppress
from pathlib import Path

import pytest

from tests.fixtures import machines
from tests.fixtures.garbage import damaged
from tests.fixtures.machines import TextSysfs
from tierd import cli
from tierd.clock import SystemClock
from tierd.configuration.config import Config
from tierd.console import other_machine
from tierd.doctor import checkup
from tierd.errors import TierdError
from tierd.machine import discovery
from tierd.record.rundir import RunDir
from tierd.views import render

PRESET = "tiers: [[0, 1], [2, 3]]\n"
NODES = ((0, 1, 2, 3), (0, 1, 2, 3))


def tiers_file(name: str, folder: Path) -> Path:
    topology = discovery.survey(machines.load(name).sysfs, None)
    path = folder / "tiers.json"
    path.write_text(json.dumps(render.tiers_document(topology)))
    return path


def report_file(name: str, folder: Path) -> Path:
    run = RunDir(folder / "run", folder / "state")
    looked = checkup.look(machines.load(name).sysfs, SystemClock(), run, Config, is_root=True)
    path = folder / "report.tar.gz"
    checkup.write_bundle(looked, run, path)
    return path


@pytest.fixture
def here(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    machines.unpack(machines.load("two-tier-7.2").sysfs, root)
    return root


@pytest.mark.parametrize("made", [tiers_file, report_file], ids=["tiers", "report"])
def test_the_nodes_of_another_machine(made: object, tmp_path: Path) -> None:
    assert callable(made)
    assert other_machine.nodes(made("two-socket-7.2", tmp_path)) == NODES


def test_a_node_without_memory_is_there_all_the_same(tmp_path: Path) -> None:
    assert other_machine.nodes(tiers_file("slow-offline-7.2", tmp_path)) == ((0,), (0, 1))


def test_a_preset_is_checked_for_the_machine_that_it_is_for(
    here: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    preset = tmp_path / "preset.yaml"
    preset.write_text(PRESET)
    words = ["check", "--root", str(here), str(preset)]
    assert cli.main(words) == 78
    assert "node 2 does not exist" in capsys.readouterr().out
    there = str(tiers_file("two-socket-7.2", tmp_path))
    assert cli.main([*words, "--machine", there]) == 0
    # The other machine may lack what this one has.
    there = str(report_file("one-tier-7.2", tmp_path))
    assert cli.main([*words, "--machine", there]) == 78


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "is neither a report nor"),
        (b"[]", "is neither a report nor"),
        (b'{"tiers": [{"nodes": [{"id": 1e400}]}]}', "is neither a report nor"),
        (b'{"tiers": [], "unmanaged_nodes": [{"id": -1}], "empty_nodes": []}', "is neither"),
        (b"[" * 100_000, "is neither a report nor"),
        (b"\x1f\x8b", "is not a valid report"),
    ],
)
def test_what_tells_of_no_machine(content: bytes, why: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(TierdError, match=why):
        other_machine.nodes(path)
    with pytest.raises(TierdError, match="expected a regular file"):
        other_machine.nodes(tmp_path)


@pytest.mark.parametrize("made", [tiers_file, report_file], ids=["tiers", "report"])
def test_damage_is_a_sentence(made: object, tmp_path: Path) -> None:
    assert callable(made)
    path = made("two-tier-7.2", tmp_path)
    whole = path.read_bytes()
    chance = random.Random(16)
    for _ in range(200):
        path.write_bytes(damaged(whole, chance))
        with suppress(TierdError):
            other_machine.nodes(path)


CLASSES = """\
cgroups:
  data: {exclude: /database.slice}
  typo: {exclude: /databse.slice}
"""


@pytest.fixture
def with_cgroups(tmp_path: Path) -> Path:
    captured = machines.load("two-tier-7.2").sysfs
    files: dict[str, str | bytes] = {**captured.files, "sys/fs/cgroup/cgroup.procs": ""}
    for name in ("", *(f"/{number}" for number in range(7))):
        files[f"sys/fs/cgroup/database.slice{name}/memory.current"] = "4096\n"
    machines.unpack(TextSysfs(files, captured.folders), tmp_path / "root")
    (tmp_path / "classes.yaml").write_text(CLASSES)
    return tmp_path


@pytest.mark.parametrize("words", ["check {file}", "plan --config {file}"])
def test_what_classes_stand_for_is_told(
    words: str,
    with_cgroups: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "1000")
    argv = words.format(file=with_cgroups / "classes.yaml").split()
    assert cli.main([*argv, "--root", str(with_cgroups / "root")]) == 0
    out = capsys.readouterr().out
    told = "/database.slice, /database.slice/0, /database.slice/1, /database.slice/2, "
    assert f"cgroup class data (exclude /database.slice): 8 cgroups now: {told}" in out
    assert "/database.slice/3 and 3 more\n" in out
    assert "cgroup class typo (exclude /databse.slice): none exists now" in out


def test_the_plan_as_a_document_has_the_classes(
    with_cgroups: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config, root = with_cgroups / "classes.yaml", with_cgroups / "root"
    assert cli.main(["plan", "--json", "--config", str(config), "--root", str(root)]) == 0
    classes = json.loads(capsys.readouterr().out)["cgroups"]
    assert [(one["name"], one["count"], len(one["cgroups"])) for one in classes] == [
        ("data", 8, 8),
        ("typo", 0, 0),
    ]
