"""The ring: fixed size, newest records, and nothing half written comes back."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierd.record import ring
from tierd.record.ring import Contents, Damaged, Record, TooLarge
from tierd.record.rundir import FileError

SLOTS = 8
SLOT_BYTES = 64
HEAD_BYTES = 20
WHERE = Path("x.ring")


def filled(path: Path, count: int) -> Contents:
    ring.create(path, SLOTS, SLOT_BYTES)
    shape = Contents(SLOTS, SLOT_BYTES, ())
    for number in range(1, count + 1):
        ring.append(path, shape, Record(number, f"record {number}".encode()))
    found = ring.read(path)
    assert found is not None
    return found


def numbers(found: Contents) -> list[int]:
    return [record.number for record in found.records]


@pytest.mark.parametrize("count", [0, 1, SLOTS, SLOTS + 1, 5 * SLOTS + 3])
def test_the_newest_are_kept_in_a_file_that_does_not_grow(tmp_path: Path, count: int) -> None:
    path = tmp_path / "x.ring"
    found = filled(path, count)
    assert numbers(found) == list(range(max(1, count - SLOTS + 1), count + 1))
    assert found.last == count
    assert path.stat().st_size == HEAD_BYTES + SLOTS * SLOT_BYTES


def test_no_file_is_none(tmp_path: Path) -> None:
    assert ring.read(tmp_path / "none") is None


@given(st.integers(1, SLOTS), st.integers(1, SLOT_BYTES - 1), st.binary(min_size=1, max_size=9))
def test_a_torn_record_is_dropped_and_the_others_stay(
    number: int, offset: int, noise: bytes
) -> None:
    """A power cut leaves any mixture of old and new bytes in one slot."""
    whole = bytearray(_blob(range(1, SLOTS + 1)))
    start = HEAD_BYTES + (number - 1) * SLOT_BYTES
    before = bytes(whole[start : start + SLOT_BYTES])
    torn = before[:offset] + noise
    whole[start : start + len(torn[:SLOT_BYTES])] = torn[:SLOT_BYTES]
    after = bytes(whole[start : start + SLOT_BYTES])
    found = ring.parse(bytes(whole), WHERE)
    length = len(f"record {number}")
    same = after[: 16 + length] == before[: 16 + length]
    assert [n for n in range(1, SLOTS + 1) if same or n != number] == numbers(found)
    assert all(record.text == f"record {record.number}".encode() for record in found.records)


def _blob(numbered: range) -> bytes:
    blob = bytearray(ring._head(SLOTS, SLOT_BYTES) + bytes(SLOTS * SLOT_BYTES))
    for number in numbered:
        start = HEAD_BYTES + (number - 1) % SLOTS * SLOT_BYTES
        slot = ring._slot(Record(number, f"record {number}".encode()), SLOT_BYTES)
        blob[start : start + SLOT_BYTES] = slot
    return bytes(blob)


def test_a_slot_from_a_round_ago_is_not_the_newest() -> None:
    blob = bytearray(_blob(range(1, 2 * SLOTS + 1)))
    old = _blob(range(1, 2))
    blob[HEAD_BYTES : HEAD_BYTES + SLOT_BYTES] = old[HEAD_BYTES : HEAD_BYTES + SLOT_BYTES]
    assert numbers(ring.parse(bytes(blob), WHERE)) == list(range(SLOTS + 2, 2 * SLOTS + 1))


def test_a_file_that_was_cut_short_keeps_what_is_there() -> None:
    blob = _blob(range(1, SLOTS + 1))
    assert numbers(ring.parse(blob[: HEAD_BYTES + 2 * SLOT_BYTES + 20], WHERE)) == [1, 2]


@pytest.mark.parametrize("raw", [b"", b"x" * 5, b"nonsense" * 10])
def test_what_is_no_ring_is_damaged(raw: bytes) -> None:
    with pytest.raises(Damaged, match=r"x\.ring is damaged"):
        ring.parse(raw, WHERE)


def test_a_record_too_large_is_refused(tmp_path: Path) -> None:
    filled(tmp_path / "x", 1)
    room = ring.room(SLOT_BYTES)
    shape = Contents(SLOTS, SLOT_BYTES, ())
    ring.append(tmp_path / "x", shape, Record(2, b"x" * room))
    with pytest.raises(TooLarge):
        ring.append(tmp_path / "x", shape, Record(3, b"x" * (room + 1)))


def test_writing_makes_no_file(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="cannot write"):
        ring.append(tmp_path / "none", Contents(SLOTS, SLOT_BYTES, ()), Record(1, b""))
    assert not (tmp_path / "none").exists()


def test_the_file_is_not_for_everybody(tmp_path: Path) -> None:
    filled(tmp_path / "x", 1)
    assert (tmp_path / "x").stat().st_mode & 0o007 == 0
