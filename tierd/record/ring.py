"""A file of fixed size that keeps the newest records: what happened, and how it went.

Rules of this file:
1. The file never grows. A record has a slot of fixed size, and the oldest one makes room.
2. Each slot has a checksum over its number and its text. What a power cut left half written, or
   what was never written, does not match and is passed over: the others are whole.
3. Writing is one pwrite(2) into a file that is there already, so a reader needs no lock, and a full
   disk hurts nobody. It is not synced: a power cut may cost the last half minute.
"""

import os
import struct
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tierd.errors import ExitCode, TierdError
from tierd.record.rundir import FileError, save_bytes

MAGIC = b"tierdrg1"
_HEAD = struct.Struct("<8sIII")
"""Magic, slots, bytes of a slot, checksum of these."""
_SLOT = struct.Struct("<IIQ")
"""Checksum of the rest, length of the text, number of the record from 1 up."""

MODE = 0o640


class Damaged(TierdError):
    """The file is not one of ours, or its head is damaged."""


class TooLarge(TierdError):
    """A record does not fit into a slot."""


class Record(NamedTuple):
    """A record and its number; numbers rise by one. A tuple, as thousands are made at each look."""

    number: int
    text: bytes


@dataclass(frozen=True, slots=True)
class Contents:
    """A ring as it was read: its shape, and the records that are whole, oldest first."""

    slots: int
    slot_bytes: int
    records: tuple[Record, ...]

    @property
    def last(self) -> int:
        return self.records[-1].number if self.records else 0


def room(slot_bytes: int) -> int:
    """How long a record may be."""
    return slot_bytes - _SLOT.size


def read(path: Path) -> Contents | None:
    """Everything that is whole; None if there is no such file."""
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        refused = FileError(
            f"cannot read {path}: {error.strerror}", "ask as root, or name --state-dir"
        )
        if isinstance(error, PermissionError):
            refused.exit_code = ExitCode.not_permitted
        raise refused from error
    return parse(raw, path)


def parse(raw: bytes, path: Path) -> Contents:
    """The records in the bytes of a ring."""
    slots, slot_bytes = _shape(raw, path)
    found = []
    for slot in range(slots):
        start = _HEAD.size + slot * slot_bytes
        record = _record(raw[start : start + slot_bytes])
        if record is not None and (record.number - 1) % slots == slot:
            found.append(record)
    found.sort(key=lambda record: record.number)
    last = found[-1].number if found else 0
    # A slot whose newer text was lost in a power cut still holds one from a round ago.
    kept = tuple(record for record in found if record.number > last - slots)
    return Contents(slots, slot_bytes, kept)


def create(path: Path, slots: int, slot_bytes: int, records: Iterable[Record] = ()) -> None:
    """Make the file anew, whole, with these records in it."""
    blob = bytearray(_head(slots, slot_bytes) + bytes(slots * slot_bytes))
    for record in records:
        start = _place(record.number, slots, slot_bytes)
        blob[start : start + slot_bytes] = _slot(record, slot_bytes)
    save_bytes(path, bytes(blob), MODE)


def append(path: Path, shape: Contents, record: Record) -> None:
    """Write a record into its slot of a ring of that shape."""
    data = _slot(record, shape.slot_bytes)
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        try:
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
        magic, slots, slot_bytes, check = _HEAD.unpack_from(raw)
        if magic == MAGIC and check == zlib.crc32(struct.pack("<II", slots, slot_bytes)):
            return slots, slot_bytes
    raise Damaged(f"{path} is damaged", "remove it: tierd begins a new one when it starts")


def _place(number: int, slots: int, slot_bytes: int) -> int:
    return _HEAD.size + (number - 1) % slots * slot_bytes


def _slot(record: Record, slot_bytes: int) -> bytes:
    if len(record.text) > room(slot_bytes):
        raise TooLarge(f"{len(record.text)} bytes do not fit into {room(slot_bytes)}")
    rest = struct.pack("<IQ", len(record.text), record.number) + record.text
    return (struct.pack("<I", zlib.crc32(rest)) + rest).ljust(slot_bytes, b"\0")


def _record(slot: bytes) -> Record | None:
    """What a slot holds, or None for one that is empty, torn or cut off."""
    if len(slot) < _SLOT.size:
        return None
    check, length, number = _SLOT.unpack_from(slot)
    end = _SLOT.size + length
    if not number or end > len(slot) or zlib.crc32(slot[4:end]) != check:
        return None
    return Record(number, slot[_SLOT.size : end])
