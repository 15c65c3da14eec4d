"""A simulated machine in a process of its own, so that the daemon can be killed and the kernel not.

    python -m tests.monitoring.machine SOCKET

It passes its own time, SPEED times as fast as the clock on the wall, and answers whoever connects:
the daemon, which sees a Sysfs and a Clock, and the test, which is the rest of the world.
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
from tierd.sim import machine
from tierd.sim.kernel import SimKernel
from tierd.sim.memory import PageSet
from tierd.sim.spec import PAGE_BYTES
from tierd.sim.workload import Event as Happening
from tierd.sim.workload import Place, Workload
from tierd.sysfs import SysfsError

SERIES = "7.3"
NAME = "two-tier"

# A round of the loop takes half a second of the machine's, and alerts wait for some rounds.
SPEED = 4.0

# How finely time passes, and how much of it at once: one that was frozen, or that has more to do
# than the processor can, does not catch up.
STEP_S = 0.01
STEP_S_MAX = 0.05

FAST, SLOW = 0, 1
MIB = 1 << 20

# On the fast node lie cold pages, on the slow one two sets of hot ones, of which one is to wait.
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
    """A kernel whose time passes, and what may be asked of it, one at a time."""

    kernel: SimKernel
    lock: threading.Lock = field(default_factory=threading.Lock)
    refusals: dict[str, int] = field(default_factory=dict)
    """Ends of paths that refuse writes, and with which errno."""

    def live(self) -> None:
        """For ever. Who asks has a turn between two steps, however much there is to simulate."""
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

    def _happen(self, happenings: tuple[Happening, ...]) -> None:
        workload = self.kernel.engine.workload
        assert workload is not None
        for one in happenings:
            workload.add(one, self.kernel.now_us)

    def _bytes_on(self, name: str, node: int) -> int:
        return self.kernel.memory.set_pages(name, node) * PAGE_BYTES

    def _moved_for_schemes_bytes(self) -> int:
        memory = self.kernel.memory
        counted = [node.counters for node in memory.nodes.values()]
        others = sum(one.pgdemote_kswapd + one.pgpromote_success for one in counted)
        return (memory.counters.pgmigrate_success - others) * PAGE_BYTES


def serve(path: Path) -> None:
    """Until it is killed."""
    kernel = SimKernel(
        SERIES,
        machine.load(NAME),
        seed=1,
        workload=Workload(PLACED, seed=1),
        block_pages=256,
        # Its tiering mode, which a start sees at once, and a running tierd once a minute.
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
    """The machine, from another process: a Sysfs, a Clock, and what else happens to a machine."""

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
        """The kernel thread ends."""
        self._ask("end_kdamond", index)

    def refuse(self, end: str, code: int) -> None:
        """From now on the kernel refuses writes to paths that end so."""
        assert code in errorcode
        self._ask("refuse", end, code)

    def heal(self) -> None:
        """Nothing is refused any more."""
        self._ask("heal")

    def happen(self, *happenings: Happening) -> None:
        """More for the workload to do, at once."""
        self._ask("happen", happenings)

    def bytes_on(self, name: str, node: int) -> int:
        """Pages of a set that lie on a node, as the memory itself knows."""
        return int(self._ask("bytes_on", name, node))

    def moved_for_schemes_bytes(self) -> int:
        """Bytes that changed their node, as the memory itself knows, and not by reclaim."""
        return int(self._ask("moved_for_schemes_bytes"))

    def _ask(self, name: str, *arguments: Any) -> Any:
        self._connection.send((name, arguments))
        went_well, answer = self._connection.recv()
        if not went_well:
            raise SysfsError(*answer)
        return answer


@dataclass(frozen=True, slots=True)
class ServedInbox:
    """The daemon's inbox: real events, and waits of the machine's time."""

    inner: SystemInbox

    def wait(self, seconds: float) -> tuple[Event, ...]:
        return self.inner.wait(seconds / SPEED)


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
