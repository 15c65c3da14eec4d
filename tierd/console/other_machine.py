"""Reads the nodes of another machine from a file, for `tierd check --machine`.

The file is a report of `tierd doctor --bundle`, or the output of `tierd tiers --json`. It may come
from anywhere, so its size is bounded and its content is checked like that of a kernel file.
"""

import json
import tarfile
import zlib
from pathlib import Path
from typing import Any

from tierd import figures
from tierd.errors import ConfigError
from tierd.machine.discovery import NODES
from tierd.units import ID_MAX

# A report of a machine with eight nodes has 60 KiB; its `tiers --json` has 10 KiB.
FILE_BYTES_MAX = 16 << 20
# A list of nodes; the kernel prints at most one page.
LIST_BYTES_MAX = 1 << 16
# A node may have a thousand memory blocks, each with a folder.
ENTRIES_MAX = 200_000

GZIP = b"\x1f\x8b"

Nodes = tuple[tuple[int, ...], tuple[int, ...]]
"""The ids of the nodes with memory, and the ids of all nodes."""


class NoMachine(ConfigError):
    """A file that describes no machine."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(
            f"{path}: {why}",
            "make it on that machine: `tierd doctor --bundle FILE`, or `tierd tiers --json > FILE`",
        )


def nodes(path: Path) -> Nodes:
    """Return the nodes of the machine that the file describes."""
    try:
        if not path.is_file():
            raise NoMachine(path, "expected a regular file")
        if path.stat().st_size > FILE_BYTES_MAX:
            raise NoMachine(path, "is larger than a report can be")
        with path.open("rb") as file:
            content = file.read(FILE_BYTES_MAX)
        return _of_report(path) if content.startswith(GZIP) else _of_tiers(path, content)
    except OSError as error:
        raise NoMachine(path, f"cannot be read: {error.strerror or error}") from error


def _of_report(path: Path) -> Nodes:
    wanted = {f"machine/{NODES}/{name}": name for name in ("has_memory", "online")}
    found: dict[str, tuple[int, ...]] = {}
    try:
        with tarfile.open(path, mode="r|gz") as archive:
            for count, entry in enumerate(archive):
                if count > ENTRIES_MAX:
                    raise NoMachine(path, "has more entries than a report can have")
                if entry.name in wanted and entry.size <= LIST_BYTES_MAX:
                    taken = archive.extractfile(entry)
                    text = "" if taken is None else taken.read().decode("utf-8", "replace")
                    found[wanted[entry.name]] = figures.ids(entry.name, text.strip())
    except (tarfile.TarError, EOFError, zlib.error, ValueError) as error:
        raise NoMachine(path, f"is not a valid report: {error}") from error
    if len(found) < len(wanted):
        raise NoMachine(path, "is a report that does not list the nodes")
    return found["has_memory"], found["online"]


def _of_tiers(path: Path, content: bytes) -> Nodes:
    try:
        document = json.loads(content)
        with_memory = [
            *(node for tier in document["tiers"] for node in tier["nodes"]),
            *document["unmanaged_nodes"],
        ]
        ids = _ids(with_memory)
        return ids, tuple(sorted((*ids, *_ids(document["empty_nodes"]))))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise NoMachine(
            path, "is neither a report nor the output of `tierd tiers --json`"
        ) from error


def _ids(listed: list[dict[str, Any]]) -> tuple[int, ...]:
    ids = [node["id"] for node in listed]
    if not all(type(one) is int and 0 <= one <= ID_MAX for one in ids):
        raise ValueError(f"expected ids of nodes, found {ids}")
    return tuple(sorted(ids))
