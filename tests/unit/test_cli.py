"""The command line as a table: arguments, exit code, and what is said where."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.fixtures import machines
from tests.fixtures.snapshots import SNAPSHOT
from tierd import api, cli, commands
from tierd.api import Sources
from tierd.arguments import VERBS, parse, parser
from tierd.errors import ExitCode
from tierd.inbox import Answer, Event
from tierd.snapshot import document


@dataclass(frozen=True)
class Row:
    """A promise. `{root}` is a captured machine, `{tmp}` an empty directory."""

    machine: str
    argv: str
    exit_code: int
    out: tuple[str, ...] = ()
    err: tuple[str, ...] = ()


TABLE = [
    Row("two-tier-7.2", "tiers --root {root}", 0, ("tier 0 (fastest): memory_tier4", "node1")),
    Row("three-tier-7.2", "tiers --root {root}", 0, ("memory_tier0", "tier 2: memory_tier67")),
    Row("one-tier-7.2", "tiers --root {root}", 69, ("one tier only",)),
    Row("two-socket-7.2", "tiers --root {root} --json", 0, ('"tierd.tiers/1"',)),
    Row("two-tier-7.2", "tiers --root {tmp}", 69, (), ("/sys/devices/system/node", "CONFIG_NUMA")),
    Row("two-tier-7.2", "plan --root {root}", 0, ("promote-1-0", "demote-0-1", "damon-stat")),
    Row("two-tier-6.12", "plan --root {root}", 0, ("degraded because", "fail_charge")),
    Row("three-tier-7.2", "plan --root {root}", 0, ("promote-0-1", "demote-0-2", "promote-2-0")),
    Row("two-tier-7.2", "plan --root {root} --writes", 0, ("kdamonds/nr_kdamonds = 2", "= on")),
    Row("two-tier-7.2", "plan --root {root} --json", 0, ('"tierd.plan/1"',)),
    Row("two-tier-7.2", "plan --root {root} --format damo", 0, ('"kdamonds"',)),
    Row("two-tier-7.2", "plan --root {root} --observe", 0, ("count what it would move",)),
    Row("two-tier-7.2", "plan --root {root} --diff", 5, ("nr_kdamonds: wanted '2', found '0'",)),
    Row("one-tier-7.2", "plan --root {root}", 69, (), ("tier",)),
    Row("two-tier-7.2", "doctor --root {root}", 0, ("tierd can run here", "TD010  DAMON modules")),
    Row("two-tier-7.2", "doctor --root {root} --json", 0, ('"tierd.doctor/1"',)),
    Row("one-tier-7.2", "doctor --root {root}", 69, ("cannot run here", "first: TD006")),
    Row("two-tier-7.2", "doctor --root {tmp}", 69, ("first: TD002",)),
    Row("two-tier-7.2", "doctor --root {root} --bundle {tmp}/r.tgz", 0, ("wrote", "r.tgz")),
    Row("two-tier-7.2", "doctor --root {root} --bundle {tmp}/no/r", 1, (), ("cannot write",)),
    Row("two-tier-7.2", "status --run-dir {tmp}", 3, (), ("not running", "systemctl start")),
    Row("two-tier-7.2", "why 0 --run-dir {tmp}", 3, (), ("not running",)),
    Row("two-tier-7.2", "why here --run-dir {tmp}", 2, (), ("'here' is no node", "tierd why 1")),
    Row("two-tier-7.2", "observe --config {tmp}/none.yaml --simulate", 78, (), ("none.yaml",)),
    Row("two-tier-7.2", "events --state-dir {tmp}", 0, ("no events", "events.ring")),
    Row("two-tier-7.2", "events --state-dir {tmp} --json", 0, ('"tierd.events/1"',)),
    Row("two-tier-7.2", "history --state-dir {tmp}", 0, ("no reading", "history.ring")),
    Row("two-tier-7.2", "history --state-dir {tmp} --json", 0, ('"tierd.history/1"',)),
    Row("two-tier-7.2", "history --state-dir {tmp} --svg {tmp}/h.svg", 0, ("wrote",)),
    Row("two-tier-7.2", "history --state-dir {tmp} --svg {tmp}/no/h", 1, (), ("cannot write",)),
    Row("two-tier-7.2", "reload --run-dir {tmp}", 3, (), ("not running",)),
    Row("two-tier-7.2", "pause --run-dir {tmp}", 3, (), ("not running",)),
    Row("two-tier-7.2", "restore --run-dir {tmp}", 0, ("nothing to restore",)),
    Row("two-tier-7.2", "check {tmp}/none.yaml", 78, ("none.yaml",)),
    Row("two-tier-7.2", "run --config {tmp}/none.yaml --simulate", 78, (), ("none.yaml",)),
    Row("two-tier-7.2", "run --simulate nowhere --for 1s", 1, (), ("no machine 'nowhere'",)),
]


def said(
    row: Row, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> tuple[int, str, str]:
    for variable in ("RUNTIME_DIRECTORY", "STATE_DIRECTORY"):
        monkeypatch.delenv(variable, raising=False)
    root, empty = tmp_path / "root", tmp_path / "empty"
    empty.mkdir()
    machines.unpack(machines.load(row.machine).sysfs, root)
    code = cli.main(row.argv.format(root=root, tmp=empty).split())
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.mark.parametrize("row", TABLE, ids=lambda row: f"{row.argv} on {row.machine}")
def test_table(
    row: Row, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, err = said(row, tmp_path, capsys, monkeypatch)
    assert code == row.exit_code, out + err
    assert all(text in out for text in row.out), out
    assert all(text in err for text in row.err), err
    assert "Traceback" not in out + err
    if "--json" in row.argv:
        json.loads(out)


@pytest.mark.parametrize("argv", ["", "nonsense", "plan --writes --json", "run --for soon"])
def test_usage_is_exit_2(argv: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(argv.split())
    assert caught.value.code == ExitCode.usage
    assert "usage:" in capsys.readouterr().err


def test_every_verb_has_a_command_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    for verb in commands.COMMANDS:
        with pytest.raises(SystemExit) as caught:
            parser().parse_args([verb, "--help"])
        assert caught.value.code == 0
        assert f"tierd {verb}" in capsys.readouterr().out


def test_the_parser_of_one_verb_is_a_part_of_that_of_all() -> None:
    assert VERBS.keys() == commands.COMMANDS.keys()
    for verb in VERBS:
        words = [verb, *(["0"] if verb == "why" else ["unit"] if verb == "print" else [])]
        assert parse(words) == parser().parse_args(words)


@pytest.mark.parametrize(
    ("answer", "code"), [(Answer(0, "done"), 0), (Answer(78, "x.yaml:1:1: no"), 78)]
)
def test_the_daemons_answer_is_the_commands(
    answer: Answer, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def post(event: Event) -> bool:
        event.reply(answer)
        return True

    server = api.serve(tmp_path / "api.sock", Sources(lambda _path: None, post))
    try:
        assert cli.main(["reload", "--run-dir", str(tmp_path)]) == code
    finally:
        server.stop()
    captured = capsys.readouterr()
    assert answer.text in (captured.err if code else captured.out)


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    machines.unpack(machines.load("two-tier-7.2").sysfs, tmp_path)
    read_end, write_end = os.pipe()
    os.close(read_end)
    done = subprocess.run(
        [sys.executable, "-m", "tierd", "plan", "--writes", "--root", str(tmp_path)],
        stdout=write_end,
        stderr=subprocess.PIPE,
        check=False,
        timeout=60,
    )
    os.close(write_end)
    assert (done.returncode, done.stderr) == (0, b"")


def test_status_does_not_load_the_daemon() -> None:
    """`status` has 150 ms; these modules take more than half of that to import."""
    program = (
        "import sys; from tierd import cli; cli.main(['status', '--run-dir', '/nonexistent']);"
        "import tierd.statusview;"
        "heavy = {'yaml', 'http.server', 'prometheus_client', 'tierd.daemon', 'tierd.policy',"
        "'tierd.topology', 'tierd.snapshot'};"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"


def test_status_reads_no_file_of_the_kernel(tmp_path: Path) -> None:
    """Whatever DAMON is doing, and however long a command blocks, status does not wait for it."""
    program = (
        "import sys; opened = []\n"
        "def hook(event, args):\n"
        "    if event == 'open' and str(args[0]).startswith(('/sys', '/proc')):\n"
        "        opened.append(args)\n"
        "from tierd import cli; sys.addaudithook(hook)\n"
        f"code = cli.main(['status', '--run-dir', {str(tmp_path)!r}])\n"
        "print(code, opened)"
    )
    server = api.serve(
        tmp_path / "api.sock",
        Sources({"/v1/status": json.dumps(document(SNAPSHOT))}.get, lambda _event: False),
    )
    try:
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
        )
    finally:
        server.stop()
    assert done.stdout.splitlines()[-1] == "0 []"
    assert "headroom is kept" in done.stdout


def test_who_only_asks_means_the_daemon_of_the_system_unless_they_run_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("RUNTIME_DIRECTORY", "STATE_DIRECTORY"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    asking = parser().parse_args(["status"])
    assert commands.run_dir(asking).run == Path("/run/tierd")
    own = commands.run_dir(asking, starts=True).run
    assert own == tmp_path / "tierd-4711"
    own.mkdir()
    assert commands.run_dir(asking).run == own
