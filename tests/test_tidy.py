"""The rules of the house that no linter knows: who may do IO, and how long things may grow."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

# Modules that decide. They may import only what cannot do IO: the first set from the standard
# library, the second from tierd, of which topology and config are used for their frozen types.
PURE = {
    "counters.py",
    "doctor.py",
    "findings.py",
    "outlook.py",
    "plots.py",
    "screen.py",
    "sensed.py",
    "machine_checks.py",
    "neighbour_checks.py",
    "errors.py",
    "units.py",
    "damo_format.py",
    "damon.py",
    "plan.py",
    "policy.py",
    "safety.py",
    "saved.py",
    "scope.py",
    "average.py",
    "benefit.py",
    "demand.py",
    "reading.py",
    "sensors.py",
    "feedback.py",
    "throttle.py",
    "tuners.py",
    "metrics.py",
    "override.py",
    "ranges.py",
    "snapshot.py",
    "supervise.py",
    "tally.py",
    "topology.py",
    "zoneinfo.py",
    "sim/law.py",
    "sim/spec.py",
}
PURE_IMPORTS = {
    "bisect",
    "collections",
    "dataclasses",
    "difflib",
    "enum",
    "fractions",
    "functools",
    "hashlib",
    "itertools",
    "json",
    "math",
    "re",
    "textwrap",
    "typing",
}
PURE_LOCAL = {
    "tierd.average",
    "tierd.benefit",
    "tierd.config",
    "tierd.cputime",
    "tierd.damon",
    "tierd.demand",
    "tierd.errors",
    "tierd.facts",
    "tierd.findings",
    "tierd.machine_checks",
    "tierd.neighbour_checks",
    "tierd.neighbours",
    "tierd.observe",
    "tierd.outlook",
    "tierd.override",
    "tierd.ownership",
    "tierd.plan",
    "tierd.plots",
    "tierd.policy",
    "tierd.processes",
    "tierd.ranges",
    "tierd.reading",
    "tierd.render",
    "tierd.safety",
    "tierd.scope",
    "tierd.sensed",
    "tierd.sensors",
    "tierd.sim.law",
    "tierd.sim.spec",
    "tierd.snapshot",
    "tierd.statusview",
    "tierd.sysctls",
    "tierd.tally",
    "tierd.throttle",
    "tierd.topology",
    "tierd.tuners",
    "tierd.units",
}

FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 500

# The programs that ship beside the library may know the simulated kernel; the library may not.
MAY_IMPORT_SIM = {"commands.py"}


def modules(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def name_of(path: Path) -> str:
    return path.relative_to(ROOT / "tierd").as_posix()


def imports(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            # `from tierd import x` imports the module x.
            yield from (
                (f"tierd.{alias.name}" for alias in node.names)
                if node.module == "tierd"
                else (node.module or "",)
            )


def too_long(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > FUNCTION_LINES_MAX:
                yield f"{node.name}: {lines} lines"


PURE_MODULES = [path for path in modules("tierd") if name_of(path) in PURE]


def test_there_are_pure_modules() -> None:
    assert PURE_MODULES, "the list of pure modules matches no file"


@pytest.mark.parametrize("path", PURE_MODULES, ids=name_of)
def test_pure_modules_import_nothing_that_does_io(path: Path) -> None:
    found = set(imports(ast.parse(path.read_text())))
    bad = {n for n in found if n.split(".")[0] not in PURE_IMPORTS and n not in PURE_LOCAL}
    assert not bad, f"{path.name} is pure but imports {sorted(bad)}"


@pytest.mark.parametrize("path", modules("tierd"), ids=name_of)
def test_the_daemon_does_not_know_the_simulation(path: Path) -> None:
    if name_of(path).startswith("sim/") or name_of(path) in MAY_IMPORT_SIM:
        return
    bad = [n for n in imports(ast.parse(path.read_text())) if n.startswith("tierd.sim")]
    assert not bad, f"{name_of(path)} imports {bad}"


@pytest.mark.parametrize(
    "path", modules("tierd", "tests"), ids=lambda path: path.relative_to(ROOT).as_posix()
)
def test_functions_and_files_fit_in_a_head(path: Path) -> None:
    text = path.read_text()
    assert not list(too_long(ast.parse(text)))
    assert text.count("\n") <= FILE_LINES_MAX, "split it by noun"


@pytest.mark.parametrize("path", modules("tierd"), ids=name_of)
def test_every_module_says_what_it_is_for(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text())), f"{name_of(path)} has no docstring"
