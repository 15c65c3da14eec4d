"""`tierd doctor`: runs the checks, and prints findings as text, JSON and docs/doctor.md."""

import textwrap
from typing import TypedDict

from tierd.doctor.facts import Facts
from tierd.doctor.findings import Check, Finding, Verdict, run_check
from tierd.doctor.machine_checks import CHECKS as MACHINE_CHECKS
from tierd.doctor.memory_checks import CHECKS as MEMORY_CHECKS
from tierd.doctor.neighbour_checks import CHECKS as NEIGHBOUR_CHECKS
from tierd.doctor.processor_checks import CHECKS as PROCESSOR_CHECKS
from tierd.doctor.speeds import SpeedDocument
from tierd.errors import ExitCode

SCHEMA = "tierd.doctor/1"

# In the order of cause and effect: fix the first problem first.
CHECKS: tuple[Check, ...] = (
    *MACHINE_CHECKS,
    *NEIGHBOUR_CHECKS,
    *MEMORY_CHECKS,
    *PROCESSOR_CHECKS,
)

PAGE = "docs/doctor.md"
# Characters per line in a report, which is read in windows of unknown width.
COLUMNS = 100
_INDENT = " " * 8


def examine(facts: Facts) -> tuple[Finding, ...]:
    """Return every finding, in the order of the checks."""
    return tuple(run_check(check, facts) for check in CHECKS)


def cause(findings: tuple[Finding, ...]) -> Finding | None:
    """Return the finding to fix first: the first failure, else the first warning."""
    for verdict in (Verdict.fail, Verdict.warn):
        for finding in findings:
            if finding.verdict is verdict:
                return finding
    return None


def exit_code(findings: tuple[Finding, ...]) -> ExitCode:
    """Return the exit code of the first failure; a warning is not a failure."""
    first = cause(findings)
    return first.check.exit_code if first and first.verdict is Verdict.fail else ExitCode.ok


def as_text(findings: tuple[Finding, ...], columns: int = COLUMNS) -> str:
    """Return the summary, then a line for each check, with its fix on the next line."""
    width = max(len(finding.check.name) for finding in findings)
    lines = [*textwrap.wrap(_summary(findings), columns, subsequent_indent="  "), ""]
    for finding in findings:
        check, outcome = finding.check, finding.outcome
        head = f"{outcome.verdict:<4}  {check.id}  {check.name.ljust(width)}  "
        lines += textwrap.wrap(
            head + outcome.evidence,
            columns,
            subsequent_indent=" " * len(head),
            break_long_words=False,
        )
        if outcome.fix and outcome.verdict is not Verdict.ok:
            lines += textwrap.wrap(
                f"fix: {outcome.fix}",
                columns,
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
    return f"tierd {can} run here ({told}); fix first: {first.check.id} {first.outcome.evidence}"


class CheckDocument(TypedDict):
    """A check and its finding on this machine."""

    id: str
    """Never changes, and is never given to another check."""
    name: str
    verdict: Verdict
    evidence: str
    """The reason for the verdict, in a sentence."""
    fix: str
    """What to do; empty if there is nothing to do."""
    page: str
    """The page that explains the check."""


class Document(TypedDict):
    """Every check, as `tierd doctor --json` prints it."""

    schema: str
    can_run: bool
    """True if no check failed."""
    cause: str | None
    """The id of the check to fix first: the first failure, else the first warning."""
    checks: list[CheckDocument]
    measured: list[SpeedDocument] | None
    """How fast each node is; null without `--measure`."""


def as_document(
    findings: tuple[Finding, ...], measured: list[SpeedDocument] | None = None
) -> Document:
    """Return the document that `tierd doctor --json` prints."""
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
                "evidence": finding.outcome.evidence,
                "fix": finding.outcome.fix,
                "page": f"{PAGE}#{finding.check.id.lower()}",
            }
            for finding in findings
        ],
        "measured": measured,
    }


def page() -> str:
    """Generate the text of docs/doctor.md from the checks."""
    parts = [_INTRO]
    for check in CHECKS:
        heading = f'## <a id="{check.id.lower()}"></a>{check.id} {check.name}'
        code = (
            f"\n\nIf this check is the first to fail, `tierd doctor` exits with "
            f"{int(check.exit_code)}."
            if check.exit_code is not ExitCode.failed
            else ""
        )
        asked = textwrap.fill(f"*{check.asks}* {check.why}", COLUMNS, break_on_hyphens=False)
        parts.append(f"{heading}\n\n{asked}{code}\n")
    return "\n".join(parts)


_INTRO = """\
# What the doctor checks

`tools/write_doctor_docs.py` makes this file from the checks.

`tierd doctor` checks whether tierd can work well on this machine. It changes nothing. It also works
without root, but then some checks are skipped. Each check gives a verdict, the reason for it, and
what to do:

| verdict | meaning |
|---|---|
| ok | nothing to do |
| warn | tierd runs, but works less well, or somebody else interferes |
| fail | tierd cannot work until this is fixed; the exit code is that of the first failure |
| skip | needs root, or does not apply here |

The first line names the problem to fix first. The checks are in the order of cause and effect.
`--measure` also measures how fast the memory of each node is, from the processors that are
nearest. It takes memory on each node for some seconds, and refuses a node that has no room for
it. Latency is that of one access after the other in random order, bandwidth that of all these
processors reading at once. Other programs make both look worse. The figures of firmware (HMAT)
stand beside them. If the ratios differ much, or the order of the tiers does not fit, a sentence
says so. If firmware does not tell a bandwidth, or tells it wrong, the last sentence has the line
for the configuration (`bandwidths`).

`--json` is for programs. `--bundle FILE` writes a report for a bug tracker. It holds the findings,
the plan, and the files that tierd read, without the names of programs, hosts and cgroups. With
these files a maintainer can run `tierd plan --root` on a copy of your machine as tierd saw it.
"""
