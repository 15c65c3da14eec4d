"""What the commands say about a --root without a machine below it."""

from pathlib import Path

import pytest

from tierd import cli
from tierd.console.arguments import VERBS
from tierd.errors import ExitCode


@pytest.mark.parametrize("verb", VERBS)
def test_a_root_that_is_no_directory_is_refused(
    verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["node0"] if verb == "why" else ["unit"] if verb == "print" else []
    with pytest.raises(SystemExit) as caught:
        cli.main([verb, *words, "--root", str(tmp_path / "none")])
    assert caught.value.code == ExitCode.usage
    told = capsys.readouterr().err
    assert f"expected a directory with sys/ and proc/ in it, found no {tmp_path}/none" in told
    assert "leave out --root" in told
