"""Finds names and structs in the kernel's type information (BTF).

This information (the blob) has several megabytes, and to read all types takes a second in Python.
So a struct is found by searching the section of types for the offset of the struct's name.
"""

import struct
from collections.abc import Iterable, Mapping

from tierd.errors import TierdError
from tierd.frozen import dataclass

PATH = "sys/kernel/btf/vmlinux"

_MAGIC = 0xEB9F
# struct btf_header: magic, version, flags, hdr_len, type_off, type_len, str_off, str_len
_HEADER = "HBBIIIII"
# struct btf_type: name_off, info, size; struct btf_member: name_off, type, offset
_RECORD = "III"
_RECORD_BYTES = 12
_KIND_STRUCT = 4


@dataclass(frozen=True, slots=True)
class Btf:
    """A BTF blob, the start and end of its two sections, and its byte order for `struct`.

    The sections are not copied, because that would double the memory that the search needs.
    """

    blob: bytes
    order: str
    types_start: int
    types_end: int
    strings_start: int
    strings_end: int

    @staticmethod
    def parse(blob: bytes) -> "Btf":
        size = struct.calcsize("=" + _HEADER)
        for order in "<>":
            if len(blob) < size or struct.unpack_from(order + "H", blob)[0] != _MAGIC:
                continue
            _, _, _, header, type_at, type_size, string_at, string_size = struct.unpack_from(
                order + _HEADER, blob
            )
            types, strings = header + type_at, header + string_at
            if max(types + type_size, strings + string_size) <= len(blob):
                return Btf(blob, order, types, types + type_size, strings, strings + string_size)
        raise TierdError(f"/{PATH}: not BTF, or cut short ({len(blob)} bytes)")

    def has_name(self, name: str) -> bool:
        """True if anything (an enumerator, a struct, a member, a function) has this name."""
        return self._offset(name) is not None

    def members(self, name: str) -> frozenset[str] | None:
        """Return the members of a struct; None if there is no such struct."""
        offset = self._offset(name)
        if offset is None:
            return None
        wanted = struct.pack(self.order + "I", offset)
        at = self.blob.find(wanted, self.types_start, self.types_end)
        while at >= 0:
            found = self._members_at(at)
            if found:
                return found
            at = self.blob.find(wanted, at + 1, self.types_end)
        return None

    def names(self) -> Iterable[str]:
        """Return every name; there are tens of thousands."""
        strings = self.blob[self.strings_start : self.strings_end]
        return (raw.decode("utf-8", "replace") for raw in strings.split(b"\0") if raw)

    def _offset(self, name: str) -> int | None:
        wanted = b"\0" + name.encode() + b"\0"
        at = self.blob.find(wanted, self.strings_start, self.strings_end)
        return None if at < 0 else at + 1 - self.strings_start

    def _members_at(self, at: int) -> frozenset[str] | None:
        """Return the members of the struct whose record begins at `at`; None if there is none."""
        if (at - self.types_start) % 4 or at + _RECORD_BYTES > self.types_end:
            return None
        _, info, _ = struct.unpack_from(self.order + _RECORD, self.blob, at)
        kind, count = info >> 24 & 0x1F, info & 0xFFFF
        end = at + _RECORD_BYTES * (1 + count)
        if kind != _KIND_STRUCT or end > self.types_end:
            return None
        records = struct.iter_unpack(self.order + _RECORD, self.blob[at + _RECORD_BYTES : end])
        found = set()
        for name_off, _, _ in records:
            name = self._name_at(name_off)
            if name is None:
                return None
            found.add(name)
        return frozenset(found - {""})

    def _name_at(self, offset: int) -> str | None:
        """Return the name that starts at this offset, or None; "" stands for a nameless member."""
        at = self.strings_start + offset
        if offset == 0:
            return ""
        if at >= self.strings_end or self.blob[at - 1] != 0:
            return None
        end = self.blob.find(b"\0", at, self.strings_end)
        name = self.blob[at:end]
        return name.decode() if end >= 0 and name.isascii() else None


def encode(names: Iterable[str], structs: Mapping[str, Iterable[str]]) -> bytes:
    """Return a BTF blob with only these names and structs, for a captured or simulated kernel."""
    strings = bytearray(b"\0")
    offsets: dict[str, int] = {}

    def offset(name: str) -> int:
        if name not in offsets:
            offsets[name] = len(strings)
            strings.extend(name.encode() + b"\0")
        return offsets[name]

    for name in names:
        offset(name)
    types = bytearray()
    for name, members in structs.items():
        listed = tuple(members)
        types += struct.pack("<" + _RECORD, offset(name), _KIND_STRUCT << 24 | len(listed), 0)
        for member in listed:
            types += struct.pack("<" + _RECORD, offset(member), 0, 0)
    size = struct.calcsize("=" + _HEADER)
    header = (_MAGIC, 1, 0, size, 0, len(types), len(types), len(strings))
    return struct.pack("<" + _HEADER, *header) + types + strings
