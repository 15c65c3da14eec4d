"""What tierd itself costs: memory, processor time per tick, and how long its commands take.

A daemon in a process of its own runs its real loop over real files: those of a simulated
machine with four kdamonds, laid out in a directory, whose `state` files swallow commands. Every
system call is real; what a kernel does inside of them is not in the figures.

`python -m bench.cost` prints a table; figures are of this machine, compare ratios.
"""

import argparse
import json
import os
import resource
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tierd.clock import Clock, SystemClock
from tierd.configuration.config import Config
from tierd.loop import daemon
from tierd.loop.outside import Outside
from tierd.loop.running import Identity
from tierd.loop.service import FileStore
from tierd.record.rundir import RunDir
from tierd.serving.inbox import SystemInbox
from tierd.sysfs import PatientSysfs, RealSysfs, SysfsError

if TYPE_CHECKING:
    from tierd.serving.reporter import Reporter

MACHINE = "two-socket"
# The series that needs the most from tierd: it refreshes no statistics by itself.
SERIES = "6.12"
BOOT_ID = "laid out"
# Until the tuner has its quotas at rest, as they are on a machine where nothing is to be moved.
REST_TICKS = 40

BARS = {
    "resident set (MiB)": 32.0,
    "of one core at a tick per second (%)": 0.2,
    "ready (s)": 1.0,
    "status (ms)": 150.0,
    "scrape, p99 (ms)": 20.0,
    "growth over ten minutes of scrapes (MiB)": 1.0,
}

# One a second for ten minutes; the first few fill caches.
SCRAPES = 600
SCRAPES_FIRST = 50


@dataclass(slots=True)
class Swallowing(RealSysfs):
    """Real files, except that what is written is not kept: the machine stays as it was laid out."""

    def write(self, path: str, value: str) -> None:
        RealSysfs.write(self, "sink", f"{path}={value}")


def lay_out(root: Path, folder: RunDir) -> None:
    """A machine with four kdamonds of ours as files, and the saved state that adopts them."""
    # Not in the measured process, which knows no simulation.
    from tierd.sim import machine
    from tierd.sim.kernel import SimClock, SimKernel

    kernel = SimKernel(SERIES, machine.load(MACHINE), block_pages=512)
    clock = SimClock(kernel)
    store = FileStore(folder, BOOT_ID)
    outside = outside_of(PatientSysfs(kernel, clock), clock, store)
    running = daemon.begin(outside, Config())
    for _ in range(REST_TICKS):
        running = daemon.settle(outside, daemon.tick(outside, running))
        kernel.advance(0.3)
    for top in ("sys", "proc"):
        for path in (f"{top}/{below}" for below in kernel.files(top)):
            target = root / path
            target.parent.mkdir(parents=True, exist_ok=True)
            # Some settings of the kernel can only be written.
            with suppress(SysfsError):
                target.write_bytes(kernel.read_bytes(path))
    assert running.applied is not None
    for pid in running.applied.pids:
        stat = root / f"proc/{pid}/stat"
        stat.parent.mkdir(parents=True)
        stat.write_text(kernel.read(f"proc/{pid}/stat"))


def outside_of(sysfs: PatientSysfs, clock: Clock, store: FileStore) -> Outside:
    return Outside(
        sysfs=sysfs,
        clock=clock,
        inbox=SystemInbox(),
        store=store,
        who=Identity(os.getpid(), 0.0, MACHINE),
        wall_s=time.time,
        read_config=Config,
        publish=lambda _snapshot, _running: None,
        log=lambda _event: None,
    )


