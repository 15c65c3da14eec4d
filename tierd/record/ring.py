"""A file of fixed size that keeps the newest records.

Rules of this file:
1. The file never grows. A record has a slot of fixed size, and a new one replaces the oldest.
2. Each slot has a checksum over its number and its text. A slot that is half written or empty does
   not match and is skipped.
3. A write is one pwrite(2) into an existing file, so a reader needs no lock, and a full disk does
   not matter. It is not synced, so a power cut may lose the last half minute.
4. The values in the head of a file must be within fixed bounds.
"""

import os
import struct
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from tierd.errors import TierdError
from tierd.frozen import dataclass
from tierd.record.rundir import FileError, load_bytes, open_regular, save_bytes

MAGIC = b"tierdrg1"
_HEAD = struct.Struct("<8sIII")
"""Magic, slots, bytes of a slot, checksum of these."""
_SLOT = struct.Struct("<IIQ")
"""Checksum of the rest, length of the text, number of the record from 1 up."""

MODE = 0o640

# Bounds of a ring. A day of readings in slots of 4 KiB, enough for 28 nodes, is 34 MiB. With larger
# slots a ring has fewer of them, so that reading it fits into the memory of the unit.
BYTES_MAX = 64 << 20
SLOTS_MAX = 16_384
SLOT_BYTES_MAX = 64 << 10

# Highest number of a record, which has 64 bits on disk. It is never reached.
NUMBER_MAX = 1 << 62


class Damaged(TierdError):
    """The file is not one of ours, or its head is damaged."""


class TooLarge(TierdError):
    """A record does not fit into a slot."""


class Record(NamedTuple):
    """A record and its number; numbers rise by one. A tuple, because thousands are made at once."""

    number: int
    text: bytes


@dataclass(frozen=True, slots=True)
class Contents:
    """A ring that was read: its shape, and its valid records, oldest first."""

    slots: int
    slot_bytes: int
    records: tuple[Record, ...]

    @property
    def last(self) -> int:
        return self.records[-1].number if self.records else 0


def room(slot_bytes: int) -> int:
    """Return the largest size of a record in bytes."""
    return slot_bytes - _SLOT.size


def slots_max(slot_bytes: int) -> int:
    """Return how many slots of this size a ring may have."""
    return min(SLOTS_MAX, (BYTES_MAX - _HEAD.size) // slot_bytes)


def read(path: Path) -> Contents | None:
    """Return the valid records; None if there is no such file."""
    raw = load_bytes(path, BYTES_MAX)
    return None if raw is None else parse(raw, path)


def parse(raw: bytes, path: Path) -> Contents:
    """Return the valid records in the bytes of a ring, oldest first.

    Empty and damaged slots are skipped. Damaged is raised if the head of the file is wrong.
    """
    slots, slot_bytes = _shape(raw, path)
    found = []
    for slot in range(slots):
        start = _HEAD.size + slot * slot_bytes
        record = _record(raw[start : start + slot_bytes])
        if record is not None and (record.number - 1) % slots == slot:
            found.append(record)
    found.sort(key=lambda record: record.number)
    last = found[-1].number if found else 0
    # After a power cut a slot may hold a record that should have been replaced.
    kept = tuple(record for record in found if record.number > last - slots)
    return Contents(slots, slot_bytes, kept)


def create(path: Path, slots: int, slot_bytes: int, records: Iterable[Record] = ()) -> None:
    """Create the file with the newest of these records in it."""
    if slot_bytes > SLOT_BYTES_MAX:
        raise TooLarge(f"a record needs {slot_bytes} bytes, and may have {SLOT_BYTES_MAX}")
    blob = bytearray(_head(slots, slot_bytes) + bytes(slots * slot_bytes))
    for record in records:
        start = _place(record.number, slots, slot_bytes)
        blob[start : start + slot_bytes] = _slot(record, slot_bytes)
    save_bytes(path, bytes(blob), MODE)


def append(path: Path, shape: Contents, record: Record) -> None:
    """Write a record into its slot. Damaged is raised if the file has another shape."""
    data = _slot(record, shape.slot_bytes)
    try:
        fd = open_regular(path, os.O_RDWR)
        try:
            if os.pread(fd, _HEAD.size, 0) != _head(shape.slots, shape.slot_bytes):
                raise _damaged(path)
            os.pwrite(fd, data, _place(record.number, shape.slots, shape.slot_bytes))
        finally:
            os.close(fd)
    except OSError as error:
        raise FileError(f"cannot write {path}: {error.strerror}") from error


def _head(slots: int, slot_bytes: int) -> bytes:
    check = zlib.crc32(struct.pack("<II", slots, slot_bytes))
    return _HEAD.pack(MAGIC, slots, slot_bytes, check)


def _shape(raw: bytes, path: Path) -> tuple[int, int]:
    if len(raw) >= _HEAD.size:
        _magic, slots, slot_bytes, _check = _HEAD.unpack_from(raw)
        bounded = _SLOT.size < slot_bytes <= SLOT_BYTES_MAX and 0 < slots <= slots_max(slot_bytes)
        # A file that a power cut has shortened is valid up to its end.
        if bounded and raw.startswith(_head(slots, slot_bytes)):
            return slots, slot_bytes
    raise _damaged(path)


def _damaged(path: Path) -> Damaged:
    return Damaged(f"{path} is damaged", "remove it: tierd begins a new one when it starts")


def _place(number: int, slots: int, slot_bytes: int) -> int:
    return _HEAD.size + (number - 1) % slots * slot_bytes


def _slot(record: Record, slot_bytes: int) -> bytes:
    if len(record.text) > room(slot_bytes):
        raise TooLarge(f"{len(record.text)} bytes do not fit into {room(slot_bytes)}")
    rest = struct.pack("<IQ", len(record.text), record.number) + record.text
    return (struct.pack("<I", zlib.crc32(rest)) + rest).ljust(slot_bytes, b"\0")


def _record(slot: bytes) -> Record | None:
    """Return the record of a slot, or None if it is empty or damaged."""
    if len(slot) < _SLOT.size:
        return None
    check, length, number = _SLOT.unpack_from(slot)
    end = _SLOT.size + length
    if not 0 < number <= NUMBER_MAX or end > len(slot) or zlib.crc32(slot[4:end]) != check:
        return None
    return Record(number, slot[_SLOT.size : end])
