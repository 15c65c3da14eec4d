"""Lets other processes read the files of a simulated kernel over a socket: server and client.

`tierd run --simulate` serves the files; commands such as `tierd doctor` read them. Rules of this
file: files are read and never written; if a read fails, the client gets the kernel's error.
"""

import json
from collections.abc import Callable
from errno import EINVAL, EROFS
from pathlib import Path
from typing import Any

from tierd.errors import NotRunning
from tierd.serving import client
from tierd.sysfs import Sysfs, SysfsError

READ, READ_BYTES, EXISTS, LIST = "read", "bytes", "exists", "list"
NAME = "/name"


def answers(sysfs: Sysfs, name: str) -> Callable[[str], str | None]:
    """Return a function that returns the JSON answer for a path, or None for an unknown path.

    `/read/proc/zoneinfo` reads that file; `/name` returns the name of the machine.
    """
    questions: dict[str, Callable[[str], Any]] = {
        READ: sysfs.read,
        READ_BYTES: lambda path: sysfs.read_bytes(path).decode("latin-1"),
        EXISTS: sysfs.exists,
        LIST: sysfs.listdir,
    }

    def answer(asked: str) -> str | None:
        if asked == NAME:
            return json.dumps({"value": name})
        what, _, path = asked.removeprefix("/").partition("/")
        if what not in questions:
            return None
        try:
            return json.dumps({"value": questions[what](path)})
        except SysfsError as error:
            return json.dumps({"operation": error.operation, "errno": error.errno})

    return answer


class RemoteSysfs:
    """The client: a Sysfs that reads the files which the server offers. It refuses every write."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket
        self.name = str(self._ask(NAME)["value"])

    def read(self, path: str) -> str:
        return str(self._value(READ, path))

    reread = read

    def read_bytes(self, path: str) -> bytes:
        return str(self._value(READ_BYTES, path)).encode("latin-1")

    def exists(self, path: str) -> bool:
        return bool(self._value(EXISTS, path))

    def listdir(self, path: str) -> tuple[str, ...]:
        return tuple(self._value(LIST, path))

    def write(self, path: str, value: str) -> None:
        raise SysfsError("write", path, EROFS, value)

    def _value(self, what: str, path: str) -> Any:
        if not path.isascii() or set(path) & set(" ?\r\n"):
            # A name with such characters would change the request. A simulated machine has none.
            raise SysfsError(what, path, EINVAL)
        answer = self._ask(f"/{what}/{path}")
        if "errno" in answer:
            raise SysfsError(answer["operation"], path, answer["errno"])
        return answer["value"]

    def _ask(self, question: str) -> dict[str, Any]:
        try:
            return client.get(self._socket, question)
        except NotRunning as error:
            raise NotRunning(
                f"the simulated machine is gone (nothing answers at {self._socket})",
                "start it again with `tierd run --simulate`, or remove that file",
            ) from error