def child(root: Path, folder: RunDir, ticks: int) -> None:
    """The measured process: adopt, then tick without waiting; its figures as JSON."""
    from tierd.record.tally import Tally
    from tierd.serving import api  # noqa: F401 - what `tierd run` has loaded
    from tierd.serving.reporter import Reporter

    (root / "sink").touch()
    clock = SystemClock()
    sysfs = PatientSysfs(Swallowing(root), clock)
    store = FileStore(folder, BOOT_ID)
    reporter = Reporter(Tally(), store.save_tally)
    outside = replace(
        outside_of(sysfs, clock, store),
        publish=lambda snapshot, _running: reporter.publish(snapshot),
    )
    running = daemon.tick(outside, daemon.begin(outside, Config()))
    before = resource.getrusage(resource.RUSAGE_SELF)
    for _ in range(ticks):
        running = daemon.tick(outside, running)
    after = resource.getrusage(resource.RUSAGE_SELF)
    assert running.applied is not None
    assert not running.trouble, running.trouble
    used_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    # The child that only shows how soon one is ready is not scraped.
    scraped_s, grown = scraped(reporter) if ticks else ([0.0], 0)
    print(
        json.dumps(
            {
                "kdamonds": len(running.applied.pids),
                "used_s": used_s,
                "resident": resident(),
                "scrape_p99_s": scraped_s[int(0.99 * len(scraped_s))],
                "grown": grown,
                "peak": after.ru_maxrss * 1024,
            }
        )
    )


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def scraped(reporter: "Reporter") -> tuple[list[float], int]:
    """How long scrapes take, the shortest first, and what the process has grown by."""
    from tierd.serving import webserver

    with webserver.listen("127.0.0.1:0") as listener:
        port = listener.getsockname()[1]
    reporter.start(Config(metrics_address=f"127.0.0.1:{port}"))
    took_s = []
    before = 0
    for number in range(SCRAPES_FIRST + SCRAPES):
        if number == SCRAPES_FIRST:
            before = resident()
        began_s = time.monotonic()
        with socket.create_connection(("127.0.0.1", port)) as sock:
            sock.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
            while sock.recv(65536):
                pass
        took_s.append(time.monotonic() - began_s)
    grown = resident() - before
    reporter.stop()
    return sorted(took_s[SCRAPES_FIRST:]), grown


def measure(ticks: int, times: int) -> dict[str, float]:
    """The median of several processes."""
    found: dict[str, list[float]] = {name: [] for name in BARS}
    with tempfile.TemporaryDirectory(prefix="tierd-cost.") as scratch:
        for _ in range(times):
            base = Path(tempfile.mkdtemp(dir=scratch))
            folder = RunDir(base / "run", base / "lib")
            folder.make()
            lay_out(base / "root", folder)
            argv = [sys.executable, "-m", "bench.cost", "--child", str(base), "--ticks"]
            few = run_child([*argv, "0"])
            many = run_child([*argv, str(ticks)])
            found["resident set (MiB)"].append(many["resident"] / 2**20)
            found["of one core at a tick per second (%)"].append(many["used_s"] / ticks * 100)
            found["scrape, p99 (ms)"].append(many["scrape_p99_s"] * 1000)
            found["growth over ten minutes of scrapes (MiB)"].append(many["grown"] / 2**20)
            found["ready (s)"].append(few["wall_s"])
            found["status (ms)"].append(status_s(base) * 1000)
    return {name: sorted(values)[len(values) // 2] for name, values in found.items()}


def run_child(argv: list[str]) -> dict[str, float]:
    began_s = time.monotonic()
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    return {**json.loads(done.stdout), "wall_s": time.monotonic() - began_s}


def status_s(base: Path) -> float:
    """`tierd status` against the API of a daemon that answers from a snapshot of this machine."""
    from tierd.loop.service import Published
    from tierd.serving import api

    clock = SystemClock()
    sysfs = PatientSysfs(Swallowing(base / "root"), clock)
    published = Published()
    outside = replace(
        outside_of(sysfs, clock, FileStore(RunDir(base / "run", base / "lib"), BOOT_ID)),
        publish=lambda snapshot, _running: setattr(published, "snapshot", snapshot),
    )
    daemon.tick(outside, daemon.begin(outside, Config()))
    server = api.serve(base / "run/api.sock", api.Sources(published.text_at, lambda _event: False))
    try:
        began_s = time.monotonic()
        argv = [sys.executable, "-m", "tierd", "status", "--run-dir", str(base / "run")]
        subprocess.run(argv, capture_output=True, check=True)
        return time.monotonic() - began_s
    finally:
        server.stop()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.cost", description=__doc__)
    parser.add_argument("--ticks", type=int, default=500)
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--child", type=Path)
    arguments = parser.parse_args()
    if arguments.child:
        base = arguments.child
        child(base / "root", RunDir(base / "run", base / "lib"), arguments.ticks)
        return
    for name, value in measure(arguments.ticks, arguments.times).items():
        verdict = "met" if value <= BARS[name] else "MISSED"
        print(f"{name:40} {value:8.3f}   bar {BARS[name]:g}: {verdict}")


if __name__ == "__main__":
    main()
