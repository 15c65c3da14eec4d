"""Sets of pages of a known heat at a known place, in a guest and in the simulated kernel.

In a guest tests/vm/workload.c holds them; how hot they are and where they went is in its words.
"""

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Protocol

from tierd.errors import TierdError

PAGE = 4096

# Touched often enough that most samples of 5 ms see an access, and seldom enough that one
# processor of an emulated machine can do it for 16 MiB.
HOT_HZ = 400.0


class Sets(Protocol):
    """What a behaviour can do with its own memory."""

    def place(self, name: str, nid: int, size_bytes: int, *, only: bool = False) -> None:
        """Fault in a set on a node while it has room; with `only`, on no other node."""

    def cache(self, name: str, nid: int, size_bytes: int) -> None:
        """The same as page cache of a file."""

    def heat(self, name: str, rate_hz: float = HOT_HZ) -> None:
        """Touch all its pages `hz` times a second from now on; 0 means never."""

    def where(self, name: str) -> Mapping[int, int]:
        """Return how many of its pages are on each node; nodes without any are left out."""

    def free(self, name: str) -> None:
        """Free its pages."""

    def close(self) -> None:
        """Free all pages."""


@dataclass(slots=True)
class WorkloadSets:
    """Sets that a workload process holds; `folder` is where it makes files for page cache."""

    program: Path
    folder: Path
    _process: "subprocess.Popen[str] | None" = field(default=None, init=False)

    @property
    def pid(self) -> int | None:
        """Of the process, once it has been asked for anything."""
        return None if self._process is None else self._process.pid

    def place(self, name: str, nid: int, size_bytes: int, *, only: bool = False) -> None:
        self.ask(f"alloc {name} {nid} {size_bytes}{' bind' if only else ''}")

    def cache(self, name: str, nid: int, size_bytes: int) -> None:
        self.ask(f"alloc {name} {nid} {size_bytes} file={self.folder / name}")

    def heat(self, name: str, rate_hz: float = HOT_HZ) -> None:
        self.ask(f"hot {name} {rate_hz}" if rate_hz else f"cold {name}")

    def where(self, name: str) -> Mapping[int, int]:
        counts = _counts(self.ask(f"where {name}"))
        return {int(nid): pages for nid, pages in counts.items() if nid != "absent"}

    def served(self, name: str, nid: int, stride: int) -> float:
        """Return the share of the next touches that a node serves, by each `stride`-th."""
        counts = _counts(self.ask(f"hits {name} {stride}"))
        return counts.get(str(nid), 0) / sum(counts.values())

    def free(self, name: str) -> None:
        self.ask(f"free {name}")

    def close(self) -> None:
        if self._process is None:
            return
        stdin, stdout = self._pipes()
        stdin.close()
        self._process.wait()
        stdout.close()
        self._process = None

    def ask(self, line: str) -> str:
        if self._process is None:
            self._process = subprocess.Popen(
                [self.program],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                bufsize=1,
            )
            self._answer("start", "ready")
        stdin, _ = self._pipes()
        stdin.write(line + "\n")
        stdin.flush()
        return self._answer(line, "ok")

    def _answer(self, line: str, wanted: str) -> str:
        _, stdout = self._pipes()
        answer = stdout.readline().rstrip("\n")
        word, _, rest = answer.partition(" ")
        if word != wanted:
            raise TierdError(f"workload: {line}: {answer or 'it is gone'}")
        return rest

    def _pipes(self) -> tuple[IO[str], IO[str]]:
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        return self._process.stdin, self._process.stdout


def _counts(answer: str) -> dict[str, int]:
    """Parse what the workload counts by node, as "0:12 1:34 absent:5"."""
    return {nid: int(count) for nid, count in (word.split(":") for word in answer.split())}
