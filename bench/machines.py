"""Runs one timeline: in a guest, or on this machine."""

import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from bench import place
from bench.errors import BenchError
from bench.phase import Phase
from tests.contract.guests import workload
from tests.vm import guest
from tests.vm.errors import VmError
from tierd.sim import machine
from tierd.sysfs import RealSysfs

MACHINE = "two-tier"

# Of a boot beside its phases: laying out memory, starting, ending; twenty times what it takes.
OVERHEAD_S = 300.0


def in_guest(
    series: str, configuration: str, phases: tuple[Phase, ...], cap: int
) -> dict[str, Any]:
    """Boot a guest of this series and run the timeline there."""
    most_s = sum(2 * one.bound_s * one.repeats for one in phases) + OVERHEAD_S
    argv = ("python3", *_argv(Path("/job/workload"), configuration, phases, cap))
    files = {"workload": workload().read_bytes()}
    try:
        verdict = guest.run(series, machine.load(MACHINE), [guest.Command(argv, most_s)], files)
    except VmError as error:
        raise BenchError(f"no virtual machine: {error}") from error
    result = verdict.results[0]
    if result.status != 0:
        raise BenchError(f"{configuration} on {series}: {result.status}\n{result.stderr[-2000:]}")
    told: dict[str, Any] = json.loads(result.stdout)
    return {**told, "release": verdict.release}


def here(configuration: str, phases: tuple[Phase, ...], cap: int) -> dict[str, Any]:
    """Run the timeline on this machine, whose kernel it changes for that long."""
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
    """Where and when this is, for whoever wants to compare."""
    model = platform.processor() or platform.machine()
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    load = f"{os.getloadavg()[1]:.1f}"
    return {"date": time.strftime("%Y-%m-%d"), "load": load, "host": f"{os.cpu_count()} x {model}"}


def _argv(
    program: Path, configuration: str, phases: tuple[Phase, ...], cap: int
) -> tuple[str, ...]:
    names = ",".join(one.name for one in phases)
    words = ("--workload", str(program), "--configuration", configuration, "--phases", names)
    return ("-m", "bench.inside", *words, "--cap", str(cap))
