"""The shape of a check: what it asks, why that matters, and what it can say."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from tierd.doctor.facts import Facts, Hidden
from tierd.errors import ExitCode

T = TypeVar("T")


class Verdict(StrEnum):
    """How a check came out."""

    ok = "ok"
    warn = "warn"
    """tierd runs, but something is lost, or somebody else interferes."""
    fail = "fail"
    """tierd cannot do its job here until this is mended."""
    skip = "skip"
    """It could not be looked at, or does not apply here."""


@dataclass(frozen=True, slots=True)
class Judged:
    """What a check says of one machine: the verdict, what it rests on, what to do."""

    verdict: Verdict
    evidence: str
    fix: str = ""


def ok(evidence: str) -> Judged:
    return Judged(Verdict.ok, evidence)


def warn(evidence: str, fix: str) -> Judged:
    return Judged(Verdict.warn, evidence, fix)


def fail(evidence: str, fix: str) -> Judged:
    return Judged(Verdict.fail, evidence, fix)


def skip(evidence: str, fix: str = "") -> Judged:
    return Judged(Verdict.skip, evidence, fix)


class Unseen(Exception):
    """What a check judges could not be read."""

    def __init__(self, hidden: Hidden) -> None:
        super().__init__(hidden.why)
        self.hidden = hidden


def seen(value: T | Hidden) -> T:
    """A fact that a check cannot do without; where it could not be read, that is what it says."""
    if isinstance(value, Hidden):
        raise Unseen(value)
    return value


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the doctor's list. `id` never changes and is never given to another check."""

    id: str
    name: str
    """One or two words."""
    asks: str
    """The question, in a sentence."""
    why: str
    """Why it matters and what can be done, for docs/doctor.md."""
    judge: Callable[[Facts], Judged]
    exit_code: ExitCode = ExitCode.failed
    """Of `tierd doctor` where this check is the first to fail."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A check and what it said."""

    check: Check
    judged: Judged

    @property
    def verdict(self) -> Verdict:
        return self.judged.verdict


def ask(check: Check, facts: Facts) -> Finding:
    """What a check says of a machine."""
    try:
        return Finding(check, check.judge(facts))
    except Unseen as unseen:
        hint = unseen.hidden.hint if facts.is_root else "sudo tierd doctor"
        return Finding(check, skip(unseen.hidden.why, hint))
