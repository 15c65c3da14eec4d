"""tierd lets programs go first, unless somebody has decided otherwise."""

import os

import pytest

from tierd.console import foreground
from tierd.console.foreground import NICENESS


@pytest.mark.parametrize(("found", "then"), [(0, [NICENESS]), (3, []), (-5, []), (NICENESS, [])])
def test_it_changes_the_niceness_that_nobody_has_chosen(
    monkeypatch: pytest.MonkeyPatch, found: int, then: list[int]
) -> None:
    asked: list[int] = []
    monkeypatch.setattr(os, "getpriority", lambda _which, _who: found)
    monkeypatch.setattr(os, "setpriority", lambda _which, _who, value: asked.append(value))
    foreground.let_programs_first()
    assert asked == then


def test_a_sandbox_may_forbid_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(_which: int, _who: int, _value: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "getpriority", lambda _which, _who: 0)
    monkeypatch.setattr(os, "setpriority", forbidden)
    foreground.let_programs_first()
