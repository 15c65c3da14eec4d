"""What a check is, and what it can find."""

from collections.abc import Callable
from enum import StrEnum
from typing import TypeVar

from tierd.doctor.facts import Facts, Unreadable
from tierd.errors import ExitCode
from tierd.frozen import dataclass

T = TypeVar("T")


class Verdict(StrEnum):
    """The result of a check."""

    ok = "ok"
    warn = "warn"
    """tierd runs, but works less well, or somebody else interferes."""
    fail = "fail"
    """tierd cannot work here until this is fixed."""
    skip = "skip"
    """It could not be checked, or does not apply here."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a check found on one machine: the verdict, the reason for it, and what to do."""

    verdict: Verdict
    evidence: str
    fix: str = ""


def ok(evidence: str) -> Outcome:
    return Outcome(Verdict.ok, evidence)


def warn(evidence: str, fix: str) -> Outcome:
    return Outcome(Verdict.warn, evidence, fix)


def fail(evidence: str, fix: str) -> Outcome:
    return Outcome(Verdict.fail, evidence, fix)


def skip(evidence: str, fix: str = "") -> Outcome:
    return Outcome(Verdict.skip, evidence, fix)


class NotReadable(Exception):
    """A fact that a check needs could not be read."""

    def __init__(self, hidden: Unreadable) -> None:
        super().__init__(hidden.why)
        self.hidden = hidden


def needed(value: T | Unreadable) -> T:
    """Return the fact. If it could not be read, raise NotReadable: then the check is skipped."""
    if isinstance(value, Unreadable):
        raise NotReadable(value)
    return value


@dataclass(frozen=True, slots=True)
class Check:
    """One check of the doctor. `id` never changes, and no other check ever gets it."""

    id: str
    name: str
    """One or two words."""
    asks: str
    """The question that the check answers."""
    why: str
    """Why it matters and what to do, for docs/doctor.md."""
    judge: Callable[[Facts], Outcome]
    exit_code: ExitCode = ExitCode.failed
    """The exit code of `tierd doctor` if this check is the first to fail."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A check and what it found."""

    check: Check
    outcome: Outcome

    @property
    def verdict(self) -> Verdict:
        return self.outcome.verdict


def run_check(check: Check, facts: Facts) -> Finding:
    """Run one check; it is skipped if a fact that it needs could not be read."""
    try:
        return Finding(check, check.judge(facts))
    except NotReadable as missing:
        hint = missing.hidden.hint if facts.is_root else "run `sudo tierd doctor`"
        return Finding(check, skip(missing.hidden.why, hint))
