"""A Linux kernel with DAMON, simulated behind the same file protocol as the real one.

* Paths, formats, checks and errnos are those of the series that the profile was captured from.
* Time is virtual: `advance()` lets it pass, `SimClock.sleep()` does, and a command of `state`
  takes as long as on the real kernel.
* Equal seeds and equal operations give equal histories. Every write is kept in `journal`, and
  `fail()` refuses operations to come.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from errno import EACCES, EIO, ENOENT
from random import Random
from typing import TypeVar

from tierd.machine import btf
from tierd.sim import profile as profiles
from tierd.sim.commands import Kdamonds, Kernel
from tierd.sim.context import World
from tierd.sim.engine import Engine
from tierd.sim.firmware import ram_of_modules
from tierd.sim.hotplug import Blocks
from tierd.sim.lock import Lock
from tierd.sim.machine import Machine
from tierd.sim.memory import Memory
from tierd.sim.modules import LruGen, Module, Switch
from tierd.sim.nodes import Nodes
from tierd.sim.procfs import Procfs
from tierd.sim.refresh import Refresher
from tierd.sim.threads import Threads
from tierd.sim.tree import Directory, File, Live, Refused, may_read, may_write
from tierd.sim.workload import Workload
from tierd.sysfs import SysfsError

T = TypeVar("T")

DAMON = "sys/kernel/mm/damon/admin/kdamonds"
CGROUPS = "sys/fs/cgroup"

# sysfs takes at most a page in one write(2).
_WRITE_BYTES_MAX = 4096
# init and kthreadd; whoever else is to exist is added.
_PROCESSES = (1, 2)


@dataclass(frozen=True, slots=True)
class Written:
    """One write: when, where, what, and the errno if it was refused."""

    at_us: int
    path: str
    value: str
    errno: int | None


@dataclass(frozen=True, slots=True)
class Failure:
    """Operations that are to fail: number `at` (from 1, of all there ever were), or from it on."""

    at: int
    errno: int
    for_ever: bool = False


class SimKernel:
    """A machine under a kernel of that series; see the module."""

    def __init__(
        self,
        profile_name: str,
        machine: Machine,
        seed: int = 0,
        *,
        workload: Workload | None = None,
        block_pages: int | None = None,
        numa_balancing: int = 1,
        root: bool = True,
    ) -> None:
        self.profile = profiles.load(profile_name)
        self.machine = machine
        self.root = root
        self.cgroups = {"/"}
        self.processes = set(_PROCESSES)
        self.journal: list[Written] = []
        self.operations = 0
        rng = Random(seed)
        self.memory = Memory(machine, Random(rng.random()), block_pages=block_pages)
        self.engine = Engine(
            self.memory,
            self.profile.quirks,
            rng.getrandbits(32),
            workload,
            has_process=self._has_process,
        )
        self.lock = Lock()
        self._failures: list[Failure] = []
        self._files = Directory()
        self._threads = Threads(Random(rng.random()), lambda: self.engine.now_us)
        self._install_damon()
        self._procfs = Procfs(
            machine, self.memory, self.profile, self._threads, lambda: self.engine.now_us
        )
        self._procfs.install(self._files, numa_balancing=numa_balancing)
        self._nodes = Nodes(machine, self.memory, self.profile)
        self._nodes.install(self._files)
        self._blocks = Blocks(self.memory, self._memory_changed)
        self._blocks.install(self._files)
        self._install_mm()

    # The Sysfs protocol.

    def read(self, path: str) -> str:
        """The text of a file, without its trailing newline."""
        try:
            self._count(path)
            return self._open_to_read(path).read()
        except Refused as refused:
            raise SysfsError("read", path, refused.code) from refused

    reread = read

    def read_bytes(self, path: str) -> bytes:
        """The content of a file."""
        if path != btf.PATH:
            return (self.read(path) + "\n").encode()
        try:
            self._count(path)
        except Refused as refused:
            raise SysfsError("read", path, refused.code) from refused
        return self.profile.types

    def write(self, path: str, value: str) -> None:
        """One write(2) of the whole value."""
        code = None
        try:
            self._count(path)
            self._write(path, value)
        except Refused as refused:
            code = refused.code
            raise SysfsError("write", path, code, value) from refused
        finally:
            self.journal.append(Written(self.engine.now_us, path, value, code))

    def exists(self, path: str) -> bool:
        """Whether the path leads anywhere."""
        try:
            self._find(path)
        except Refused:
            return False
        return True

    def listdir(self, path: str) -> tuple[str, ...]:
        """The names in a directory."""
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

    # What tests and the simulated machine do to it.

    @property
    def now_us(self) -> int:
        """Virtual time since the simulation began."""
        return self.engine.now_us

    def advance(self, seconds: float) -> None:
        """Let virtual time pass: a microsecond at least for one who waits at all."""
        wait_us = max(round(seconds * 1_000_000), 1 if seconds > 0 else 0)
        self._refresher.advance(self.engine.now_us + wait_us)

    def fail(self, failure: Failure) -> None:
        """Let operations on files fail; `operations` tells how many there have been."""
        self._failures.append(failure)

    def heal(self) -> None:
        """Nothing fails any more."""
        self._failures.clear()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Somebody else's command is under way: what takes DAMON's lock answers EBUSY."""
        self.lock.held = True
        try:
            yield
        finally:
            self.lock.held = False

    def during(self, path: str, value: str, attempt: Callable[[], T]) -> T:
        """What an attempt gives while somebody else's command is being served."""
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
        """The thread of a kdamond ends by itself, as after the exit of all its targets."""
        self._kdamonds.items[index].end()

    def effective_bytes(self, index: int) -> tuple[int, ...]:
        """The quotas in force of a kdamond's schemes, without a command that others wait for."""
        return self._kdamonds.items[index].effective_bytes

    def set_node(self, nid: int, *, online: bool) -> None:
        """All memory of a node is unplugged, or plugged in again."""
        self._blocks.set_node(nid, online=online)

    def add_cgroup(self, path: str) -> None:
        """Make a memory cgroup, as "/a/b"."""
        self.cgroups.add(path)
        folder = self._files.make(f"{CGROUPS}{path}".rstrip("/"))
        folder.put("cgroup.procs", Live(lambda: "", lambda _: None))
        folder.put("memory.current", Live(lambda: str(self._cgroup_bytes(path))))
        folder.put("memory.numa_stat", Live(lambda: self._cgroup_numa_stat(path)))

    def remove_cgroup(self, path: str) -> None:
        """Remove a memory cgroup."""
        self.cgroups.discard(path)
        parent, _, name = f"{CGROUPS}{path}".rpartition("/")
        del self._files.directory(parent).entries[name]

    def add_process(self, pid: int) -> None:
        """Let a process exist, to be a target of vaddr."""
        self.processes.add(pid)

    def files(self, folder: str) -> tuple[str, ...]:
        """Every file below a directory."""
        return tuple(self._files.directory(folder).walk())

    def _install_damon(self) -> None:
        world = World(has_cgroup=self.cgroups.__contains__, has_process=self._has_process)
        kernel = Kernel(self.profile, self.engine, self._threads, world, self.lock)
        self._kdamonds = Kdamonds(kernel)
        self._threads.alive = self._kdamonds.pids
        self._refresher = Refresher(self.engine, self._kdamonds)
        folder, _, name = DAMON.rpartition("/")
        self._files.make(folder).entries[name] = self._kdamonds.folder
        whole_ram = ram_of_modules(self.memory, whole=self.profile.answers.modules_watch_all)
        for module_name, parameters in self.profile.modules.items():
            module = Module(parameters, self._threads, whole_ram)
            self._files.make(f"sys/module/{module_name}").entries["parameters"] = module.folder
            module.enable(module_name in self.profile.modules_on)
        self._files.put(btf.PATH, Live(lambda: self.profile.types.decode("latin-1")))

    def _install_mm(self) -> None:
        numa = "sys/kernel/mm/numa/demotion_enabled"
        self._files.put(numa, Switch(self._demotion, self._set_demotion))
        self._files.put("sys/kernel/mm/lru_gen/enabled", LruGen(self.profile.lru_gen))
        self.add_cgroup("/")

    def _demotion(self) -> bool:
        return self.memory.demotion_enabled

    def _set_demotion(self, on: bool) -> None:
        self.memory.demotion_enabled = on

    def _memory_changed(self) -> None:
        """Blocks went or came: watermarks and tiers follow."""
        self._procfs.set_watermarks()
        self._nodes.install_tiers(self._files)

    def _has_process(self, pid: int) -> bool:
        return pid in self.processes or pid in self._threads.running()

    def _cgroup_bytes(self, path: str) -> int:
        pages = sum(self.memory.cgroup_pages(path, nid) for nid in self.memory.nodes)
        return pages * 4096

    def _cgroup_numa_stat(self, path: str) -> str:
        nodes = (
            f"N{nid}={self.memory.cgroup_pages(path, nid) * 4096}" for nid in self.memory.nodes
        )
        return f"anon {' '.join(nodes)}"

    def _count(self, path: str) -> None:
        """One more operation; refused if it was to fail."""
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

    def _open_to_read(self, path: str) -> File:
        file = self._file(path)
        if not may_read(file, root=self.root):
            raise Refused(EACCES)
        return file

    def _write(self, path: str, value: str) -> None:
        file = self._file(path)
        if not may_write(file, root=self.root) and not (self.root and path.startswith("proc/")):
            raise Refused(EACCES)
        if not value:
            return  # sysfs_kf_write() has nothing to hand on
        if len(value.encode()) > _WRITE_BYTES_MAX:
            file.write(value[:_WRITE_BYTES_MAX])
            raise Refused(EIO)
        file.write(value)
        self._refresher.skip()

    def _file(self, path: str) -> File:
        found = self._find(path)
        return self._files.file(path) if isinstance(found, Directory) else found


@dataclass(frozen=True, slots=True)
class SimClock:
    """A Clock whose sleep is the simulated machine's time."""

    kernel: SimKernel

    def monotonic(self) -> float:
        return self.kernel.now_us / 1_000_000

    def sleep(self, seconds: float) -> None:
        self.kernel.advance(seconds)
