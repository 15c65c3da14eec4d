"""A simulated kernel that two threads can use: the daemon's, and the one for other commands."""

import threading
from dataclasses import field

from tierd.frozen import dataclass
from tierd.sim.sim_kernel import SimKernel


@dataclass(frozen=True, slots=True)
class SharedKernel:
    """A Sysfs and a Clock in virtual time, with one operation at a time."""

    kernel: SimKernel
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def read(self, path: str) -> str:
        with self._lock:
            return self.kernel.read(path)

    reread = read

    def read_bytes(self, path: str) -> bytes:
        with self._lock:
            return self.kernel.read_bytes(path)

    def write(self, path: str, value: str) -> None:
        with self._lock:
            self.kernel.write(path, value)

    def exists(self, path: str) -> bool:
        with self._lock:
            return self.kernel.exists(path)

    def listdir(self, path: str) -> tuple[str, ...]:
        with self._lock:
            return self.kernel.listdir(path)

    def advance(self, seconds: float) -> None:
        with self._lock:
            self.kernel.advance(seconds)

    def monotonic(self) -> float:
        return self.kernel.now_us / 1_000_000

    def sleep(self, seconds: float) -> None:
        self.advance(seconds)
