"""Output for people fits into a usual terminal."""

import pytest

from tierd import cli


@pytest.mark.parametrize("machine", ["two-tier", "three-tier", "two-socket"])
@pytest.mark.parametrize("verb", ["tiers", "plan", "doctor"])
def test_it_fits_eighty_columns(
    verb: str, machine: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("TIERD_RUN_DIR", "RUNTIME_DIRECTORY"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    cli.main([verb, "--simulate", machine])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 5
    assert max(map(len, lines)) <= 80, max(lines, key=len)
