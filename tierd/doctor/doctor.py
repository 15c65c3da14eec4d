"""`tierd doctor`: the checks, what they say of a machine as words and document, and their page."""

import textwrap
from typing import TypedDict

from tierd.doctor.facts import Facts
from tierd.doctor.findings import Check, Finding, Verdict, ask
from tierd.doctor.machine_checks import CHECKS as MACHINE_CHECKS
from tierd.doctor.neighbour_checks import CHECKS as NEIGHBOUR_CHECKS
from tierd.errors import ExitCode

SCHEMA = "tierd.doctor/1"

# What must be mended first comes first.
CHECKS: tuple[Check, ...] = (*MACHINE_CHECKS, *NEIGHBOUR_CHECKS)

PAGE = "docs/doctor.md"
COLUMNS = 100
_INDENT = " " * 8


def examine(facts: Facts) -> tuple[Finding, ...]:
    """Every finding, in the order of the checks."""
    return tuple(ask(check, facts) for check in CHECKS)


def cause(findings: tuple[Finding, ...]) -> Finding | None:
    """What to mend first: the first failure, else the first warning."""
    for verdict in (Verdict.fail, Verdict.warn):
        for finding in findings:
            if finding.verdict is verdict:
                return finding
    return None


def exit_code(findings: tuple[Finding, ...]) -> ExitCode:
    """That of the first failure; warnings are no failure."""
    first = cause(findings)
    return first.check.exit_code if first and first.verdict is Verdict.fail else ExitCode.ok


def as_text(findings: tuple[Finding, ...]) -> str:
    """The verdict, then a line for each check, and its fix below where there is one."""
    width = max(len(finding.check.name) for finding in findings)
    lines = [_summary(findings), ""]
    for finding in findings:
        check, judged = finding.check, finding.judged
        head = f"{judged.verdict:<4}  {check.id}  {check.name.ljust(width)}  "
        lines += textwrap.wrap(
            head + judged.evidence,
            COLUMNS,
            subsequent_indent=" " * len(head),
            break_long_words=False,
        )
        if judged.fix and judged.verdict is not Verdict.ok:
            lines += textwrap.wrap(
                f"fix: {judged.fix}",
                COLUMNS,
                initial_indent=_INDENT,
                subsequent_indent=_INDENT + " " * 5,
                break_long_words=False,
            )
    return "\n".join([*lines, "", f"Each check is explained in {PAGE}."])


def _summary(findings: tuple[Finding, ...]) -> str:
    counts = {v: sum(finding.verdict is v for finding in findings) for v in Verdict}
    told = ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)
    first = cause(findings)
    if first is None:
        return f"tierd can run here ({told})"
    can = "cannot" if first.verdict is Verdict.fail else "can"
    return f"tierd {can} run here ({told}); first: {first.check.id} {first.judged.evidence}"


class CheckDocument(TypedDict):
    """A check and what it said of this machine."""

    id: str
    """Never changes, and is never given to another check."""
    name: str
    verdict: Verdict
    evidence: str
    """What the verdict rests on, in a sentence."""
    fix: str
    """What to do; empty where there is nothing to do."""
    page: str
    """Where the check is explained."""


class Document(TypedDict):
    """Every precondition, as `tierd doctor --json` tells it."""

    schema: str
    can_run: bool
    """Whether no check failed."""
    cause: str | None
    """The id of what to mend first: the first failure, else the first warning."""
    checks: list[CheckDocument]


def as_document(findings: tuple[Finding, ...]) -> Document:
    """`tierd doctor --json`."""
    first = cause(findings)
    return {
        "schema": SCHEMA,
        "can_run": first is None or first.verdict is not Verdict.fail,
        "cause": first.check.id if first else None,
        "checks": [
            {
                "id": finding.check.id,
                "name": finding.check.name,
                "verdict": finding.verdict,
                "evidence": finding.judged.evidence,
                "fix": finding.judged.fix,
                "page": f"{PAGE}#{finding.check.id.lower()}",
            }
            for finding in findings
        ],
    }


def page() -> str:
    """docs/doctor.md."""
    parts = [_INTRO]
    for check in CHECKS:
        heading = f'## <a id="{check.id.lower()}"></a>{check.id} {check.name}'
        code = (
            f"\n\nWhere this fails, `tierd doctor` exits with {int(check.exit_code)}."
            if check.exit_code is not ExitCode.failed
            else ""
        )
        asked = textwrap.fill(f"*{check.asks}* {check.why}", COLUMNS, break_on_hyphens=False)
        parts.append(f"{heading}\n\n{asked}{code}\n")
    return "\n".join(parts)


_INTRO = """\
# What the doctor checks

This file is made from the checks themselves by `tools/write_doctor_docs.py`.

`tierd doctor` looks at everything that decides whether tierd works well on a machine. It writes
nothing, and works without root, though root sees more. Each check says what it rests on and what
to do:

| verdict | meaning |
|---|---|
| ok | as it should be |
| warn | tierd runs, but something is lost, or somebody else interferes |
| fail | tierd cannot do its job until this is mended; the exit code is that of the first |
| skip | not to be seen without root, or it does not apply |

The first line names what to mend first: the checks stand in the order of cause and effect.
`--json` is for programs. `--bundle FILE` writes a report for a bug tracker: the findings, the plan,
and the files that tierd read, without names of programs, hosts or cgroups. A maintainer can lay
the files out and run `tierd plan --root` on your machine as tierd saw it.
"""
