"""Runs one timeline in a guest or on this machine."""

import json
import os
import platform
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench import place, program, turns
from bench.errors import BenchError
from bench.phase import Phase
from tests.contract.guests import workload
from tests.vm import built, guest, rootfs
from tests.vm.errors import VmError
from tests.vm.slow import Slowness
from tierd.sim import machine_model
from tierd.sim.machine_model import MachineModel
from tierd.sysfs import RealSysfs

MACHINE = "two-tier"

# Seconds of a boot beside its phases: to lay out memory, to start and to end. This is twenty times
# what an idle host needs.
OVERHEAD_S = 300.0


def in_guest(
    series: str, configuration: str, phases: tuple[Phase, ...], cap: int, stretch: int = 0
) -> dict[str, Any]:
    """Boot a guest of this series and run the timeline there.

    With `stretch` its memory is so many times as slow as the machine's figures.
    """
    most_s = sum(2 * one.bound_s * one.repeats for one in phases) + OVERHEAD_S
    slow, append = (Slowness(stretch=stretch), DROPS_TRANSLATIONS) if stretch else (None, "")
    if slow:
        most_s += SERVING_OVERHEAD_S
    argv = ("python3", *_argv(Path("/job/workload"), configuration, phases, cap))
    files = {"workload": workload().read_bytes()}
    try:
        verdict = guest.run(
            series, machine_model.load(MACHINE), [guest.Command(argv, most_s)], files,
            append=append, slow=slow,
        )  # fmt: skip
    except VmError as error:
        raise BenchError(f"no virtual machine: {error}") from error
    result = verdict.results[0]
    if result.status != 0:
        raise BenchError(f"{configuration} on {series}: {result.status}\n{result.stderr[-2000:]}")
    told: dict[str, Any] = json.loads(result.stdout)
    return {**told, "release": verdict.release, **({"slowness": asdict(slow)} if slow else {})}


# DAMON misses an access if the emulator still has the translation of its address. With this option
# the guest's kernel drops all translations at each system call.
DROPS_TRANSLATIONS = "pti=on"

# How many times as slow as its figures memory is, so that computing and waiting have about the
# ratio of a real machine. User code runs 10 to 20 times as slowly in a guest as on its host, and
# 1.4 to 4 times as slowly again with the plugin (tests/vm/README.md). This is the middle of both.
STRETCH = 40

# Seconds to boot, to fill and to end on a busy host. They are added to the seconds of the turns.
SERVING_OVERHEAD_S = 2400.0


@dataclass(frozen=True, slots=True)
class Sized:
    """A machine of another size, and how many items its program gets."""

    machine: MachineModel
    items: int = 0
    """0 is as many as fit the size of the fast node."""
    stretch: int = STRETCH


def serve(
    series: str,
    contenders: tuple[str, ...],
    name: str,
    seconds: tuple[int, int],
    cap: int,
    seconds_max: int = 0,
    sized: Sized | None = None,
) -> list[tuple[str, dict[str, Any]]]:
    """Boot a guest with slow memory, and give each contender its turn beside a program.

    Return the contender of each turn, and what was seen in it. With `seconds_max` no turn begins
    for which the guest would have to be up for longer than this. `sized` is another machine.
    """
    words = ("--program", name, "--turns", ",".join(contenders))
    lengths = ("--before", str(seconds[0]), "--after", str(seconds[1]), "--cap", str(cap))
    most = ("--seconds-max", str(seconds_max), "--items", str(sized.items if sized else 0))
    command = guest.Command(
        ("python3", "-B", "-m", "bench.serving", *words, *lengths, *most),
        2 * sum(seconds) * len(contenders) + SERVING_OVERHEAD_S,
    )
    two_tier = sized.machine if sized else machine_model.load(MACHINE)
    slow = Slowness(stretch=sized.stretch if sized else STRETCH)
    try:
        verdict = guest.run(
            series, two_tier, [command], drivers(), append=DROPS_TRANSLATIONS,
            suite=rootfs.NEWER_SUITE, slow=slow, programs=program.PACKAGES,
        )  # fmt: skip
    except VmError as error:
        raise BenchError(f"no virtual machine: {error}") from error
    result = verdict.results[0]
    if result.status != 0:
        raise BenchError(f"{name} on {series}: {result.status}\n{result.stderr[-2000:]}")
    told: dict[str, Any] = json.loads(result.stdout)
    settings = {"slowness": asdict(slow), "machine": two_tier.name, "release": verdict.release}
    nodes = [node.id for node in two_tier.nodes]
    return [(one, {**seen, **settings}) for one, seen in turns.split(told, verdict.marks, nodes)]


def drivers() -> dict[str, bytes]:
    """Return our own programs that the guest needs, by their names in /job."""
    return {
        name: built.program(name, libraries).read_bytes()
        for name, libraries in program.DRIVERS.items()
    }


def here(configuration: str, phases: tuple[Phase, ...], cap: int) -> dict[str, Any]:
    """Run the timeline on this machine. It changes the kernel's settings for that time."""
    if os.geteuid() != 0:
        raise BenchError("--here changes how this machine's kernel places memory: run it as root")
    place.find(RealSysfs())
    argv = [sys.executable, *_argv(workload(), configuration, phases, cap), "--here"]
    done = subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise BenchError(f"{configuration} ended with {done.returncode}")
    told: dict[str, Any] = json.loads(done.stdout)
    return {**told, "release": os.uname().release}


def made() -> dict[str, str]:
    """Return where and when a cell was made, so that cells can be compared."""
    model = platform.processor() or platform.machine()
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    load = f"{os.getloadavg()[1]:.1f}"
    host = f"{os.cpu_count()} x {model}"
    return {"date": time.strftime("%Y-%m-%d"), "load": load, "host": host, **_commit()}


def _commit() -> dict[str, str]:
    """Return the commit of this checkout and if it was changed; nothing if there is no git."""
    argv = ("git", "-C", str(guest.PROJECT), "describe", "--always", "--dirty", "--exclude=*")
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return {}
    return {} if done.returncode else {"commit": done.stdout.strip()}


def _argv(
    program: Path, configuration: str, phases: tuple[Phase, ...], cap: int
) -> tuple[str, ...]:
    names = ",".join(one.name for one in phases)
    words = ("--workload", str(program), "--configuration", configuration, "--phases", names)
    return ("-m", "bench.inside", *words, "--cap", str(cap))
