"""The file that `tierd record` writes."""

from pathlib import Path

import pytest

from tierd.console.record import ProfileFile
from tierd.record.rundir import FileError


def test_a_recording_is_not_written_over(tmp_path: Path) -> None:
    path = tmp_path / "day.jsonl"
    file = ProfileFile(path)
    file.open()
    file.write("{}")
    file.close()
    with pytest.raises(FileError, match="not written over"):
        ProfileFile(path).open()
    assert path.read_text() == "{}\n"


def test_a_recording_that_did_not_begin_leaves_no_file(tmp_path: Path) -> None:
    file = ProfileFile(tmp_path / "day.jsonl")
    file.open()
    file.close()
    assert not file.path.exists()
