"""The directories of the daemon: the same for every verb, and repeated in every hint."""

import os
from pathlib import Path

import pytest

from tierd import cli
from tierd.console import directories
from tierd.console.arguments import VERBS, parse
from tierd.record.rundir import RunDir

VARIABLES = (
    "TIERD_RUN_DIR",
    "TIERD_STATE_DIR",
    "RUNTIME_DIRECTORY",
    "STATE_DIRECTORY",
    "XDG_RUNTIME_DIR",
)
WORDS = {"why": ("0",), "print": ("unit",), "import": ("policy.yaml",)}


@pytest.fixture(autouse=True)
def _nothing_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)


def asked(verb: str, *options: str, simulated: bool = False) -> RunDir:
    arguments = parse([verb, *WORDS.get(verb, ()), *options])
    return directories.run_dir(arguments, simulated=simulated)


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_takes_one_option_or_one_variable(
    verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert asked(verb) == directories.SYSTEM
    assert asked(verb, "--run-dir", "/a") == (Path("/a"), Path("/a"))
    assert asked(verb, "--state-dir", "/b") == (Path("/run/tierd"), Path("/b"))
    monkeypatch.setenv("TIERD_RUN_DIR", "/c")
    assert asked(verb) == (Path("/c"), Path("/c"))
    assert asked(verb, "--run-dir", "/a") == (Path("/a"), Path("/a"))
    monkeypatch.setenv("TIERD_STATE_DIR", "/d")
    assert asked(verb) == (Path("/c"), Path("/d"))
    assert asked(verb, "--state-dir", "/b") == (Path("/c"), Path("/b"))


def test_what_is_named_comes_before_what_systemd_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNTIME_DIRECTORY", "/run/one:/run/two")
    monkeypatch.setenv("STATE_DIRECTORY", "/var/lib/one")
    assert asked("run") == (Path("/run/one"), Path("/var/lib/one"))
    assert asked("run", "--run-dir", "/a") == (Path("/a"), Path("/a"))


def test_a_relative_name_is_found_from_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/usr")
    assert asked("status", "--run-dir", "here").run == Path("/usr/here")


def test_an_empty_name_is_a_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        parse(["status", "--run-dir", ""])
    assert caught.value.code == 2
    assert "--run-dir" in capsys.readouterr().err


@pytest.mark.parametrize("simulated", [False, True])
@pytest.mark.parametrize("xdg", [None, "/run/user/4711"])
def test_no_default_of_roots_is_where_others_make_files(
    simulated: bool, xdg: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    if xdg:
        monkeypatch.setenv("XDG_RUNTIME_DIR", xdg)
    for path in asked("run", simulated=simulated):
        assert path.parent in (Path("/run"), Path("/var/lib"))


def test_the_simulated_machine_of_others_is_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    # The real daemon uses the system's directories for any user, because only root can run it.
    assert asked("run") == asked("pause") == directories.SYSTEM
    assert asked("run", simulated=True).run == Path("/tmp/tierd-simulated-4711")
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/4711")
    assert asked("run", simulated=True).run == Path("/run/user/4711/tierd-simulated-4711")


@pytest.mark.parametrize(
    ("folder", "added"),
    [
        (directories.SYSTEM, ""),
        (RunDir(Path("/a"), Path("/a")), " --run-dir /a"),
        (RunDir(Path("/a"), Path("/b")), " --run-dir /a --state-dir /b"),
        (RunDir(Path("/run/tierd"), Path("/b")), " --state-dir /b"),
        (RunDir(Path("/my run"), Path("/my run")), " --run-dir '/my run'"),
        (RunDir(Path(r"/a\1"), Path(r"/a\1")), r" --run-dir '/a\1'"),
    ],
)
def test_a_hint_names_the_directories_that_it_needs(folder: RunDir, added: str) -> None:
    text = "see `tierd status`, `sudo tierd why node1`; `systemctl stop tierd`"
    wanted = f"see `tierd status{added}`, `sudo tierd why{added} node1`; `systemctl stop tierd`"
    assert directories.repeated(text, folder) == wanted


def test_so_does_the_last_line_of_status() -> None:
    text = "next: tierd top | tierd why 1, then `mode` and tierd reload"
    wanted = "next: tierd top --run-dir /a | tierd why --run-dir /a 1, then `mode` and tierd reload"
    assert directories.repeated(text, RunDir(Path("/a"), Path("/a"))) == f"{wanted} --run-dir /a"


def test_what_reads_no_daemons_files_is_left_as_it_is() -> None:
    text = "`tierd check FILE` and `tierd print unit` and `tierd run-dir`"
    assert directories.repeated(text, RunDir(Path("/a"), Path("/a"))) == text


def test_an_error_names_the_directory_that_was_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["status", "--run-dir", str(tmp_path)]) == 3
    assert f"`tierd run --run-dir {tmp_path}`" in capsys.readouterr().err
