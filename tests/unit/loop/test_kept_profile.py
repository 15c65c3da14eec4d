"""The file of the daemon's own profile: it goes on, it is begun anew, and it has a bound."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.profile.test_profile import LINE
from tierd.console import simulate
from tierd.loop import kept_profile
from tierd.loop.kept_profile import KeptProfile
from tierd.profile import profile
from tierd.profile.profile import Header, Source
from tierd.record import rundir
from tierd.record.bookkeeping import Bookkeeping
from tierd.record.rundir import RunDir

BEGAN = 1_800_000_000.0
HEADER = Header(Source.sensors, BEGAN, (64 << 30, 192 << 30), 0)


def folder(tmp_path: Path) -> RunDir:
    return RunDir(tmp_path / "run", tmp_path / "lib")


def at(number: int, header: Header = HEADER) -> Header:
    return replace(header, began_at=header.began_at + 60.0 * number)


def record(kept: KeptProfile, minutes: range, header: Header = HEADER) -> None:
    """Add minutes of which no two neighbours are alike."""
    for number in minutes:
        kept.add(at(number, header), replace(LINE, minutes=1, used=(0.1 + number % 2 / 2, 0.5)))
    kept.end()


def read(where: RunDir, name: str = rundir.PROFILE) -> profile.Profile:
    return profile.parse(name, (where.state / name).read_text())


def test_each_minute_is_kept_and_a_restart_goes_on_with_the_file(tmp_path: Path) -> None:
    where = folder(tmp_path)
    record(KeptProfile(where, Bookkeeping()), range(3))
    record(KeptProfile(where, Bookkeeping()), range(5, 7))
    found = read(where)
    assert found.header == HEADER
    assert [line.minute for line in found.lines] == [0, 1, 2, 5, 6]
    assert not (where.state / rundir.PROFILE_BEFORE).exists()
    assert simulate.kept_profile(where) == found


def test_every_user_may_read_it(tmp_path: Path) -> None:
    where = folder(tmp_path)
    record(KeptProfile(where, Bookkeeping()), range(2))
    assert (where.state / rundir.PROFILE).stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize(
    ("spoil", "kept"),
    [
        (lambda text: text[:-10], 2),
        (lambda _text: "no profile\n", None),
        (lambda text: text.replace(str(64 << 30), str(32 << 30)), 3),
    ],
    ids=["half a line", "damaged", "another machine"],
)
def test_what_cannot_go_on_becomes_the_old_file(
    tmp_path: Path, spoil: object, kept: int | None
) -> None:
    where = folder(tmp_path)
    record(KeptProfile(where, Bookkeeping()), range(3))
    path = where.state / rundir.PROFILE
    assert callable(spoil)
    path.write_text(spoil(path.read_text()))
    record(KeptProfile(where, Bookkeeping()), range(4, 6))
    assert [line.minute for line in read(where).lines] == [0, 1]
    assert read(where).header == at(4)
    if kept is None:
        with pytest.raises(profile.NoProfile, match=r"profile\.old\.jsonl:1"):
            simulate.kept_profile(where)
        return
    assert read(where, rundir.PROFILE_BEFORE).minutes == kept
    both = simulate.kept_profile(where)
    assert both is not None
    # What another machine did says nothing about this one.
    assert both.minutes == (2 if kept == 3 else 4)


def test_there_are_never_more_than_two_files_of_bounded_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_profile, "FILE_BYTES_MAX", 2000)
    where = folder(tmp_path)
    kept = KeptProfile(where, Bookkeeping())
    record(kept, range(100))
    sizes = {path.name: path.stat().st_size for path in where.state.iterdir()}
    assert set(sizes) == {rundir.PROFILE, rundir.PROFILE_BEFORE}
    assert max(sizes.values()) < 2500
    before, now = read(where, rundir.PROFILE_BEFORE), read(where)
    # No minute is lost between the two.
    last = before.header.began_at + 60 * before.lines[-1].minute
    assert now.header.began_at == last + 60


def test_a_file_of_last_month_does_not_go_on(tmp_path: Path) -> None:
    where = folder(tmp_path)
    record(KeptProfile(where, Bookkeeping()), range(2))
    later = replace(HEADER, began_at=BEGAN + kept_profile.FILE_S_MAX)
    record(KeptProfile(where, Bookkeeping()), range(2), later)
    assert read(where).header == later


def test_a_file_that_cannot_be_written_is_told_and_begun_anew(tmp_path: Path) -> None:
    where, books = folder(tmp_path), Bookkeeping()
    kept = KeptProfile(where, books)
    record(kept, range(2))
    (where.state / rundir.PROFILE).unlink()
    record(kept, range(2, 4))
    assert [one.event for one in books.news()] == ["bookkeeping_failed"]
    record(kept, range(4, 6))
    assert read(where).minutes == 2
    assert [one.event for one in books.news()] == ["bookkeeping_recovered"]


def test_where_there_is_none_there_is_no_profile(tmp_path: Path) -> None:
    assert simulate.kept_profile(folder(tmp_path)) is None
