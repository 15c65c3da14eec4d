"""What the scenarios share in a guest: tierd as a process, the kernel's files, patience.

A scenario runs in a guest as `python3 -m tests.e2e.NAME --workload PROGRAM` and prints its facts
as one JSON object; what they should be is said by the test that booted the guest.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.contract.context import events
from tests.contract.sets import PAGE, WorkloadSets
from tests.vm.guard import require_guest
from tierd.sysfs import RealSysfs

TIERD = (sys.executable, "-B", "-m", "tierd")

ADMIN = Path("/sys/kernel/mm/damon/admin/kdamonds")
COUNT = ADMIN / "nr_kdamonds"
DAMON_STAT = Path("/sys/module/damon_stat/parameters/enabled")
DEMOTION_ENABLED = Path("/sys/kernel/mm/numa/demotion_enabled")
LOG = Path("/tmp/tierd.log")
STATE = Path("/run/tierd/state.json")
CONFIG = Path("/etc/tierd/tierd.yaml")

# Emulated guests on a busy host are slow. This allows twenty times what the slowest one needed.
PATIENCE_S = 180.0
POLL_S = 0.25

MIB = 1 << 20


class Late(AssertionError):
    """Something did not happen in time."""


@dataclass(slots=True)
class Daemon:
    """`tierd run` as a child process, as an init system would run it."""

    log: Path
    process: "subprocess.Popen[bytes]" = field(init=False)

    def __post_init__(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen([*TIERD, "run"], stdout=log, stderr=log)

    def active(self) -> bool:
        if self.process.poll() is not None:
            raise Late(f"tierd ended with {self.process.returncode}:\n{self.log.read_text()}")
        shown = verb("status", "--json")
        return bool(shown.returncode == 0 and json.loads(shown.stdout)["state"] == "active")

    def stop(self) -> int:
        """Ask it to end, as systemd does. Return its exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE_S)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE_S)


def started() -> Daemon:
    """Start the daemon, and return it when it is active."""
    daemon = Daemon(LOG)
    if not within(daemon.active, PATIENCE_S):
        shown = verb("status")
        told = f"{shown.stdout}{shown.stderr}\n{LOG.read_text()}"
        raise Late(f"tierd was not active after {PATIENCE_S:.0f} s:\n{told}")
    return daemon


def verb(*words: str, **environ: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [*TIERD, *words], capture_output=True, text=True, check=False, env={**os.environ, **environ}
    )


def status() -> dict[str, Any]:
    shown = verb("status", "--json")
    document: dict[str, Any] = json.loads(shown.stdout)
    return document


def wait_for(what: str, reached: Callable[[], bool], bound_s: float = PATIENCE_S) -> None:
    if not within(reached, bound_s):
        raise Late(f"waited {bound_s:.0f} s for {what}")


def within(reached: Callable[[], bool], bound_s: float) -> bool:
    """True if the condition becomes true in time. It is checked once more at the end."""
    end_s = time.monotonic() + bound_s
    while time.monotonic() < end_s:
        if reached():
            return True
        time.sleep(POLL_S)
    return reached()


def text(path: Path) -> str | None:
    """Return the text of a file; None if there is no such file. Wait while DAMON is busy."""
    end_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            return path.read_text().strip()
        except FileNotFoundError:
            return None
        except OSError:
            if time.monotonic() > end_s:
                raise
            time.sleep(POLL_S)


def migrated_bytes() -> int:
    """Return the kernel's count of all bytes that have moved to another node since the boot."""
    return events(RealSysfs())["pgmigrate_success"] * PAGE


def put(path: Path, value: str) -> None:
    """Write to a file of the kernel. Wait while DAMON is busy."""
    end_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            path.write_text(value)
            return
        except (BlockingIOError, OSError):
            if time.monotonic() > end_s:
                raise
            time.sleep(POLL_S)


def neighbourhood() -> dict[str, str | None]:
    """Return the settings that tierd changes, or could change."""
    return {
        "nr_kdamonds": text(COUNT),
        "damon_stat": text(DAMON_STAT),
        "demotion_enabled": text(DEMOTION_ENABLED),
        "state": text(STATE),
    }


def pids() -> list[int]:
    """Return the pids of all kdamonds, in the order of their indexes."""
    return [int(text(ADMIN / str(k) / "pid") or 0) for k in range(int(text(COUNT) or 0))]


def free_bytes(node: int) -> int:
    return _meminfo_bytes(node, "MemFree:")


def total_bytes(node: int) -> int:
    return _meminfo_bytes(node, "MemTotal:")


def _meminfo_bytes(node: int, name: str) -> int:
    lines = Path(f"/sys/devices/system/node/node{node}/meminfo").read_text().splitlines()
    return next(int(line.split()[3]) << 10 for line in lines if name in line)


def begin() -> WorkloadSets:
    """Prepare the guest, and start the program that holds memory."""
    require_guest()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workload", type=Path, required=True, help="built from workload.c")
    arguments, _ = parser.parse_known_args()
    # NUMA balancing moves pages too. Only tierd should move them here.
    Path("/proc/sys/kernel/numa_balancing").write_text("0")
    return WorkloadSets(arguments.workload, Path("/var/tmp"))


def configure(config: str) -> None:
    """Write the configuration to where `tierd run` reads it. An empty text means the defaults."""
    CONFIG.parent.mkdir(parents=True, exist_ok=True)
    CONFIG.write_text(config)


def tell(facts: Mapping[str, object]) -> None:
    sys.stderr.write(log_text())
    sys.stdout.write(json.dumps(facts) + "\n")


def log_text() -> str:
    return text(LOG) or ""


def note(what: str) -> None:
    """Print a line about the progress, for somebody who asks why a scenario failed."""
    os.write(2, f"[{time.monotonic():.0f}] {what}\n".encode())
