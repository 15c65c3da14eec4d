"""The kernel of a guest as a subject. It works only inside a guest."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from tests.contract.sets import WorkloadSets
from tests.contract.subject import modules_enabled
from tests.vm.guard import require_guest
from tierd.clock import SystemClock
from tierd.sysfs import RealSysfs, SysfsError

T = TypeVar("T")

CGROUPS = Path("/sys/fs/cgroup")

# Freed pages rest in lists of each processor and are not "free" to any counter until they leave:
# on a small node that can be a tenth of it, for seconds. A share this small empties them at once.
PER_CPU_LISTS = "proc/sys/vm/percpu_pagelist_high_fraction"
PER_CPU_SHARE = "100000"

# A writer that is to be served after seconds has begun its write(2) by now.
BEGUN_S = 0.3
JOIN_S = 60.0


class NotDuring(AssertionError):
    """The other writer was served before the attempt was made: nothing was seen."""


@dataclass(slots=True)
class RealSubject:
    """This guest. `workload` is the program that holds memory sets."""

    workload: Path
    sysfs: RealSysfs = field(default_factory=RealSysfs)
    clock: SystemClock = field(default_factory=SystemClock)
    sets: WorkloadSets = field(init=False)
    at_boot: Mapping[str, str] = field(init=False)

    def __post_init__(self) -> None:
        require_guest()
        self.sysfs.write(PER_CPU_LISTS, PER_CPU_SHARE)
        self.sets = WorkloadSets(self.workload, Path("/var/tmp"))
        self.at_boot = modules_enabled(self.sysfs)

    def during(self, path: str, value: str, attempt: Callable[[], T]) -> T:
        begun = threading.Event()

        def write() -> None:
            begun.set()
            try:
                self.sysfs.write(path, value)
            except SysfsError:
                # The result of the other writer does not matter here.
                return

        other = threading.Thread(target=write, daemon=True)
        other.start()
        begun.wait()
        self.clock.sleep(BEGUN_S)
        try:
            seen = attempt()
            if not other.is_alive():
                raise NotDuring(f"{value} to {path} took less than {BEGUN_S} s")
            return seen
        finally:
            other.join(JOIN_S)

    def make_cgroup(self, name: str) -> str:
        (CGROUPS / "cgroup.subtree_control").write_text("+memory")
        (CGROUPS / name).mkdir()
        return f"/{name}"

    def remove_cgroup(self, name: str) -> None:
        (CGROUPS / name).rmdir()
