"""The file of the profile that the daemon keeps. It has a bound, and then becomes the old one.

Rules of this file:
1. A failing disk stops nothing: `Bookkeeping` reports it. Nothing is synced, so a power cut may
   lose some minutes.
2. There is no address, no name and no path in the file, so every user may read it.
"""

import os
from dataclasses import dataclass, field
from pathlib import Path

from tierd.frozen import replace
from tierd.loop.minutes import Joiner
from tierd.profile import profile
from tierd.profile.minute import MINUTE_S
from tierd.profile.profile import Header, Line, NoProfile, header_text, line_text
from tierd.profile.rates import BOUNDS_HZ
from tierd.record import rundir
from tierd.record.bookkeeping import Bookkeeping
from tierd.record.rundir import FileError, RunDir

# A steady day is about 50 KB, and one of which no two minutes are alike 300 KB. So a file has some
# days, or most of one. With the old one there are twice as many at most.
FILE_BYTES_MAX = 256 << 10

# An older file is begun anew: the machine was off, or its clock was set.
FILE_S_MAX = 30 * 86_400

MODE = 0o644


@dataclass(slots=True)
class KeptProfile:
    """Adds minutes to the file."""

    folder: RunDir
    books: Bookkeeping
    _header: Header | None = None
    _lines: Joiner = field(init=False)
    _size_bytes: int = 0

    def __post_init__(self) -> None:
        self._lines = Joiner(self._write)

    @property
    def path(self) -> Path:
        return self.folder.state / rundir.PROFILE

    def add(self, header: Header, line: Line) -> None:
        """Add a line of one minute. The header is as it would be if a file began now."""
        known = self._header
        if known is None or not _goes_on(known, header):
            self.end()
            if not self.books.keep(self.path, lambda: self._open(header)):
                return
        elif self._size_bytes > FILE_BYTES_MAX:
            self.end()
            if not self.books.keep(self.path, lambda: self._replace(header)):
                return
        assert self._header is not None
        number = int((header.began_at - self._header.began_at) // MINUTE_S)
        self._lines.add(replace(line, minute=number))

    def end(self) -> None:
        """Write the minutes that wait for others that are alike."""
        self._lines.end()

    def _open(self, header: Header) -> None:
        """Go on with the file that is there, or begin a new one."""
        self._header = None
        found, text = None, None
        try:
            text = rundir.load(self.path, 2 * FILE_BYTES_MAX)
            found = None if text is None else profile.parse(str(self.path), text)
        except (FileError, NoProfile):
            # Damaged: it becomes the old file, and who reads that is told.
            pass
        if found and text and text.endswith("\n") and _goes_on(found.header, header):
            self._header, self._size_bytes = found.header, len(text)
        else:
            self._replace(header)

    def _replace(self, header: Header) -> None:
        """Make the file the old one, and begin a new one."""
        self._header = None
        self.folder.make_state()
        try:
            self.path.replace(self.folder.state / rundir.PROFILE_BEFORE)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise FileError(f"cannot rename {self.path}: {error.strerror}") from error
        text = header_text(header, BOUNDS_HZ) + "\n"
        rundir.save(self.path, text, MODE, lasting=False)
        self._header, self._size_bytes = header, len(text)

    def _write(self, line: Line) -> None:
        if not self.books.keep(self.path, lambda: self._append(line_text(line) + "\n")):
            # Somebody may have removed the file, or half a line is in it. The next one begins anew.
            self._header = None

    def _append(self, text: str) -> None:
        try:
            fd = rundir.open_regular(self.path, os.O_WRONLY | os.O_APPEND)
            try:
                os.write(fd, text.encode("ascii"))
            finally:
                os.close(fd)
        except OSError as error:
            raise FileError(f"cannot write {self.path}: {error.strerror}") from error
        self._size_bytes += len(text)


def _goes_on(found: Header, header: Header) -> bool:
    """Return whether lines of now can follow this header."""
    same = (found.source, found.tier_bytes) == (header.source, header.tier_bytes)
    return same and 0 <= header.began_at - found.began_at < FILE_S_MAX
