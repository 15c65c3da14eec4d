"""The command line as a table: arguments, exit code, and output."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fixtures import machines
from tests.fixtures.snapshots import FRESH
from tests.unit.console.heat_rows import BRIEF, HEAT_ROWS
from tests.unit.console.promises import DAEMONS, Row
from tierd import cli
from tierd.console import commands, shipped
from tierd.console.arguments import VERBS, parse, parser
from tierd.errors import ExitCode
from tierd.kdamonds import saved
from tierd.kdamonds.saved import SavedState
from tierd.record import chronicle
from tierd.record.rundir import RunDir
from tierd.record.snapshot import EventStatus, document
from tierd.serving import api
from tierd.serving.api import Sources
from tierd.serving.inbox import Answer, Event
from tierd.sim import forecast
from tools import man_pages

SIMULATED = ("on the SIMULATED machine two-tier", "this machine is not touched")
SHOWN = ("on the SIMULATED machine two-tier", "not on this one")
NO_FILE = ("none.yaml",)
QUIET = "--for 1s --run-dir {tmp} --state-dir {tmp} --config {root}/../quiet.yaml"
LACKS = "--run-dir {tmp} --config {tmp}/none.yaml"
UNDONE = ("running: ", "restored: ")

TABLE = [
    *HEAT_ROWS,
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
    Row("two-tier-7.2", "plan --root {root} --observe", 0, ("and count, without moving anything",)),
    Row("two-tier-7.2", "plan --root {root} --diff", 5, ("nr_kdamonds: expected '2', found '0'",)),
    Row(
        "one-tier-7.2", "plan --simulate", 0, (*SHOWN, "`tierd plan --simulate two-tier --writes`")
    ),
    Row(
        "one-tier-7.2", "plan --simulate three-tier --writes", 0, ("# on the SIMULATED machine t",)
    ),
    Row("one-tier-7.2", "plan --simulate --json", 0, ('"tierd.plan/1"',)),
    Row("one-tier-7.2", "plan --simulate nowhere", 2, (), ("no machine 'nowhere'", "two-tier")),
    Row("one-tier-7.2", "tiers --simulate", 0, (*SHOWN, "tier 0 (fastest): memory_tier4")),
    Row("one-tier-7.2", "plan --root {root}", 69, (), ("tier",)),
    Row("two-tier-7.2", "doctor --root {root}", 0, ("tierd can run here", "TD010  DAMON modules")),
    Row("two-tier-7.2", "doctor --root {root} --json", 0, ('"tierd.doctor/1"',)),
    Row("one-tier-7.2", "doctor --root {root}", 69, ("cannot run here", "first: TD006")),
    Row("two-tier-7.2", "doctor --root {tmp}", 69, ("first: TD002",)),
    Row("two-tier-7.2", "doctor --root {root} --bundle {tmp}/r.tgz", 0, ("wrote", "r.tgz")),
    Row("two-tier-7.2", "doctor --root {root} --bundle {tmp}/no/r", 1, (), ("cannot write",)),
    Row("one-tier-7.2", "doctor --simulate --measure", 2, (), ("this machine",)),
    Row("two-tier-7.2", "status --run-dir {tmp}", 3, (), ("not running", "systemctl start")),
    Row("two-tier-7.2", "why 0 --run-dir {tmp}", 3, (), ("not running",)),
    Row(
        "two-tier-7.2",
        "why here --run-dir {tmp}",
        2,
        (),
        ("'here' is no node", "tierd why --run-dir"),
    ),
    Row("two-tier-7.2", "status --run-dir {run}", 0, ("headroom is kept", "next: ")),
    Row("two-tier-7.2", "status --run-dir {run}", 4, ("STUCK: ",), daemon="stuck"),
    Row("two-tier-7.2", "status --json --run-dir {run}", 4, ('"degraded"',), daemon="stuck"),
    Row("two-tier-7.2", "status --json --run-dir {run}", 0, ('"tierd.status/1"',)),
    Row(
        "two-tier-7.2",
        "status --run-dir {run}",
        5,
        ("DEGRADED: node 1 is gone",),
        daemon="degraded",
    ),
    Row("two-tier-7.2", "status --json --run-dir {run}", 5, ('"degraded"',), daemon="degraded"),
    Row("two-tier-7.2", "status --run-dir {run}", 0, ("STARTING",), daemon="starting"),
    Row("two-tier-7.2", "status --json --run-dir {run}", 0, ('"starting"',), daemon="starting"),
    Row(
        "two-tier-7.2",
        "status --run-dir {run}",
        4,
        (),
        ("which is not tierd's API",),
        daemon="stranger",
    ),
    Row("two-tier-7.2", "why node1 --run-dir {run}", 0, ("promote-1-0: promotion from node1",)),
    Row(
        "two-tier-7.2", "why 1 --run-dir {run}", 0, ("has not read the machine",), daemon="starting"
    ),
    Row("two-tier-7.2", "why 9 --run-dir {run}", 2, (), ("no node 9", "there are: 0, 1")),
    Row(
        "two-tier-7.2",
        "top --run-dir {run} --root {root} --config {root}/../good.yaml",
        0,
        ("ACTIVE", "node0", "no unified cgroup tree"),
    ),
    Row(
        "two-tier-7.2",
        "top --run-dir {tmp} --root {root} --config {root}/../good.yaml",
        0,
        ("not running",),
    ),
    Row(
        "two-tier-7.2",
        "top --run-dir {tmp} --root {root} --config {root}/../good.yaml --json",
        0,
        ('"tierd.top/1"',),
    ),
    Row(
        "two-tier-7.2",
        "top --run-dir {tmp} --root {root} --config {root}/../good.yaml --processes",
        0,
        ("not running", "no process with memory was read"),
    ),
    Row(
        "two-tier-7.2",
        "why /x --run-dir {tmp} --root {root} --config {root}/../good.yaml",
        1,
        (),
        ("no /sys/fs/cgroup/x/memory.numa_stat", "tierd top"),
    ),
    Row(
        "two-tier-7.2",
        "observe --config {tmp}/none.yaml --simulate --run-dir {tmp}",
        78,
        SIMULATED,
        NO_FILE,
    ),
    Row(
        "two-tier-7.2",
        f"observe --simulate {QUIET}",
        0,
        (*SIMULATED, "hot on the slow tier (node1)", "tierd would promote "),
        UNDONE,
    ),
    Row("two-tier-7.2", "events --state-dir {tmp}", 0, ("no events", "events.ring")),
    Row("two-tier-7.2", "events --state-dir {tmp} --json", 0, ('"tierd.events/1"',)),
    Row("two-tier-7.2", "history --state-dir {tmp}", 0, ("no reading", "history.ring")),
    Row("two-tier-7.2", "history --state-dir {tmp} --json", 0, ('"tierd.history/1"',)),
    Row("two-tier-7.2", "history --state-dir {tmp} --svg {tmp}/h.svg", 0, ("wrote",)),
    Row("two-tier-7.2", "history --state-dir {tmp} --svg -", 0, ("<svg", "</svg>")),
    Row("two-tier-7.2", "history --state-dir {tmp} --svg {tmp}/no/h", 1, (), ("cannot write",)),
    Row("two-tier-7.2", "reload --run-dir {tmp}", 3, (), ("not running",)),
    Row("two-tier-7.2", "pause --run-dir {tmp}", 3, (), ("not running",)),
    Row("two-tier-7.2", "restore --run-dir {tmp}", 0, ("nothing to restore",)),
    Row("two-tier-7.2", "check {tmp}/none.yaml", 78, ("none.yaml",)),
    Row(
        "two-tier-7.2",
        "run --config {tmp}/none.yaml --simulate --run-dir {tmp}",
        78,
        SIMULATED,
        NO_FILE,
    ),
    Row("two-tier-7.2", f"run --simulate --observe {QUIET}", 0, SIMULATED, UNDONE),
    Row(
        "two-tier-7.2",
        "run --root {tmp} --run-dir {tmp}",
        69,
        (),
        ("/proc/sys/kernel/random/boot_id", "mount proc", "leave out --root"),
    ),
    # tierd cannot run on a machine without kernel files.
    Row(
        "two-tier-7.2",
        f"run --demo --root {{tmp}} {QUIET}",
        0,
        ("cannot run on this machine: ", *SIMULATED),
        UNDONE,
    ),
    Row("two-tier-7.2", "resume --run-dir {tmp}", 3, (), ("not running",)),
    Row("two-tier-7.2", "restore --print --run-dir {tmp}", 0, ("nothing to restore",)),
    Row("two-tier-7.2", "restore --after-service --run-dir {tmp}", 0, ("nothing to restore",)),
    Row("two-tier-7.2", "check {root}/../good.yaml", 0, ("good.yaml",)),
    Row("two-tier-7.2", "check {tmp}", 78, ("cannot",)),
    Row("two-tier-7.2", "import {root}/../policy.sh --json", 0, ('"tierd.import/1"',)),
    Row("two-tier-7.2", "import {root}/../good.yaml", 78, (), ("expected kdamonds",)),
    Row(
        "two-tier-7.2",
        "check --machine {tmp}/none.json {root}/../good.yaml",
        78,
        (),
        ("none.json: expected a regular file", "tierd doctor --bundle"),
    ),
    Row("two-tier-7.2", "plan --root {root} --config {tmp}/none.yaml", 78, (), NO_FILE),
    Row("two-tier-7.2", "tiers --root {root} --config {tmp}/none.yaml", 78, (), NO_FILE),
    Row("two-tier-7.2", "doctor --root {root} --config {tmp}/none.yaml", 78, ("first: TD004",)),
    Row("two-tier-7.2", "doctor --root {root} --no-color", 0, ("ok    TD001",)),
    Row("two-tier-7.2", "events --since 1h --state-dir {tmp}", 0, ("no events",)),
    Row("two-tier-7.2", "history --since 1h --state-dir {tmp}", 0, ("no reading",)),
    # Folders in the place of files cannot be read, not even by root.
    Row("two-tier-7.2", "events --state-dir {root}/..", 1, (), ("cannot read", "events.ring")),
    Row("two-tier-7.2", "history --state-dir {root}/..", 1, (), ("cannot read", "history.ring")),
    *(Row("two-tier-7.2", f"print {what}", 0, ("",)) for what in shipped.FILES),
    *(
        Row("two-tier-7.2", f"print {kind} {name}", 0, ("",))
        for kind, names in shipped.KINDS.items()
        for name in names
    ),
    Row("two-tier-7.2", "print preset", 0, ("gentle", "For machines where nothing may disturb")),
    Row(
        "two-tier-7.2",
        "run --simulate nowhere --for 1s --run-dir {tmp}",
        2,
        (),
        ("no machine 'nowhere'", "there are: ", "two-tier"),
    ),
]


def said(
    row: Row, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> tuple[int, str, str]:
    for variable in ("RUNTIME_DIRECTORY", "STATE_DIRECTORY"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(forecast, "MINUTES", BRIEF)
    root, empty = tmp_path / "root", tmp_path / "empty"
    empty.mkdir()
    machines.unpack(machines.load(row.machine).sysfs, root)
    (tmp_path / "good.yaml").write_text("headroom: 2%\n")
    (tmp_path / "policy.sh").write_text("damo start --damos_action migrate_hot 0\n")
    (tmp_path / "quiet.yaml").write_text("metrics: {address: off}\n")
    for ring in ("events.ring", "history.ring"):
        (tmp_path / ring).mkdir()
    answers = Sources(DAEMONS[row.daemon].get, lambda _event: False)
    server = api.serve(tmp_path / "api.sock", answers)
    try:
        code = cli.main(row.argv.format(root=root, tmp=empty, run=tmp_path).split())
    finally:
        server.stop()
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
    assert bool(out) is bool(row.out)
    assert bool(err) is bool(row.err)
    assert "Traceback" not in out + err
    if "--json" in row.argv:
        json.loads(out)


def test_what_another_boot_left_is_nothing_to_restore(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    machines.unpack(machines.load("two-tier-7.2").sysfs, tmp_path)
    (tmp_path / "proc/sys/kernel/random").mkdir(parents=True, exist_ok=True)
    (tmp_path / "proc/sys/kernel/random/boot_id").write_text("this\n")
    note = tmp_path / "state.json"
    note.write_text(saved.to_text(SavedState("another", ())))
    words = ["restore", "--root", str(tmp_path), "--run-dir", str(tmp_path)]
    assert cli.main([*words, "--print"]) == 0
    assert capsys.readouterr().out.startswith("# nothing to restore: ")
    assert note.exists()
    assert cli.main(words) == 0
    assert capsys.readouterr().out.startswith("nothing to restore: ")
    assert not note.exists()


def options() -> set[str]:
    """Return every verb, alone and with each of its own options."""
    return set(VERBS) | {
        f"{name} {action.option_strings[-1]}"
        for name, verb in man_pages.verbs(parser()).items()
        for action in man_pages.actions(verb, common=False)
        if action.option_strings
    }


@pytest.mark.parametrize("words", sorted(options()))
def test_every_option_of_every_command_has_a_row(words: str) -> None:
    verb, _, option = words.partition(" ")
    rows = [row.argv.split() for row in TABLE]
    # This one never ends, and has its own test.
    assert words == "events --follow" or any(
        argv[0] == verb and (not option or option in argv) for argv in rows
    )


def test_a_follower_ends_when_nobody_reads_on(tmp_path: Path) -> None:
    kept = chronicle.Chronicle(RunDir(tmp_path, tmp_path))
    kept.happened(EventStatus(1.0, "running", "started"))
    with subprocess.Popen(
        [sys.executable, "-m", "tierd", *f"events --follow --json --state-dir {tmp_path}".split()],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as follower:
        assert follower.stdout is not None
        assert follower.stderr is not None
        assert json.loads(follower.stdout.readline())["event"] == "running"
        kept.happened(EventStatus(2.0, "pause", "asked to"))
        assert json.loads(follower.stdout.readline())["event"] == "pause"
        follower.stdout.close()
        kept.happened(EventStatus(3.0, "resume", "asked to"))
        assert (follower.wait(60), follower.stderr.read()) == (0, b"")


@pytest.mark.parametrize("verb", ["run", "observe"])
def test_a_machine_without_a_name_is_not_this_one(
    verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [verb, "--simulate", "", "--for", "1s", "--root", str(tmp_path)]
    assert cli.main([*words, "--run-dir", str(tmp_path / "run")]) == ExitCode.usage
    assert "there are: " in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_an_empty_string_is_neither_a_path_nor_a_time(capsys: pytest.CaptureFixture[str]) -> None:
    """Path("") would be the current folder."""
    tried = 0
    for name, verb in man_pages.verbs(parser()).items():
        for action in verb._actions:
            if action.type is None or not (action.option_strings or action.nargs == "?"):
                continue
            tried += 1
            words = ["0"] if name == "why" else ["unit"] if name == "print" else []
            with pytest.raises(SystemExit) as caught:
                cli.main([name, *words, *action.option_strings[-1:], ""])
            assert caught.value.code == ExitCode.usage, (name, action.dest)
            assert "expected" in capsys.readouterr().err
    assert tried > 3 * len(VERBS)


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
        needed = {"why": ["0"], "print": ["unit"], "import": ["policy.yaml"]}
        words = [verb, *needed.get(verb, [])]
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


def test_status_reads_no_file_of_the_kernel(tmp_path: Path) -> None:
    """`status` never waits for DAMON, even if a command blocks."""
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
        Sources({"/v1/status": json.dumps(document(FRESH))}.get, lambda _event: False),
    )
    try:
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
        )
    finally:
        server.stop()
    assert done.stdout.splitlines()[-1] == "0 []"
    assert "headroom is kept" in done.stdout


def test_a_picture_harms_no_file_that_somebody_has_a_link_to(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "treasure").write_text("gold")
    (tmp_path / "h.svg").symlink_to(tmp_path / "treasure")
    words = ["history", "--state-dir", str(tmp_path), "--svg", str(tmp_path / "h.svg")]
    assert cli.main(words) == 1
    assert "not a regular file" in capsys.readouterr().err
    assert (tmp_path / "treasure").read_text() == "gold"


def test_nothing_is_run_or_undone_in_a_directory_that_others_prepared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Others may prepare such a directory in /tmp, with links to files of root."""
    (tmp_path / "treasure").write_text("gold")
    planted = tmp_path / "run"
    planted.mkdir()
    for name in ("lock", "state.json", "counters.json"):
        (planted / name).symlink_to(tmp_path / "treasure")
    planted.chmod(0o777)
    for words in (["run", "--simulate", "--for", "1s"], ["restore"], ["restore", "--print"]):
        assert cli.main([*words, "--run-dir", str(planted)]) == 77
        assert "others could put files" in capsys.readouterr().err
    assert (tmp_path / "treasure").read_text() == "gold"


