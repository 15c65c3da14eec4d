"""Rules for all tests: they never write to this kernel, and VM tests need a VM."""

import logging
import os
import subprocess
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import settings

from tests import rotation
from tests.vm import cache, emulator, guard, guest, kernels, rootfs
from tests.vm.errors import VmError

# pytester tests this file.
pytest_plugins = ("pytester",)

# If this is 1, a missing virtual machine is a failure and not a skip.
REQUIRE_VARIABLE = "TIERD_REQUIRE_VM"

# Seconds for a test of five minutes on a busy machine, while another test has the VM.
VM_TEST_S_MAX = 1800

ROOT = Path(__file__).parent.parent

# No test judges by the clock, so an example may take long. Examples are the same in each run, so
# that a change is not blamed for a fault that a new example finds. `pytest
# --hypothesis-profile=search` looks for new ones.
settings.register_profile("tierd", deadline=None, derandomize=True)
settings.register_profile("search", deadline=None, max_examples=2000)
settings.load_profile("tierd")

# The value of `--turn` for the turn after the last one on this machine.
NEXT_TURN = "next"

LACKING = pytest.StashKey[str | None]()
LOST = pytest.StashKey[list[str]]()


@dataclass(frozen=True, slots=True)
class Turn:
    """The rare tests that this run makes."""

    number: int
    count: int
    groups: tuple[str, ...]


TURN = pytest.StashKey[Turn]()


class Kept(logging.Handler):
    """Keeps the messages of a logger."""

    def __init__(self, into: list[str]) -> None:
        super().__init__(logging.WARNING)
        self.into = into

    def emit(self, record: logging.LogRecord) -> None:
        self.into.append(record.getMessage())


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--turn",
        metavar="NUMBER",
        help=f"of the rare tests, only those of this turn; `{NEXT_TURN}`: after the last made here",
    )


def pytest_configure(config: pytest.Config) -> None:
    guard.watch()
    # Programs that tests start are watched too.
    places = [str(ROOT), str(ROOT / "tests/vm/watched"), os.environ.get("PYTHONPATH")]
    os.environ["PYTHONPATH"] = os.pathsep.join(place for place in places if place)
    config.stash[LOST] = []
    logging.getLogger(guest.__name__).addHandler(Kept(config.stash[LOST]))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.option.turn is not None:
        take_turn(config, items)
    for item in items:
        if item.get_closest_marker("vm") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(VM_TEST_S_MAX))


def take_turn(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the rare tests of other turns."""
    rare = {item: rotation.group(item.nodeid) for item in items if item.get_closest_marker("rare")}
    turns = rotation.turns(rare.values())
    if not turns:
        return
    wanted: str = config.option.turn
    if wanted != NEXT_TURN and not (wanted.isdecimal() and 1 <= int(wanted) <= len(turns)):
        raise pytest.UsageError(f"--turn={wanted}: there are 1 to {len(turns)}, and {NEXT_TURN}")
    number = (
        rotation.following(last_turn(), commit(), len(turns))
        if wanted == NEXT_TURN
        else int(wanted)
    )
    turn = Turn(number, len(turns), turns[number - 1])
    config.stash[TURN] = turn
    left_out = [item for item, group in rare.items() if group not in turn.groups]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if rare.get(item, turn.groups[0]) in turn.groups]


def turn_file() -> Path:
    return cache.place() / "turn"


def last_turn() -> int | None:
    """Return the number of the last turn that passed here."""
    try:
        text = turn_file().read_text().strip()
    except FileNotFoundError:
        return None
    return int(text) if text.isdecimal() else None


def commit() -> str | None:
    """Return the commit of the checkout, or None in a source archive."""
    try:
        done = subprocess.run(
            ["git", "-C", str(ROOT), "rev-parse", "HEAD"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    except FileNotFoundError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Save the number of the turn if all tests passed. If not, the next run repeats it."""
    turn = session.config.stash.get(TURN, None)
    if turn and exitstatus == pytest.ExitCode.OK and not session.config.option.collectonly:
        cache.folder()
        turn_file().write_text(f"{turn.number}\n")


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable() -> Generator[None, object, object]:
    """Escape what is not UTF-8, such as logged file names. Processes exchange reports as UTF-8."""
    return encodable((yield))


def encodable(found: object) -> object:
    """Return the same object, with text that UTF-8 cannot encode escaped."""
    if isinstance(found, str):
        return found.encode(errors="backslashreplace").decode()
    if isinstance(found, dict):
        return {key: encodable(value) for key, value in found.items()}
    if isinstance(found, list | tuple):
        return type(found)(encodable(value) for value in found)
    return found


def pytest_runtestloop(session: pytest.Session) -> None:
    """Fetch kernels before the first test, because no test's bound should count that."""
    wanted = any(item.get_closest_marker("vm") for item in session.items)
    if not wanted or session.config.option.collectonly:
        return
    reporter = session.config.pluginmanager.getplugin("terminalreporter")
    if reporter is not None:
        reporter.write_line(
            f"virtual machines come from {cache.place()}; to fill it takes some minutes"
        )
    session.config.stash[LACKING] = lacking()


def lacking() -> str | None:
    """Return why there are no virtual machines here, or None."""
    try:
        emulator.get()
        rootfs.get()
        for series in kernels.SERIES:
            kernels.get(series)
    except VmError as error:
        return f"no virtual machine: {error}"
    return None


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip VM tests without a VM. From here, all skips are reported in a single line."""
    reason = item.config.stash.get(LACKING, None)
    if reason and item.get_closest_marker("vm"):
        if os.environ.get(REQUIRE_VARIABLE) == "1":
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)


@pytest.fixture
def losses_expected(pytestconfig: pytest.Config) -> Iterator[None]:
    """Leave guests that a test loses on purpose out of the summary."""
    lost = pytestconfig.stash[LOST]
    before = len(lost)
    yield
    del lost[before:]


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Report lost guests, which fail no test, and the turn of this run."""
    lost = config.stash[LOST]
    if lost:
        terminalreporter.section(f"{len(lost)} guests lost")
        for message in lost:
            terminalreporter.line(message)
    turn = config.stash.get(TURN, None)
    if turn:
        for line in rotation.told(turn.groups, turn.number, turn.count):
            terminalreporter.line(line)
