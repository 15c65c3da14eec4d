"""A simulated machine in its own process: a test can kill the daemon and keep the kernel.

    python -m tests.monitoring.machine SOCKET

Its time passes by itself, SPEED times as fast as real time. It answers all who connect. The daemon
sees a Sysfs and a Clock. The test does everything else that happens to a machine.
"""

import sys
import threading
import time
from dataclasses import dataclass, field
from errno import errorcode
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from typing import Any

from tierd.serving.inbox import Event, SystemInbox
from tierd.sim import machine_model
from tierd.sim.memory import PageSet
from tierd.sim.sim_kernel import SimKernel
from tierd.sim.workload import Place, Workload, WorkloadEvent
from tierd.sysfs import SysfsError

SERIES = "7.3"
NAME = "two-tier"

# A round of the loop takes half a second of the machine's time. Alerts wait for some rounds.
SPEED = 4.0

# Size of a step of time, and of the largest one. If the process was stopped, or the processor is
# too slow, the machine does not catch up.
STEP_S = 0.01
STEP_S_MAX = 0.05

FAST, SLOW = 0, 1
MIB = 1 << 20

# The fast node has cold pages. The slow one has two sets of pages: one hot, and one for later.
COLD, HOT, NEXT = "cold", "hot", "next"
HOT_HZ = 100.0
SET_MIB = 96
COLD_MIB = 330
PLACED = (
    Place(PageSet(COLD), COLD_MIB * MIB, (FAST,)),
    Place(PageSet(HOT, HOT_HZ), SET_MIB * MIB, (SLOW,)),
    Place(PageSet(NEXT), SET_MIB * MIB, (SLOW,)),
)


@dataclass
class Machine:
    """A kernel whose time passes. It handles one request at a time."""

    kernel: SimKernel
    lock: threading.Lock = field(default_factory=threading.Lock)
    refusals: dict[str, int] = field(default_factory=dict)
    """Ends of paths to which writes fail, and the errno."""

    def live(self) -> None:
        """Simulate for ever. Requests are handled between two steps."""
        seen_s = time.monotonic()
        while True:
            time.sleep(STEP_S)
            now_s = time.monotonic()
            passed_s, seen_s = min(now_s - seen_s, STEP_S_MAX), now_s
            with self.lock:
                self.kernel.advance(passed_s * SPEED)

    def ask(self, name: str, arguments: tuple[Any, ...]) -> Any:
        with self.lock:
            return getattr(self, f"_{name}")(*arguments)

    def _read(self, path: str) -> str:
        return self.kernel.read(path)

    def _read_bytes(self, path: str) -> bytes:
        return self.kernel.read_bytes(path)

    def _exists(self, path: str) -> bool:
        return self.kernel.exists(path)

    def _listdir(self, path: str) -> tuple[str, ...]:
        return self.kernel.listdir(path)

    def _write(self, path: str, value: str) -> None:
        for end, code in self.refusals.items():
            if path.endswith(end):
                raise SysfsError("write", path, code, value)
        self.kernel.write(path, value)

    def _now_s(self) -> float:
        return self.kernel.now_us / 1e6

    def _end_kdamond(self, index: int) -> None:
        self.kernel.end_kdamond(index)

    def _refuse(self, end: str, code: int) -> None:
        self.refusals[end] = code

    def _heal(self) -> None:
        self.refusals.clear()

    def _happen(self, happenings: tuple[WorkloadEvent, ...]) -> None:
        workload = self.kernel.scheduler.workload
        assert workload is not None
        for one in happenings:
            workload.add(one, self.kernel.now_us)

    def _bytes_on(self, name: str, node: int) -> int:
        return self.kernel.memory.pages_of_set(name, node) * self.kernel.memory.page_bytes

    def _moved_for_schemes_bytes(self) -> int:
        memory = self.kernel.memory
        counted = [node.counters for node in memory.nodes.values()]
        others = sum(one.pgdemote_kswapd + one.pgpromote_success for one in counted)
        return (memory.counters.pgmigrate_success - others) * self.kernel.memory.page_bytes


def serve(path: Path) -> None:
    """Serve the machine until the process is killed."""
    kernel = SimKernel(
        SERIES,
        machine_model.load(NAME),
        seed=1,
        workload=Workload(PLACED, seed=1),
        block_pages=256,
        # The tiering mode. tierd sees it at its start, and then once a minute.
        numa_balancing=2,
    )
    kernel.advance(0.001)
    made = Machine(kernel)
    with Listener(str(path), family="AF_UNIX") as listener:
        threading.Thread(target=_accept, args=(made, listener), daemon=True).start()
        made.live()


def _accept(made: Machine, listener: Listener) -> None:
    while True:
        threading.Thread(target=_answer, args=(made, listener.accept()), daemon=True).start()


def _answer(made: Machine, connection: Connection) -> None:
    while True:
        try:
            name, arguments = connection.recv()
        except (EOFError, ConnectionError):
            return
        try:
            answer = (True, made.ask(name, arguments))
        except SysfsError as error:
            answer = (False, (error.operation, error.path, error.errno, error.value))
        try:
            connection.send(answer)
        except ConnectionError:
            return


class Served:
    """The machine as another process sees it: a Sysfs, a Clock, and calls for the test."""

    def __init__(self, path: Path) -> None:
        self._connection = Client(str(path), family="AF_UNIX")

    def read(self, path: str) -> str:
        return str(self._ask("read", path))

    reread = read

    def read_bytes(self, path: str) -> bytes:
        return bytes(self._ask("read_bytes", path))

    def write(self, path: str, value: str) -> None:
        self._ask("write", path, value)

    def exists(self, path: str) -> bool:
        return bool(self._ask("exists", path))

    def listdir(self, path: str) -> tuple[str, ...]:
        return tuple(self._ask("listdir", path))

    def monotonic(self) -> float:
        return float(self._ask("now_s"))

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds / SPEED)

    def end_kdamond(self, index: int) -> None:
        """End a kernel thread."""
        self._ask("end_kdamond", index)

    def refuse(self, end: str, code: int) -> None:
        """Make the kernel refuse writes to paths with this end."""
        assert code in errorcode
        self._ask("refuse", end, code)

    def heal(self) -> None:
        """Make the kernel refuse nothing."""
        self._ask("heal")

    def happen(self, *happenings: WorkloadEvent) -> None:
        """Add events to the workload, due now."""
        self._ask("happen", happenings)

    def bytes_on(self, name: str, node: int) -> int:
        """Return the bytes of a set on a node, as the simulated memory knows them."""
        return int(self._ask("bytes_on", name, node))

    def moved_for_schemes_bytes(self) -> int:
        """Return the bytes that schemes moved, as the simulated memory knows them."""
        return int(self._ask("moved_for_schemes_bytes"))

    def _ask(self, name: str, *arguments: Any) -> Any:
        self._connection.send((name, arguments))
        went_well, answer = self._connection.recv()
        if not went_well:
            raise SysfsError(*answer)
        return answer


@dataclass(frozen=True, slots=True)
class ServedInbox:
    """The daemon's inbox: real events, and waits in the machine's time."""

    inner: SystemInbox

    def wait(self, seconds: float) -> tuple[Event, ...]:
        return self.inner.wait(seconds / SPEED)


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
