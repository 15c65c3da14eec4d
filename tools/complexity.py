"""Count how much a reader has to follow: private functions, and what a tick of the loop runs.

    python -m tools.complexity

The first part counts the functions of tierd/ whose name begins with an underscore. The second part
runs the loop on the simulated machine. It traces the start, some ticks while memory moves, and the
end. Only tierd's own functions count, without those of tierd/sim.
"""

import ast
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TypeVar

from tests.sim.loop import cold, hot, loop
from tierd.loop import daemon
from tierd.sim.sim_kernel import SimKernel

T = TypeVar("T")

ROOT = Path(__file__).resolve().parent.parent
TIERD = ROOT / "tierd"

SERIES = "7.2"

# While the hot set comes up, the tuner has the most to do.
SETTLING_TICKS = 2
TICKS = 6

# Between two ticks the loop looks this often for inputs that are due.
WAITS_PER_TICK = 20

# A body with this many lines or fewer is short.
SHORT_LINES = 4


@dataclass(frozen=True, slots=True)
class Private:
    """The private functions of a tree."""

    functions: int
    used_once: int
    used_once_and_short: int


def private_functions(root: Path) -> Private:
    """Count the private functions below a directory, and those that are used in one place only."""
    found = [one for path in sorted(root.rglob("*.py")) for one in _private(path)]
    once = [lines for lines, uses in found if uses == 1]
    return Private(len(found), len(once), sum(lines <= SHORT_LINES for lines in once))


def _private(path: Path) -> Iterator[tuple[int, int]]:
    """Yield how many lines each private function of a file has, and how often it is named."""
    tree = ast.parse(path.read_text())
    uses = Counter(
        node.id if isinstance(node, ast.Name) else node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Name | ast.Attribute)
    )
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.FunctionDef)
            and node.name.startswith("_")
            and not node.name.endswith("__")
        ):
            body = node.body[1:] if ast.get_docstring(node) else node.body
            lines = sum((one.end_lineno or one.lineno) - one.lineno + 1 for one in body)
            yield lines, uses[node.name]


@dataclass(slots=True)
class Trace:
    """What ran between two moments."""

    files: set[str] = field(default_factory=set)
    functions: set[tuple[str, str]] = field(default_factory=set)
    calls: int = 0
    switches: int = 0
    """Calls from a function of one file to a function of another."""
    depth_max: int = 0
    reads: int = 0
    state_reads: int = 0
    """The reads of a kdamond's `state` and `pid`."""

    def run(self, kernel: "CountingKernel", step: Callable[[], T]) -> T:
        """Do one step with every call and read of it traced."""
        reads, state_reads = kernel.reads, kernel.state_reads
        # The file of each frame of tierd that is on the stack.
        stack: list[tuple[FrameType, str]] = []

        def profile(frame: FrameType, event: str, _arg: object) -> None:
            name = frame.f_code.co_filename
            if event == "return" and stack and stack[-1][0] is frame:
                stack.pop()
            if event != "call" or not _counts(name) or frame.f_code.co_name.startswith("<"):
                return
            self.calls += 1
            self.switches += bool(stack) and stack[-1][1] != name
            stack.append((frame, name))
            self.files.add(name)
            self.functions.add((name, frame.f_code.co_qualname))
            self.depth_max = max(self.depth_max, len(stack))

        sys.setprofile(profile)
        try:
            return step()
        finally:
            sys.setprofile(None)
            self.reads += kernel.reads - reads
            self.state_reads += kernel.state_reads - state_reads


def _counts(file: str) -> bool:
    path = Path(file)
    return path.is_relative_to(TIERD) and not path.is_relative_to(TIERD / "sim")


@dataclass(slots=True)
class CountingKernel:
    """A simulated kernel that counts what is read from it."""

    kernel: SimKernel
    reads: int = 0
    state_reads: int = 0

    def _count(self, path: str) -> None:
        self.reads += 1
        self.state_reads += path.endswith(("/state", "/pid"))

    def read(self, path: str) -> str:
        self._count(path)
        return self.kernel.read(path)

    def reread(self, path: str) -> str:
        self._count(path)
        return self.kernel.reread(path)

    def read_bytes(self, path: str) -> bytes:
        self._count(path)
        return self.kernel.read_bytes(path)

    def write(self, path: str, value: str) -> None:
        self.kernel.write(path, value)

    def exists(self, path: str) -> bool:
        return self.kernel.exists(path)

    def listdir(self, path: str) -> tuple[str, ...]:
        return self.kernel.listdir(path)


@dataclass(frozen=True, slots=True)
class Traced:
    """The start, some ticks while memory moves, and the end of a loop."""

    start: Trace
    ticks: Trace
    end: Trace

    @property
    def rows(self) -> Iterator[tuple[str, Trace, int]]:
        """Yield each step with its name, and how often it was run."""
        yield "start", self.start, 1
        yield "tick", self.ticks, TICKS
        yield "end", self.end, 1


def trace_loop() -> Traced:
    """Run the loop on the two-tier machine and trace it."""
    machine = loop(SERIES, "two-tier", cold("cold", 0, 400), hot("hot", 1, 96))
    counting = CountingKernel(machine.kernel)
    machine.sysfs = counting
    outside = machine.outside()
    start, settling, ticks, end = Trace(), Trace(), Trace(), Trace()
    running = start.run(counting, lambda: daemon.begin(outside, machine.config))
    for turn in range(SETTLING_TICKS + TICKS):
        trace = settling if turn < SETTLING_TICKS else ticks
        running = trace.run(counting, partial(daemon.tick, outside, running))
        for _ in range(WAITS_PER_TICK):
            machine.kernel.advance(running.config.tick_ms / 1000 / WAITS_PER_TICK)
            running = daemon.settle(outside, running)
    end.run(counting, lambda: daemon.end(outside, running))
    return Traced(start, ticks, end)


def report() -> Iterator[str]:
    """Yield the lines that the script prints."""
    private = private_functions(TIERD)
    yield (
        f"private functions: {private.functions}, {private.used_once} of them used once, "
        f"{private.used_once_and_short} of these of {SHORT_LINES} lines or fewer"
    )
    for name, trace, times in trace_loop().rows:
        yield (
            f"{name}: {len(trace.files)} files, {len(trace.functions)} functions, "
            f"{trace.calls // times} calls, {trace.switches // times} switches between files, "
            f"depth {trace.depth_max}, {trace.reads // times} reads "
            f"({trace.state_reads // times} of state and pid)"
        )


if __name__ == "__main__":
    sys.stdout.writelines(f"{line}\n" for line in report())
