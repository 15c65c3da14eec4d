"""A simulated Linux kernel with DAMON, which is read and written like a real one.

* Paths, formats, checks and errnos are those of the chosen kernel series.
* Time is virtual. It passes in `advance()`, in `SimClock.sleep()`, and while a command of `state`
  runs, which takes as long as on the real kernel.
* Equal seeds and equal operations give equal histories. `journal` keeps every write, and `fail()`
  makes later operations fail.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from errno import EACCES, EIO, ENOENT
from random import Random
from typing import TypeVar

from tierd.frozen import dataclass
from tierd.machine import btf
from tierd.sim import kernel_series
from tierd.sim.block_memory import BlockMemory
from tierd.sim.context_builder import Lookup
from tierd.sim.damon_lock import DamonLock
from tierd.sim.damon_modules import DamonModule, LruGen, Switch
from tierd.sim.file_tree import Directory, File, Live, Refused, may_read, may_write
from tierd.sim.firmware import ram_of_modules
from tierd.sim.interleave_files import WeightedInterleave
from tierd.sim.kdamond_threads import KdamondThreads
from tierd.sim.machine_model import MachineModel
from tierd.sim.memory import Memory
from tierd.sim.memory_blocks import MemoryBlocks
from tierd.sim.node_files import Nodes
from tierd.sim.page_groups import GroupMemory
from tierd.sim.procfs import Procfs
from tierd.sim.refresh import Refresher
from tierd.sim.scheduler import Scheduler
from tierd.sim.state_commands import KdamondsDirectory, KernelParts
from tierd.sim.workload import Workload
from tierd.sysfs import SysfsError
from tierd.units import format_ids

T = TypeVar("T")

DAMON = "sys/kernel/mm/damon/admin/kdamonds"
CGROUPS = "sys/fs/cgroup"

# init and kthreadd.
_PROCESSES = (1, 2)


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """One write to a file; `errno` is set if the write was refused."""

    at_us: int
    path: str
    value: str
    errno: int | None


@dataclass(frozen=True, slots=True)
class InjectedFailure:
    """Operation number `at`, counted from 1, must fail; with `for_ever` all later ones too."""

    at: int
    errno: int
    for_ever: bool = False


class SimKernel:
    """A machine that runs a kernel of one series; see the module's docstring."""

    def __init__(
        self,
        series: str,
        machine: MachineModel,
        seed: int = 0,
        *,
        workload: Workload | None = None,
        block_pages: int | None = None,
        cell_pages: int | None = None,
        look_ns: int | None = None,
        numa_balancing: int = 1,
        root: bool = True,
    ) -> None:
        self.series = kernel_series.load(series)
        self.machine = machine
        self.root = root
        self.cgroups = {"/"}
        self.journal: list[JournalEntry] = []
        self.operations = 0
        rng = Random(seed)
        memory_rng = Random(rng.random())
        self.memory: Memory = (
            BlockMemory(machine, memory_rng, block_pages=block_pages)
            if cell_pages is None
            else GroupMemory(machine, memory_rng, cell_pages=cell_pages)
        )
        if look_ns is not None:
            self.memory.look_ns = look_ns
        self.scheduler = Scheduler(
            self.memory,
            self.series.kdamond_quirks,
            rng.getrandbits(32),
            workload,
            has_process=self._has_process,
        )
        self.lock = DamonLock()
        self._failures: list[InjectedFailure] = []
        self._files = Directory()
        self._threads = KdamondThreads(Random(rng.random()), lambda: self.scheduler.now_us)
        self._install_damon()
        self._procfs = Procfs(
            machine, self.memory, self.series, self._threads, lambda: self.scheduler.now_us
        )
        self._procfs.install(self._files, numa_balancing=numa_balancing)
        self._nodes = Nodes(machine, self.memory, self.series)
        self._nodes.install(self._files)
        self._blocks = MemoryBlocks(self.memory, self._memory_changed)
        self._blocks.install(self._files)
        WeightedInterleave(
            machine,
            self._nodes.with_memory,
            auto=self.series.sysfs_quirks.interleave_auto,
        ).install(self._files)
        demotion = Switch(lambda: self.memory.demotion_enabled, self._set_demotion)
        self._files.put("sys/kernel/mm/numa/demotion_enabled", demotion)
        self._files.put("sys/kernel/mm/lru_gen/enabled", LruGen(self.series.lru_gen))
        self.add_cgroup("/")

    # The Sysfs protocol.

    def read(self, path: str) -> str:
        """Return the text of a file without its trailing newline."""
        try:
            self._count(path)
            file = self._file(path)
            if not may_read(file, root=self.root):
                raise Refused(EACCES)
            return file.read()
        except Refused as refused:
            raise SysfsError("read", path, refused.code) from refused

    reread = read

    def read_bytes(self, path: str) -> bytes:
        """Return the content of a file as bytes."""
        if path != btf.PATH:
            return (self.read(path) + "\n").encode()
        try:
            self._count(path)
        except Refused as refused:
            raise SysfsError("read", path, refused.code) from refused
        return self.series.types

    def write(self, path: str, value: str) -> None:
        """Write the whole value with one write(2)."""
        code = None
        try:
            self._count(path)
            self._write(path, value)
        except Refused as refused:
            code = refused.code
            raise SysfsError("write", path, code, value) from refused
        finally:
            self.journal.append(JournalEntry(self.scheduler.now_us, path, value, code))

    def exists(self, path: str) -> bool:
        """True if there is a file or a directory at this path."""
        try:
            self._find(path)
        except Refused:
            return False
        return True

    def listdir(self, path: str) -> tuple[str, ...]:
        """Return the names in a directory."""
        try:
            self._count(path)
            found = self._find(path)
            if not isinstance(found, Directory):
                found = self._files.directory(path)
        except Refused as refused:
            raise SysfsError("list", path, refused.code) from refused
        names = set(found.entries)
        if path == "proc":
            names |= {str(pid) for pid in self._threads.running()}
        return tuple(sorted(names))

    # Control: for tests and for the simulated machine, not for tierd.

    @property
    def now_us(self) -> int:
        """Virtual time since the simulation began."""
        return self.scheduler.now_us

    def advance(self, seconds: float) -> None:
        """Let virtual time pass. A wait that is longer than 0 takes at least a microsecond."""
        wait_us = max(round(seconds * 1_000_000), 1 if seconds > 0 else 0)
        self._refresher.advance(self.scheduler.now_us + wait_us)

    def fail(self, failure: InjectedFailure) -> None:
        """Make operations on files fail; `operations` counts the operations so far."""
        self._failures.append(failure)

    def heal(self) -> None:
        """Forget all injected failures."""
        self._failures.clear()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold DAMON's lock, as another user's command does; others get EBUSY meanwhile."""
        self.lock.held = True
        try:
            yield
        finally:
            self.lock.held = False

    def during(self, path: str, value: str, attempt: Callable[[], T]) -> T:
        """Return the result of `attempt`, made while another user's command is being served."""
        seen: list[T] = []
        self.lock.meanwhile = lambda: seen.append(attempt())
        try:
            self.write(path, value)
        finally:
            self.lock.meanwhile = None
        if not seen:
            raise ValueError(f"{value!r} to {path} waits for nothing")
        return seen[0]

    def end_kdamond(self, index: int) -> None:
        """End the thread of a kdamond, as happens when all its target processes have exited."""
        self._kdamonds.items[index].end()

    def effective_bytes(self, index: int) -> tuple[int, ...]:
        """Return the effective quotas of a kdamond's schemes, without a command to the kdamond."""
        return self._kdamonds.items[index].effective_bytes

    def set_node(self, nid: int, *, online: bool) -> None:
        """Unplug all memory of a node, or plug it in again."""
        self._blocks.set_node(nid, online=online)

    def add_cgroup(self, path: str, mems: str = "") -> None:
        """Create a memory cgroup with a path such as "/a/b".

        If a cpuset binds it to some of the nodes, `mems` lists them.
        """
        self.cgroups.add(path)
        folder = self._files.make(f"{CGROUPS}{path}".rstrip("/"))
        folder.put("cgroup.controllers", Live(lambda: "memory"))
        folder.put("cgroup.subtree_control", Live(lambda: "cpuset memory"))
        folder.put("cgroup.procs", Live(lambda: "", lambda _: None))
        everywhere = format_ids(self.memory.nodes)
        folder.put("cpuset.mems.effective", Live(lambda: mems or everywhere))
        folder.put("memory.current", Live(lambda: str(self._cgroup_bytes(path))))
        folder.put("memory.numa_stat", Live(lambda: self._cgroup_numa_stat(path)))

    def remove_cgroup(self, path: str) -> None:
        """Remove a memory cgroup."""
        self.cgroups.discard(path)
        parent, _, name = f"{CGROUPS}{path}".rpartition("/")
        del self._files.directory(parent).entries[name]

    def files(self, folder: str) -> tuple[str, ...]:
        """Return the paths of all files below a directory."""
        return tuple(self._files.directory(folder).walk())

    def _install_damon(self) -> None:
        lookup = Lookup(
            self.machine.page_bytes,
            has_cgroup=self.cgroups.__contains__,
            has_process=self._has_process,
        )
        kernel = KernelParts(self.series, self.scheduler, self._threads, lookup, self.lock)
        self._kdamonds = KdamondsDirectory(kernel)
        self._threads.alive = self._kdamonds.pids
        self._threads.cpu_us = self._kdamonds.cpu_us
        self._refresher = Refresher(self.scheduler, self._kdamonds)
        folder, _, name = DAMON.rpartition("/")
        self._files.make(folder).entries[name] = self._kdamonds.folder
        whole_ram = ram_of_modules(self.memory, whole=self.series.sysfs_quirks.modules_watch_all)
        for module_name, parameters in self.series.modules.items():
            module = DamonModule(parameters, self._threads, whole_ram)
            self._files.make(f"sys/module/{module_name}").entries["parameters"] = module.folder
            module.enable(module_name in self.series.modules_on)
        self._files.put(btf.PATH, Live(lambda: self.series.types.decode("latin-1")))

    def _set_demotion(self, on: bool) -> None:
        self.memory.demotion_enabled = on

    def _memory_changed(self) -> None:
        """Update watermarks and tiers after memory blocks went offline or online."""
        self._procfs.set_watermarks()
        self._nodes.install_tiers(self._files)

    def _has_process(self, pid: int) -> bool:
        return pid in _PROCESSES or pid in self._threads.running()

    def _cgroup_bytes(self, path: str) -> int:
        pages = sum(self.memory.cgroup_pages(path, nid) for nid in self.memory.nodes)
        return pages * self.memory.page_bytes

    def _cgroup_numa_stat(self, path: str) -> str:
        nodes = (
            f"N{nid}={self.memory.cgroup_pages(path, nid) * self.memory.page_bytes}"
            for nid in self.memory.nodes
        )
        return f"anon {' '.join(nodes)}"

    def _count(self, path: str) -> None:
        """Count an operation, and refuse it if a failure was injected for it."""
        if path.partition("/")[0] not in ("sys", "proc"):
            raise Refused(ENOENT)
        self.operations += 1
        for failure in self._failures:
            if self.operations == failure.at or (failure.for_ever and self.operations > failure.at):
                raise Refused(failure.errno)

    def _find(self, path: str) -> Directory | File:
        first, _, rest = path.partition("/")
        pid, _, inner = rest.partition("/")
        if first == "proc" and pid.isdigit():
            folder = self._procfs.process(int(pid))
            if folder is None:
                raise Refused(ENOENT)
            return folder.find(inner) if inner else folder
        return self._files.find(path)

    def _write(self, path: str, value: str) -> None:
        file = self._file(path)
        if not may_write(file, root=self.root) and not (self.root and path.startswith("proc/")):
            raise Refused(EACCES)
        if not value:
            return  # sysfs_kf_write() has nothing to hand on
        # sysfs takes at most a page in one write(2).
        most = self.memory.page_bytes
        if len(value.encode("utf-8", "surrogateescape")) > most:
            file.write(value[:most])
            raise Refused(EIO)
        file.write(value)
        self._refresher.skip()

    def _file(self, path: str) -> File:
        found = self._find(path)
        return self._files.file(path) if isinstance(found, Directory) else found


@dataclass(frozen=True, slots=True)
class SimClock:
    """A Clock in the virtual time of the simulated machine."""

    kernel: SimKernel

    def monotonic(self) -> float:
        return self.kernel.now_us / 1_000_000

    def sleep(self, seconds: float) -> None:
        self.kernel.advance(seconds)
