"""The documents name everything that a user can meet, and their links work."""

import ast
import re
from pathlib import Path

import pytest

from tests.test_tidy import ROOT
from tierd.console import commands
from tierd.doctor import doctor
from tierd.errors import ExitCode
from tierd.record.snapshot import State
from tierd.serving.api import COMMANDS as VERBS

PAGES = (*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md")))
CONSTANTS = (ROOT / "docs/constants.md").read_text(encoding="utf-8")
OPERATIONS = (ROOT / "docs/operations.md").read_text(encoding="utf-8")

_LINK = re.compile(r"\]\(([^)#\s]*)(#[^)\s]*)?\)")


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_links_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for target, anchor in _LINK.findall(text):
        if target.startswith(("http:", "https:", "mailto:")):
            continue
        there = page.parent / target if target else page
        assert there.exists(), f"{page.name}: {target}"
        if anchor and there.suffix == ".md":
            assert anchor[1:] in _anchors(there), f"{page.name}: {target}{anchor}"


def _anchors(page: Path) -> set[str]:
    text = page.read_text(encoding="utf-8")
    heads = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    slugs = {re.sub(r"[^\w -]", "", head).strip().lower().replace(" ", "-") for head in heads}
    return slugs | set(re.findall(r'<a id="([^"]+)"', text))


def events() -> set[str]:
    """Return the names of all events of the loop and of commands."""
    told = {
        call.args[2].value
        for path in (ROOT / "tierd/loop").glob("*.py")
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call)
        and ast.unparse(call.func) in ("say", "force.say")
        and len(call.args) > 2
        and isinstance(call.args[2], ast.Constant)
    }
    assert {"running", "degraded", "kdamond_died"} <= told
    verbs = {str(verb) for verb in VERBS.values()}
    return {str(event) for event in told} | verbs | {f"{verb}_failed" for verb in verbs}


@pytest.mark.parametrize("event", sorted(events()))
def test_every_event_is_explained(event: str) -> None:
    assert f"`{event}`" in OPERATIONS


@pytest.mark.parametrize("state", list(State))
def test_every_state_is_explained(state: State) -> None:
    assert f"| `{state}` |" in OPERATIONS


@pytest.mark.parametrize("code", list(ExitCode))
def test_every_exit_code_is_explained(code: ExitCode) -> None:
    assert f"| {int(code)} |" in OPERATIONS


@pytest.mark.parametrize("verb", commands.COMMANDS)
def test_every_command_is_in_the_readme(verb: str) -> None:
    assert f"tierd {verb}" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_checks_that_operations_names_exist() -> None:
    assert set(re.findall(r"TD\d+", OPERATIONS)) <= {check.id for check in doctor.CHECKS}


def assigned(path: Path) -> dict[str, ast.expr]:
    """Return the constants of a module, with their values."""
    return {
        node.targets[0].id: node.value
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and node.targets[0].id.isupper()
    }


def numbers(path: Path) -> set[str]:
    """Return the names of a module's public constants that have a number in their value."""
    return {
        name
        for name, value in assigned(path).items()
        if not name.startswith("_")
        and any(
            isinstance(part, ast.Constant) and type(part.value) in (int, float)
            for part in ast.walk(value)
        )
    }


def listed() -> set[tuple[str, str]]:
    """Return the file and the name of each constant that constants.md gives a reason for."""
    found = set()
    for line in CONSTANTS.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == len(COLUMNS) and line.startswith("| `"):
            assert all(cells), f"an empty cell: {line}"
            names, paths = (re.findall(r"`([\w/.]+)`", cell) for cell in cells[:2])
            found |= {(path, name) for path in paths for name in names}
    return found


COLUMNS = ("constant", "file", "value", "why", "kernel", "evidence")

# Constants that are no decision: a format of the kernel, of systemd or of C determines them.
FORMATS = {
    "machine": {
        *("NETLINK_KOBJECT_UEVENT", "KERNEL_GROUP", "NICE_AFTER_NAME", "UTIME_AFTER_NAME"),
        *("MADV_HUGEPAGE", "MAP_FAILED", "MAP_PRIVATE_ANONYMOUS", "PROT_READ_WRITE", "CALLS"),
    },
    "doctor": {"MIB"},
    "tuner": {"EVERYTHING", "RESET"},
    "plans": {
        *("UINT_MAX", "ULONG_MAX", "MB", "UNTUNED", "IN_ORDER"),
        # The scale of a goal's values, and its inputs (throttle.py has the kernel's formula).
        *("TARGET", "GROWING_INPUT", "OPEN_INPUT", "CLOSED_INPUT"),
    },
    "loop": {"STDERR", "PRIORITIES", "MODE", "WHOLE"},
    "feedback.py": set[str](),
}


@pytest.mark.parametrize("part", FORMATS)
def test_every_constant_has_a_reason(part: str) -> None:
    place = ROOT / "tierd" / part
    paths = sorted(place.rglob("*.py")) if place.is_dir() else [place]
    found = {(str(path.relative_to(ROOT)), name) for path in paths for name in numbers(path)}
    assert found
    assert FORMATS[part] <= {name for _, name in found}, "an exception that is not needed"
    asked = {(path, name) for path, name in found if name not in FORMATS[part]}
    missing = sorted(asked - listed())
    assert not missing, "docs/constants.md has no row for these"


def test_every_row_is_of_a_constant() -> None:
    rows = listed()
    assert rows
    there = {(path, name) for path, _ in rows for name in assigned(ROOT / path)}
    gone = sorted(rows - there)
    assert not gone, "no such constant in this file"
