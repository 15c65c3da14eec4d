"""What holds for every test: the machine's kernel is not theirs, and a VM is there or it is not."""

import logging
import os
from pathlib import Path

import pytest
from hypothesis import settings

from tests.vm import cache, emulator, guard, guest, kernels, rootfs
from tests.vm.errors import VmError

# With this set to 1 a virtual machine that cannot be had is a failure, not a skip.
REQUIRE_VARIABLE = "TIERD_REQUIRE_VM"

# Five minutes of work, when the machine is busy and another test has the virtual machine.
VM_TEST_S_MAX = 1800

ROOT = Path(__file__).parent.parent

# No test judges by the clock, so an example may take as long as a busy machine makes it. The same
# examples each time: what a new one finds is no fault of whoever runs the tests then. New ones are
# looked for by hand: `pytest --hypothesis-profile=search`.
settings.register_profile("tierd", deadline=None, derandomize=True)
settings.register_profile("search", deadline=None, max_examples=2000)
settings.load_profile("tierd")
LACKING = pytest.StashKey[str | None]()
LOST = pytest.StashKey[list[str]]()


class Kept(logging.Handler):
    """Keeps the messages of a logger."""

    def __init__(self, into: list[str]) -> None:
        super().__init__(logging.WARNING)
        self.into = into

    def emit(self, record: logging.LogRecord) -> None:
        self.into.append(record.getMessage())


def pytest_configure(config: pytest.Config) -> None:
    guard.watch()
    # Programs that tests start are watched too.
    places = [str(ROOT), str(ROOT / "tests/vm/watched"), os.environ.get("PYTHONPATH")]
    os.environ["PYTHONPATH"] = os.pathsep.join(place for place in places if place)
    config.stash[LOST] = []
    logging.getLogger(guest.__name__).addHandler(Kept(config.stash[LOST]))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("vm") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(VM_TEST_S_MAX))


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
    """Why there are no virtual machines here, or None."""
    try:
        emulator.get()
        rootfs.get()
        for series in kernels.SERIES:
            kernels.get(series)
    except VmError as error:
        return f"no virtual machine: {error}"
    return None


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Here, and not in a fixture, because all skips from one line are told in one line."""
    reason = item.config.stash.get(LACKING, None)
    if reason and item.get_closest_marker("vm"):
        if os.environ.get(REQUIRE_VARIABLE) == "1":
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Guests that were lost and booted again do not fail a test, but they are told."""
    lost = config.stash[LOST]
    if lost:
        terminalreporter.section(f"{len(lost)} guests lost")
        for message in lost:
            terminalreporter.line(message)
