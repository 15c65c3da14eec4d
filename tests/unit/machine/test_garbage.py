"""A damaged file gives an error in one sentence, or a reading that a good file can give."""

import random
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest

from tests.fixtures import machines
from tests.fixtures.garbage import damaged
from tests.fixtures.machines import TextSysfs
from tierd.clock import SystemClock
from tierd.configuration.config import CgroupClass, CgroupMode, Config
from tierd.doctor import doctor, facts
from tierd.doctor.bundle import Recorder
from tierd.errors import TierdError
from tierd.kdamonds.kernel import Kernel
from tierd.machine import (
    cgroups,
    cputime,
    discovery,
    features,
    neighbours,
    process_memory,
    processes,
    sample_reader,
    sysctls,
)
from tierd.planning import plan_here
from tierd.sim import machine_model
from tierd.sim.sim_kernel import SimKernel
from tierd.sysfs import Sysfs, SysfsError

# Trials in `make test`, and in each run.
TRIALS = 2500
SAMPLE = 60

CONFIG = Config(cgroups=(CgroupClass("db", CgroupMode.exclude, ("/db",)),))
PID = 4242


def sampled(sysfs: Sysfs) -> None:
    topology = discovery.survey(sysfs, None)
    there = {kdamond.index: (0,) for kdamond in neighbours.kdamonds(sysfs)}
    sample_reader.read_sample(sysfs, topology, there, 0.0)


def examined(sysfs: Sysfs) -> None:
    kernel = Kernel(sysfs, SystemClock())
    doctor.examine(facts.read(kernel, lambda: CONFIG, lambda: None, is_root=True))


# Readers by the part of tierd.
READERS: Mapping[str, Callable[[Sysfs], object]] = {
    "topology": lambda sysfs: discovery.survey(sysfs, None),
    "capabilities": features.probe,
    "neighbours": neighbours.neighbours,
    "programs": lambda sysfs: (processes.placers(sysfs), processes.processes(sysfs)),
    "memory of processes": lambda sysfs: process_memory.read(sysfs, (1,), 4096, SystemClock()),
    "processor time": lambda sysfs: cputime.read(sysfs, PID, 100),
    "who sets a sysctl": lambda sysfs: sysctls.claims(sysfs, "kernel.numa_balancing"),
    "cgroups": lambda sysfs: cgroups.read(sysfs, ("/db",)),
    "sample": sampled,
    "doctor": examined,
    "plan": lambda sysfs: plan_here(sysfs, CONFIG),
}


@dataclass
class Damaged:
    """A machine with some damaged files."""

    whole: TextSysfs
    files: dict[str, bytes] = field(default_factory=dict)
    listed: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def read(self, path: str) -> str:
        return self.read_bytes(path).decode("utf-8", "surrogateescape").removesuffix("\n")

    reread = read

    def read_bytes(self, path: str) -> bytes:
        return self.files[path] if path in self.files else self.whole.read_bytes(path)

    def write(self, path: str, value: str) -> None:
        self.whole.write(path, value)

    def exists(self, path: str) -> bool:
        return self.whole.exists(path)

    def listdir(self, path: str) -> tuple[str, ...]:
        if path not in self.listed:
            self.listed[path] = self.whole.listdir(path)
        return self.listed[path]


def dumped(kernel: SimKernel, folder: str, files: dict[str, str | bytes]) -> None:
    for name in kernel.listdir(folder):
        path = f"{folder}/{name}"
        try:
            files[path] = kernel.read_bytes(path)
        except SysfsError:
            try:
                dumped(kernel, path, files)
            except SysfsError:
                continue


