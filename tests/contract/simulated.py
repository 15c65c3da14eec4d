"""The simulated kernel as a subject, fresh for every behaviour."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TypeVar

from tests.contract.behaviour import Behaviour
from tests.contract.run import Line, one
from tests.contract.sets import HOT_HZ
from tests.contract.subject import modules_enabled
from tierd.sim import machine_model
from tierd.sim.memory import PageSet
from tierd.sim.sim_kernel import SimClock, SimKernel

T = TypeVar("T")

MACHINE = "two-tier"


@dataclass(slots=True)
class SimSets:
    """Sets of pages of the memory model."""

    kernel: SimKernel
    _names: set[str] = field(default_factory=set)

    def place(self, name: str, nid: int, size_bytes: int, *, only: bool = False) -> None:
        self._put(PageSet(name), nid, size_bytes, only=only)

    def cache(self, name: str, nid: int, size_bytes: int) -> None:
        self._put(PageSet(name, anon=False), nid, size_bytes, only=False)

    def heat(self, name: str, rate_hz: float = HOT_HZ) -> None:
        self.kernel.memory.set_rate(name, rate_hz)

    def where(self, name: str) -> Mapping[int, int]:
        memory = self.kernel.memory
        pages = {nid: memory.pages_of_set(name, nid) for nid in memory.nodes}
        return {nid: count for nid, count in pages.items() if count}

    def free(self, name: str) -> None:
        self.kernel.memory.forget_set(name)
        self._names.discard(name)

    def close(self) -> None:
        for name in sorted(self._names):
            self.free(name)

    def _put(self, page_set: PageSet, nid: int, size_bytes: int, *, only: bool) -> None:
        memory = self.kernel.memory
        memory.add_set(page_set)
        self._names.add(page_set.name)
        nodes = (nid,) if only else tuple(memory.fallback_order(nid))
        memory.populate(page_set.name, size_bytes // memory.page_bytes, nodes)


@dataclass(slots=True)
class SimSubject:
    """A simulated kernel of a series."""

    sysfs: SimKernel
    clock: SimClock = field(init=False)
    sets: SimSets = field(init=False)
    at_boot: Mapping[str, str] = field(init=False)

    def __post_init__(self) -> None:
        self.clock = SimClock(self.sysfs)
        self.sets = SimSets(self.sysfs)
        self.at_boot = modules_enabled(self.sysfs)

    def during(self, path: str, value: str, attempt: Callable[[], T]) -> T:
        return self.sysfs.during(path, value, attempt)

    def make_cgroup(self, name: str) -> str:
        path = str(PurePosixPath("/") / name)
        self.sysfs.add_cgroup(path)
        return path

    def remove_cgroup(self, name: str) -> None:
        self.sysfs.remove_cgroup(str(PurePosixPath("/") / name))


def see(entry: Behaviour, series: str, seed: int = 0) -> Line:
    """Run a behaviour on a new simulated kernel."""
    return one(entry, SimSubject(SimKernel(series, machine_model.load(MACHINE), seed)))


def lines(behaviours: tuple[Behaviour, ...], series: str, times: int = 1) -> Iterator[Line]:
    """Run each behaviour several times, each time with another seed."""
    for seed in range(times):
        for entry in behaviours:
            yield {"id": entry.id, **see(entry, series, seed), "took_s": 0.0}
