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


def numbers(path: Path) -> list[str]:
    """Return the names of a module's public constants that are a number or a bound."""
    return [
        node.targets[0].id
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and node.targets[0].id.isupper()
        and not node.targets[0].id.startswith("_")
        and isinstance(node.value, ast.Constant | ast.BinOp)
        and not isinstance(getattr(node.value, "value", None), str)
    ]


# Numbers that only the format of a kernel file determines.
FORMATS = {
    "MADV_HUGEPAGE",
    "MAP_PRIVATE_ANONYMOUS",
    "MPOL_BIND",
    "PROT_READ_WRITE",
    "MIB",
    "NETLINK_KOBJECT_UEVENT",
    "KERNEL_GROUP",
    "UTIME_AFTER_NAME",
}


@pytest.mark.parametrize("package", ["machine", "doctor"])
def test_every_bound_of_a_reader_has_a_reason(package: str) -> None:
    for path in sorted((ROOT / "tierd" / package).glob("*.py")):
        for name in sorted({*numbers(path)} - FORMATS):
            rows = [line for line in CONSTANTS.splitlines() if f"`{name}`" in line]
            assert any(f"`tierd/{package}/{path.name}`" in row for row in rows), (path.name, name)