PROGRAMS: dict[str, str | bytes] = {
    "proc/1/status": "Name:\tdb\nVmRSS:\t  307200 kB\nMems_allowed_list:\t0-1\n",
    "proc/1/comm": "db\n",
    "proc/1/statm": "80000 76800 900 200 0 70000 0\n",
    "proc/1/numa_maps": "7f2e40000000 bind:0 anon=51200 N0=51000 N1=200 kernelpagesize_kB=4\n",
    f"proc/{PID}/stat": f"{PID} (kdamond.0) S 2 0 0 0 -1 2129984 0 0 0 0 0 77 8 0" + " 0" * 35,
    "proc/cmdline": "quiet numa_balancing=enable\n",
    "proc/swaps": "Filename Type Size Used Priority\n/dev/vda2 partition 1 0 -2\n",
    "etc/tuned/active_profile": "throughput\n",
    "etc/tuned/throughput/tuned.conf": "[main]\ninclude=base\n[sysctl]\nkernel.numa_balancing=1\n",
    "usr/lib/tuned/base/tuned.conf": "[main]\nsummary=a\n b\n[sysctl]\nkernel.numa_balancing = 0\n",
    "etc/sysctl.d/90-numa.conf": "kernel.numa_balancing = 2\n",
    "sys/fs/cgroup/cgroup.procs": "",
    "sys/fs/cgroup/db/memory.current": "4096\n",
    "sys/fs/cgroup/db/job/memory.current": "4096\n",
    "sys/kernel/mm/lru_gen/enabled": "0x0007\n",
    "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
    "sys/module/zswap/parameters/enabled": "Y\n",
}


@cache
def busy() -> TextSysfs:
    """Return a machine on which tierd runs, with programs, cgroups and settings."""
    kernel = SimKernel("7.3", machine_model.load("three-tier"), block_pages=512)
    kernel.add_cgroup("/db")
    # damon_stat would use DAMON alone.
    kernel.write("sys/module/damon_stat/parameters/enabled", "N")
    for write in plan_here(kernel, CONFIG).writes:
        kernel.write(write.path, write.value)
    files: dict[str, str | bytes] = {}
    for folder in ("sys", "proc"):
        dumped(kernel, folder, files)
    files |= PROGRAMS
    return TextSysfs(files)


def readers_by_file(whole: TextSysfs) -> Mapping[str, list[str]]:
    """Return the readers of each file."""
    found: dict[str, list[str]] = defaultdict(list)
    for name, reader in READERS.items():
        recorder = Recorder(Damaged(whole))
        try:
            reader(recorder)
        except (TierdError, IndexError):
            # The machine does not have what this reader reads.
            continue
        for path in (*recorder.texts, *recorder.blobs):
            found[path].append(name)
    return found


def attempt(sysfs: Damaged, reader: str) -> None:
    with suppress(TierdError):
        READERS[reader](sysfs)


@pytest.mark.parametrize(
    "trials", [SAMPLE, pytest.param(TRIALS, marks=pytest.mark.thorough)], ids=str
)
@pytest.mark.parametrize("reader", READERS)
def test_each_reader_says_a_sentence(reader: str, trials: int) -> None:
    whole = busy()
    paths = sorted(path for path, readers in readers_by_file(whole).items() if reader in readers)
    assert paths
    sysfs = Damaged(whole)
    chance = random.Random(f"{reader} {trials}")
    for _ in range(trials):
        path = chance.choice(paths)
        sysfs.files = {path: damaged(whole.read_bytes(path), chance)}
        attempt(sysfs, reader)


@pytest.mark.parametrize(
    "trials", [SAMPLE, pytest.param(TRIALS, marks=pytest.mark.thorough)], ids=str
)
@pytest.mark.parametrize("name", machines.names())
def test_each_file_of_a_captured_machine_is_a_sentence(name: str, trials: int) -> None:
    whole = machines.load(name).sysfs
    by_file = readers_by_file(whole)
    sysfs = Damaged(whole)
    chance = random.Random(f"{name} {trials}")
    paths = chance.sample(sorted(by_file), len(by_file))
    for trial in range(trials):
        # Files take turns, so that each is damaged equally often.
        path = paths[trial % len(paths)]
        sysfs.files = {path: damaged(whole.read_bytes(path), chance)}
        for reader in by_file[path]:
            attempt(sysfs, reader)


@pytest.mark.parametrize(
    "trials", [SAMPLE, pytest.param(TRIALS, marks=pytest.mark.thorough)], ids=str
)
@pytest.mark.parametrize("name", machine_model.names())
def test_each_file_that_describes_a_machine_is_a_sentence(name: str, trials: int) -> None:
    whole = (Path(machine_model.__file__).parent / f"machines/{name}.json").read_bytes()
    chance = random.Random(f"{name} {trials}")
    for _ in range(trials):
        text = damaged(whole, chance).decode("utf-8", "surrogateescape")
        with suppress(TierdError):
            machine_model.parse(name, text)
