"""Reads a text file whole, with a place for each thing that is wrong with it."""

import os
import stat
from pathlib import Path

from tierd.configuration.yamltext import FilePlace, Problem
from tierd.units import format_size


class _NotRead(Exception):
    """The file is not a regular file, or is too large, so it is not read."""


def read(path: Path, required: bool, problems: list[Problem], bytes_max: int) -> str | None:
    """Return the text of a file; None if there is a problem, or no file and none is required."""
    file = FilePlace(str(path))
    try:
        content = _content(path, bytes_max)
    except _NotRead as error:
        problems.append(Problem(file, str(error)))
        return None
    except FileNotFoundError:
        if required:
            problems.append(Problem(file, "does not exist"))
        return None
    except OSError as error:
        problems.append(Problem(file, f"cannot be read: {error.strerror}"))
        return None
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        before = content[: error.start].decode("utf-8")
        line = before.count("\n") + 1
        column = len(before) - (before.rfind("\n") + 1) + 1
        byte = content[error.start]
        place = FilePlace(str(path), line, column)
        problems.append(Problem(place, f"byte 0x{byte:02x} is not UTF-8: save the file as UTF-8"))
        return None


def _content(path: Path, bytes_max: int) -> bytes:
    """Read a regular file up to a limit: a FIFO would block, and a device would never end."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise _NotRead("cannot be read: expected a regular file")
        content = b""
        while part := os.read(fd, bytes_max + 1 - len(content)):
            content += part
    finally:
        os.close(fd)
    if len(content) > bytes_max:
        raise _NotRead(f"is too large: expected at most {format_size(bytes_max)}")
    return content