@pytest.mark.parametrize(
    ("argv0", "in_path", "name"),
    [
        (".venv/bin/tierd", True, "tierd"),
        (".venv/bin/tierd", False, ".venv/bin/tierd"),
        ("my work/.venv/bin/tierd", False, "'my work/.venv/bin/tierd'"),
        ("/x/tierd/__main__.py", False, f"{sys.executable} -m tierd"),
    ],
)
def test_what_is_to_be_typed_in_a_second_terminal_can_be(
    argv0: str,
    in_path: bool,
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if in_path:
        (tmp_path / "tierd").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "argv", [argv0])
    root = tmp_path / "root"
    (tmp_path / "quiet.yaml").write_text("metrics: {address: off}\n")
    words = f"run --simulate --observe {QUIET}".format(tmp=tmp_path, root=root)
    root.mkdir()
    assert cli.main(words.split()) == 0
    where = f"--run-dir {tmp_path}"
    wanted = f"second terminal: {name} status {where}; {name} history {where}\n"
    assert wanted in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("completion tcsh", "tcsh"),
        ("preset zsh", "no preset zsh; there are: aggressive"),
        ("unit gentle", "there are: none"),
    ],
)
def test_what_does_not_ship_is_said(
    words: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(["print", *words.split()])
    assert caught.value.code == ExitCode.usage
    assert said in capsys.readouterr().err
