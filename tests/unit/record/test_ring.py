"""The ring has a fixed size and the newest records, and never returns a half-written one."""

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
    """After a power cut one slot may be any mixture of old and new bytes."""
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


def test_a_head_that_claims_too_much_is_damaged() -> None:
    for slots, slot_bytes in ((0, 64), (8, 16), (8, 0), (2**20, 64), (8, 2**20), (2**14, 2**16)):
        raw = ring._head(slots, slot_bytes) + bytes(4096)
        with pytest.raises(Damaged):
            ring.parse(raw, WHERE)


def test_a_file_of_holes_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "x.ring"
    path.write_bytes(ring._head(2**28, 17))
    with path.open("r+b") as file:
        file.truncate(2**28 * 17)
    with pytest.raises(FileError, match="longer than"):
        ring.read(path)


def test_a_number_beyond_all_bounds_is_passed_over() -> None:
    blob = _blob(range(1, 3)) + b""
    number = 2**64 - SLOTS + 3
    slot = ring._slot(Record(number, b"x"), SLOT_BYTES)
    start = HEAD_BYTES + (number - 1) % SLOTS * SLOT_BYTES
    forged = blob[:start] + slot + blob[start + SLOT_BYTES :]
    assert numbers(ring.parse(forged, WHERE)) == [1, 2]


def test_another_file_in_its_place_is_not_written_to(tmp_path: Path) -> None:
    path = tmp_path / "x.ring"
    filled(path, 1)
    path.write_bytes(b"noise" * 1000)
    with pytest.raises(Damaged):
        ring.append(path, Contents(SLOTS, SLOT_BYTES, ()), Record(2, b""))
    assert path.read_bytes() == b"noise" * 1000


def test_no_link_is_followed(tmp_path: Path) -> None:
    filled(tmp_path / "real", 1)
    (tmp_path / "x.ring").symlink_to(tmp_path / "real")
    with pytest.raises(FileError):
        ring.append(tmp_path / "x.ring", Contents(SLOTS, SLOT_BYTES, ()), Record(2, b""))
    with pytest.raises(FileError):
        ring.read(tmp_path / "x.ring")


def test_a_ring_never_becomes_larger_than_can_be_read(tmp_path: Path) -> None:
    slot_bytes = ring.SLOT_BYTES_MAX
    slots = ring.slots_max(slot_bytes)
    records = [Record(number, b"x") for number in range(1, 2 * slots + 1)]
    ring.create(tmp_path / "x", slots, slot_bytes, records)
    found = ring.read(tmp_path / "x")
    assert found is not None
    assert numbers(found) == list(range(slots + 1, 2 * slots + 1))
    with pytest.raises(TooLarge):
        ring.create(tmp_path / "x", 1, slot_bytes + 1)


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
