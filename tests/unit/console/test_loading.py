"""Which modules each command loads.

Loading takes most of a command's time. Unlike that time, the modules are the same on every machine.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fixtures import machines
from tests.fixtures.snapshots import FRESH, SNAPSHOT
from tierd.record.chronicle import Chronicle
from tierd.record.rundir import RunDir
from tierd.record.snapshot import document
from tierd.serving import api
from tierd.serving.api import Sources

POLICY = Path(__file__).parent.parent / "importing" / "policies" / "hmsdk.yaml"

# Runs a command, and prints the modules that it has loaded.
PROGRAM = """
import io, sys
before = set(sys.modules)
from tierd import cli
said, sys.stdout = sys.stdout, io.StringIO()
code = cli.main(sys.argv[1:])
print(code, *sorted(set(sys.modules) - before), file=said)
"""

# Modules that every command loads, also `status` and `print`.
CORE = {
    "tierd",
    "tierd.cli",
    "tierd.console",
    "tierd.console.arguments",
    "tierd.console.commands",
    "tierd.console.directories",
    "tierd.console.heat_options",
    "tierd.console.options",
    "tierd.console.shipped",
    "tierd.errors",
    "tierd.record",
    "tierd.record.rundir",
    "tierd.serving",
    "tierd.serving.client",
    "tierd.units",
    "tierd.views",
    "tierd.views.terminal",
    "tierd.views.visible",
}
STATUS = CORE | {
    "tierd.record.sensed",
    "tierd.views.groupview",
    "tierd.views.render",
    "tierd.views.statusview",
}
LOOKING_BACK = STATUS - {"tierd.views.groupview", "tierd.views.statusview"} | {
    "tierd.console.events_and_history",
    "tierd.frozen",
    "tierd.record.bookkeeping",
    "tierd.record.chronicle",
    "tierd.record.fields",
    "tierd.record.ring",
    "tierd.record.snapshot",
    "tierd.views.history",
    "tierd.views.picture",
    "tierd.views.plots",
}

# Modules of the standard library. Each takes as long to load as a quarter of what `status` needs of
# tierd.
SLOW = {
    "asyncio",
    "dataclasses",
    "datetime",
    "decimal",
    "fractions",
    "http",
    "inspect",
    "logging",
    "shutil",
    "subprocess",
}
# Modules that only the daemon needs.
DAEMONS = {
    "http",
    "prometheus_client",
    "tierd.kdamonds.apply",
    "tierd.loop.daemon",
    "tierd.loop.steering",
    "tierd.loop.service",
    "tierd.serving.api",
    "tierd.serving.metrics",
    "tierd.serving.webserver",
    "tierd.sim",
    "tierd.tuner.demand",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a machine, and with files of a healthy daemon."""
    machines.unpack(machines.load("two-tier-7.2").sysfs, tmp_path / "root")
    Chronicle(RunDir(tmp_path, tmp_path)).saw(SNAPSHOT)
    return tmp_path


def loaded(folder: Path, words: str) -> set[str]:
    """Return the modules that the command has loaded at its end."""
    places = f"--root {folder}/root --run-dir {folder} --state-dir {folder}"
    look = {"/v1/status": document(FRESH), "/v1/recent": {"looks": [document(SNAPSHOT)]}}
    server = api.serve(
        folder / "api.sock",
        Sources({path: json.dumps(what) for path, what in look.items()}.get, lambda _event: False),
    )
    try:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, *words.split(), *places.split()],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
    finally:
        server.stop()
    code, *modules = done.stdout.split()
    assert code == "0", done
    return set(modules)


def ours(modules: set[str]) -> set[str]:
    return {module for module in modules if module.partition(".")[0] == "tierd"}


def strangers(modules: set[str]) -> set[str]:
    """Return modules that are neither tierd's nor Python's nor Cython's."""
    tops = {module.partition(".")[0] for module in modules}
    return {
        top
        for top in tops - {"tierd"} - sys.stdlib_module_names
        if not top.startswith(("_cython", "cython"))
    }


WHY = {"tierd.views.whyview", "tierd.views.bars_view", "tierd.views.plots"}


@pytest.mark.parametrize(
    ("words", "modules"),
    [("status", STATUS), ("why 0", STATUS | WHY), ("print unit", CORE)],
)
def test_who_asks_the_daemon_loads_next_to_nothing(
    folder: Path, words: str, modules: set[str]
) -> None:
    found = loaded(folder, words)
    assert ours(found) == modules
    assert not strangers(found)
    assert not found & SLOW


@pytest.mark.parametrize("words", ["events", "history", "history --json"])
def test_who_looks_back_loads_what_reads_and_draws(folder: Path, words: str) -> None:
    found = loaded(folder, words)
    assert ours(found) == LOOKING_BACK
    assert not strangers(found)


def test_who_imports_a_policy_loads_no_daemon(folder: Path) -> None:
    found = loaded(folder, f"import {POLICY}")
    assert not found & (DAEMONS | {"tierd.policy", "tierd.kdamonds"})
    assert strangers(found) <= {"yaml", "_yaml"}


@pytest.mark.parametrize("words", ["tiers", "plan", "plan --writes", "doctor", "check"])
def test_who_looks_at_the_machine_loads_no_daemon(folder: Path, words: str) -> None:
    (folder / "tierd.yaml").write_text("headroom: 10%\n")
    config = f"{folder}/tierd.yaml"
    named = f"check {config}" if words == "check" else f"{words} --config {config}"
    found = loaded(folder, named)
    assert not found & DAEMONS
    assert strangers(found) <= {"yaml", "_yaml"}
