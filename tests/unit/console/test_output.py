"""A command that cannot print reports it, or ends as if it had printed."""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.fixtures import machines
from tests.fixtures.snapshots import FRESH
from tierd.console.arguments import VERBS
from tierd.errors import ExitCode
from tierd.record.chronicle import Chronicle
from tierd.record.rundir import RunDir
from tierd.record.snapshot import EventStatus, document, look
from tierd.serving import api
from tierd.serving.api import Sources
from tierd.serving.inbox import Answer, Event

# Starts every command as a shell does, with descriptors that are closed or open on something, and
# ends it as the interpreter does. It is loaded once, because loading it for each command takes a
# minute.
PROGRAM = """
import json, os, sys, traceback
from tierd import cli
import tierd.console.commands, tierd.loop.service, tierd.planning, tierd.doctor.checkup

def begin(descriptor, where):
    if where == "closed":
        os.close(descriptor)
        return None
    if where == "pipe":
        reads, writes = os.pipe()
        os.close(reads)
    else:
        writes = os.open(where, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    os.dup2(writes, descriptor)
    os.close(writes)
    return open(descriptor, "r" if descriptor == 0 else "w", closefd=False)

def end(argv):
    # As the interpreter ends, whose taking down of all modules would be most of the time.
    try:
        code = cli.main(argv)
    except SystemExit as asked:
        code = asked.code
    except BaseException:
        traceback.print_exc()
        code = 1
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            code = 120
    return code

codes = []
for argv, places in json.loads(sys.argv[1]):
    pid = os.fork()
    if pid == 0:
        for number, name in enumerate(("stdin", "stdout", "stderr")):
            setattr(sys, name, begin(number, places[number]))
        os._exit(end(argv))
    codes.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
print(json.dumps(codes))
"""

POLICY = Path(__file__).parent.parent / "importing" / "policies" / "hmsdk.yaml"
SIMULATED = "--simulate --for 0s --config {tmp}/quiet.yaml"
WORDS = {
    "run": f"run {SIMULATED}",
    "observe": f"observe {SIMULATED}",
    "plan": "plan --root {tmp}/root",
    "tiers": "tiers --root {tmp}/root",
    "check": "check {tmp}/quiet.yaml",
    "import": f"import {POLICY}",
    "doctor": "doctor --root {tmp}/root",
    "status": "status",
    "events": "events",
    "history": "history --since 1d --json",
    "top": "top --root {tmp}/root --config {tmp}/quiet.yaml",
    "why": "why 0",
    "reload": "reload",
    "pause": "pause",
    "resume": "resume",
    "restore": "restore --print",
    "print": "print config",
    # These work for seconds or hours. What they print goes the same way as that of the others.
    "record": "record --help",
    "simulate": "simulate --help",
    "report": "report --help",
    # Not verbs. A library prints them.
    "--help": "--help",
    "status --help": "status --help",
    "--version": "--version",
}


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    err: str


# Where stdin, stdout and stderr lead: a file, closed, or a pipe that nobody reads. For an empty
# stderr, a file is made and read afterwards.
HEALTHY = ("/dev/null", "/dev/null", "")
WAYS = {
    "healthy": HEALTHY,
    "full stdout": ("/dev/null", "/dev/full", ""),
    "closed stdout": ("/dev/null", "closed", ""),
    "pipe stdout": ("/dev/null", "pipe", ""),
    "full stderr": ("/dev/null", "/dev/null", "/dev/full"),
    "closed stderr": ("/dev/null", "/dev/null", "closed"),
    "pipe stderr": ("/dev/null", "/dev/null", "pipe"),
    "closed stdin": ("closed", "/dev/null", ""),
}

Results = dict[str, dict[str, Ended]]


def cases(folder: Path) -> Iterator[tuple[str, str, list[str], tuple[str, str, str]]]:
    """Yield each way with each command: its words, and where its descriptors lead."""
    for way, (stdin, stdout, stderr) in WAYS.items():
        for number, (name, words) in enumerate(WORDS.items()):
            # A daemon needs its own directories, because only one can use them.
            starts = words.startswith(("run", "observe"))
            run = folder / f"run{number}" if starts else folder
            argv = words.format(tmp=folder).split()
            argv += [] if argv[-1].startswith("--h") else ["--run-dir", str(run)]
            yield way, name, argv, (stdin, stdout, stderr or str(folder / f"{way}-{number}"))


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Return how each command ended in each way, with a machine, a daemon and its files."""
    folder = tmp_path_factory.mktemp("shell")
    machines.unpack(machines.load("two-tier-7.2").sysfs, folder / "root")
    (folder / "quiet.yaml").write_text("metrics: {address: off}\n")
    kept = Chronicle(RunDir(folder, folder))
    kept.happened(EventStatus(1.0, "running", "started"))
    texts = {
        "/v1/status": json.dumps(document(FRESH)),
        "/v1/recent": json.dumps({"looks": [look(FRESH)]}),
    }

    def post(event: Event) -> bool:
        event.reply(Answer(0, "done"))
        return True

    listed = list(cases(folder))
    server = api.serve(folder / "api.sock", Sources(texts.get, post))
    try:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, json.dumps([case[2:] for case in listed])],
            capture_output=True,
            text=True,
            check=True,
            timeout=600,
        )
    finally:
        server.stop()
    ended: Results = {way: {} for way in WAYS}
    for (way, name, _, places), code in zip(listed, json.loads(done.stdout), strict=True):
        err = "" if WAYS[way][2] else Path(places[2]).read_text()
        ended[way][name] = Ended(code, err)
    return ended


def test_every_verb_is_among_them() -> None:
    assert WORDS.keys() >= VERBS.keys()


@pytest.mark.parametrize(
    ("way", "why"),
    [("full stdout", "No space left on device"), ("closed stdout", "Bad file descriptor")],
)
def test_what_cannot_be_printed_is_a_sentence(way: str, why: str, results: Results) -> None:
    for name, ended in results[way].items():
        assert (name, ended.code) == (name, ExitCode.failed)
        assert f"cannot print to standard output: {why}" in ended.err, name


def test_a_pipe_that_nobody_reads_is_no_failure(results: Results) -> None:
    for name, ended in results["pipe stdout"].items():
        assert ended.code == ExitCode.ok, name


@pytest.mark.parametrize("way", ["full stderr", "closed stderr", "pipe stderr", "closed stdin"])
def test_the_exit_code_is_as_if_all_were_well(way: str, results: Results) -> None:
    assert {name: one.code for name, one in results[way].items()} == {
        name: one.code for name, one in results["healthy"].items()
    }


@pytest.mark.parametrize("way", WAYS)
def test_nothing_is_ever_said_in_python(way: str, results: Results) -> None:
    for name, ended in results[way].items():
        assert "Traceback" not in ended.err, name
        assert "Exception ignored" not in ended.err, name


def test_where_all_is_well_all_goes_well(results: Results) -> None:
    bad = {name for name, ended in results["healthy"].items() if ended.code != ExitCode.ok}
    assert not bad
