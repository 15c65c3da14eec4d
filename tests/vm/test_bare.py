"""A bare machine needs the name of a suite, and only root can make one."""

import os

import pytest

from tests.vm import bare
from tests.vm.errors import Missing


@pytest.mark.parametrize("argv", [[], ["bookworm"], ["buster", "true"]])
def test_what_is_not_understood_is_a_usage(
    argv: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["bare", *argv])
    assert bare.main() == 2
    assert "bookworm,trixie" in capsys.readouterr().err


def test_who_is_not_root_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(Missing, match="only root"):
        bare.run("bookworm", ["true"])
