"""Measure what tierd costs: memory, processor time per tick, and how long its commands take.

    python -m bench.cost

The daemon runs in a process of its own, with its real loop. Instead of a kernel it has a directory
with the files of a simulated machine with four kdamonds. Commands to these files have no effect.
Every system call is real. The time that a real kernel would need for a command is not included.

The memory is that of `tierd run` (`bench.served`), with a day of history on disk. It depends on the
version of Python and of the packages. So measure with those that tierd will run with, for example
in a chroot of Debian with python3, python3-yaml and python3-prometheus-client.

The output is a table. Its figures are true for this machine only: compare ratios.
"""

import argparse
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.error import URLError
from urllib.request import urlopen

from tierd.clock import Clock, SystemClock
from tierd.configuration.config import Config
from tierd.kdamonds.kernel import Kernel
from tierd.loop import daemon, service
from tierd.loop.outside import Outside
from tierd.loop.running import Identity
from tierd.loop.store import FileStore
from tierd.record import chronicle, ring
from tierd.record.rundir import HISTORY, RunDir
from tierd.serving.inbox import SystemInbox
from tierd.sysfs import RealSysfs, Sysfs, SysfsError

if TYPE_CHECKING:
    from tierd.serving.metrics_output import MetricsOutput

MACHINE = "two-socket"
# The series that needs the most from tierd: it refreshes no statistics by itself.
SERIES = "6.12"
BOOT_ID = "laid out"
# Ticks until the tuner's quotas are at rest, as on a machine where nothing has to move.
REST_TICKS = 40

BARS = {
    "resident set (MiB)": 32.0,
    "of one core at a tick per second (%)": 0.2,
    "ready (s)": 1.0,
    "status (ms)": 150.0,
    "scrape, p99 (ms)": 20.0,
    "growth over ten minutes of scrapes (MiB)": 1.0,
}

# The shortest tick, and how long the daemon runs with it: until `tierd why` remembers its sixty
# rounds, and some more.
WEIGHED_TICK_S = 0.1
WEIGHED_S = 15.0
# The size of a reading of two nodes.
READING_BYTES = 400

START_S_MAX = 30.0

# As many scrapes as one per second in ten minutes. The first ones fill caches and do not count.
SCRAPES = 600
SCRAPES_FIRST = 50


@dataclass(slots=True)
class Swallowing(RealSysfs):
    """Real files that keep what is written to them. Only commands to kdamonds have no effect."""

    def write(self, path: str, value: str) -> None:
        if path.endswith("/state"):
            RealSysfs.write(self, "sink", value)
            return
        # Unlike a file of sysfs, this one would keep the end of a longer value.
        os.truncate(Path(self.root) / path, 0)
        RealSysfs.write(self, path, value)


def lay_out(root: Path, folder: RunDir) -> None:
    """Write a machine with four kdamonds of tierd as files, and the saved state to adopt them."""
    # Imported here, so that the measured process does not load the simulation.
    from tierd.sim import machine_model
    from tierd.sim.sim_kernel import SimClock, SimKernel

    kernel = SimKernel(SERIES, machine_model.load(MACHINE), block_pages=512)
    clock = SimClock(kernel)
    store = FileStore(folder, BOOT_ID)
    with closing(SystemInbox()) as inbox:
        outside = outside_of(kernel, clock, store, inbox)
        running = daemon.begin(outside, Config())
        for _ in range(REST_TICKS):
            running = daemon.settle(outside, daemon.tick(outside, running))
            kernel.advance(0.3)
    # The simulated kernel has no such file, and `tierd run` reads it.
    boot_id = root / service.BOOT_ID
    boot_id.parent.mkdir(parents=True)
    boot_id.touch()
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


def outside_of(
    sysfs: Sysfs, clock: Clock, store: FileStore, inbox: SystemInbox | None = None
) -> Outside:
    return Outside(
        kernel=Kernel.patient(sysfs, clock),
        inbox=inbox or SystemInbox(),
        store=store,
        who=Identity(os.getpid(), 0.0, MACHINE),
        wall_s=time.time,
        read_config=Config,
        publish=lambda _snapshot, _running: None,
        log=lambda _event: None,
    )


def child(root: Path, folder: RunDir, ticks: int) -> None:
    """Be the measured process: adopt, tick without waiting, and print the figures as JSON."""
    from tierd.record.daemon_counts import DaemonCounts
    from tierd.serving import api  # noqa: F401 - what `tierd run` has loaded
    from tierd.serving.metrics_output import MetricsOutput

    (root / "sink").touch()
    clock = SystemClock()
    sysfs = Swallowing(root)
    store = FileStore(folder, BOOT_ID)
    metrics_output = MetricsOutput(DaemonCounts(), store.save_tally)
    outside = replace(
        outside_of(sysfs, clock, store),
        publish=lambda snapshot, _running: metrics_output.publish(snapshot),
    )
    running = daemon.tick(outside, daemon.begin(outside, Config()))
    before = resource.getrusage(resource.RUSAGE_SELF)
    for _ in range(ticks):
        running = daemon.tick(outside, running)
    after = resource.getrusage(resource.RUSAGE_SELF)
    assert running.applied is not None
    assert not running.trouble, running.trouble
    assert not running.retries, running.retries
    used_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    # A process without ticks only shows how soon tierd is ready, so it is not scraped.
    scraped_s, grown = scraped(metrics_output) if ticks else ([0.0], 0)
    print(
        json.dumps(
            {
                "kdamonds": len(running.applied.pids),
                "used_s": used_s,
                "scrape_p99_s": scraped_s[int(0.99 * len(scraped_s))],
                "grown": grown,
                "peak": after.ru_maxrss * 1024,
            }
        )
    )


def resident(pid: str = "self") -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize()


def scraped(metrics_output: "MetricsOutput") -> tuple[list[float], int]:
    """Return how long each scrape took, in ascending order, and how much the process has grown."""
    from tierd.serving import webserver

    with webserver.listen("127.0.0.1:0") as listener:
        port = listener.getsockname()[1]
    metrics_output.start(Config(metrics_address=f"127.0.0.1:{port}"))
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
    metrics_output.stop()
    return sorted(took_s[SCRAPES_FIRST:]), grown


@contextmanager
def served(base: Path, text: str) -> Iterator[tuple[int, str]]:
    """Run `tierd run` on laid-out files with this configuration; yield its pid and metrics URL."""
    from tierd.serving.webserver import listen

    folder = folder_of(base)
    lay_out(base / "root", folder)
    with listen("127.0.0.1:0") as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    (base / "tierd.yaml").write_text(f"{text}metrics: {{address: {address}}}\n")
    argv = [sys.executable, "-m", "bench.served", str(base)]
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as child:
        try:
            url = f"http://{address}/metrics"
            await_metrics(url)
            yield child.pid, url
        finally:
            child.send_signal(signal.SIGTERM)
            child.wait(START_S_MAX)


def folder_of(base: Path) -> RunDir:
    folder = RunDir(base / "run", base / "lib")
    folder.make()
    folder.make_state()
    return folder


def await_metrics(url: str) -> None:
    end_s = time.monotonic() + START_S_MAX
    while time.monotonic() < end_s:
        with suppress(URLError), urlopen(url, timeout=START_S_MAX):
            return
        time.sleep(0.1)
    raise SystemExit(f"nothing answers at {url}")


def weighed(base: Path) -> int:
    """Return the resident set in bytes of `tierd run` after a day and a restart."""
    folder = folder_of(base)
    day = [ring.Record(at, b"x" * READING_BYTES) for at in range(1, chronicle.READINGS_MAX + 1)]
    slot_bytes = chronicle.READING_SLOT_BYTES
    ring.create(folder.state / HISTORY, chronicle.READINGS_MAX, slot_bytes, day)
    with served(base, f"loop: {{tick: {WEIGHED_TICK_S * 1000:.0f}ms}}\n") as (pid, url):
        end_s = time.monotonic() + WEIGHED_S
        while time.monotonic() < end_s:
            with urlopen(url, timeout=START_S_MAX) as response:
                response.read()
            time.sleep(WEIGHED_TICK_S)
        return resident(str(pid))


def measure(ticks: int, times: int) -> dict[str, float]:
    """Return the median of each figure over several processes."""
    found: dict[str, list[float]] = {name: [] for name in BARS}
    with tempfile.TemporaryDirectory(prefix="tierd-cost.") as scratch:
        for _ in range(times):
            base = Path(tempfile.mkdtemp(dir=scratch))
            folder = RunDir(base / "run", base / "lib")
            folder.make()
            folder.make_state()
            lay_out(base / "root", folder)
            argv = [sys.executable, "-m", "bench.cost", "--child", str(base), "--ticks"]
            few = run_child([*argv, "0"])
            many = run_child([*argv, str(ticks)])
            weight = weighed(Path(tempfile.mkdtemp(dir=scratch)))
            found["resident set (MiB)"].append(weight / 2**20)
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
    """Return the seconds that `tierd status` takes, asking an API with a snapshot of a machine."""
    from tierd.loop.service import Published
    from tierd.serving import api

    clock = SystemClock()
    sysfs = Swallowing(base / "root")
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
    parser = argparse.ArgumentParser(
        prog="python -m bench.cost",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--ticks", type=int, default=500, help="ticks of a run (default: 500)")
    parser.add_argument("--times", type=int, default=5, help="how many runs (default: 5)")
    # The tool calls itself with this option, to measure a process that has loaded nothing else.
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
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
