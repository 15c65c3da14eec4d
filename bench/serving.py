"""Runs a program and its driver in a guest, and a configuration from some second on.

`python3 -m bench.serving --program NAME --configuration NAME --driver PATH` prints one JSON object:
what the driver said, each second, and what the machine said meanwhile.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bench import configuration, contender, driven, place, probe, program
from bench.contender import Contender
from bench.errors import BenchError
from bench.place import Place
from bench.program import Program
from bench.spent import Spent
from tests.vm.guard import require_guest
from tierd.sysfs import RealSysfs

# A reading takes an emulated processor some milliseconds, which the program then lacks.
SAMPLE_S = 5.0
POLL_S = 0.2
# A server starts within seconds. To fill it takes minutes, and ten times as long on a busy host.
START_S_MAX = 60.0
FILL_S_MAX = 1800.0
# The driver may end this much later, because each of its seconds is a little longer than one.
LATE_S_MAX = 120.0


@dataclass(slots=True)
class Recorder:
    """The series of the machine while the program serves."""

    server: int
    where: Place
    running: Contender
    kdamonds: Spent = field(default_factory=lambda: Spent({}))
    daemon: Spent = field(default_factory=lambda: Spent({}))
    server_cpu: Spent = field(default_factory=lambda: Spent({}))
    columns: dict[str, list[Any]] = field(default_factory=dict)

    def begin(self) -> None:
        self.server_cpu = Spent(probe.cpu_s((self.server,)))
        self.sample()

    def sample(self) -> None:
        """Append one row. `at_s` is by the monotonic clock, like the times of the driver."""
        now = probe.counters()
        row = {
            "at_s": round(time.monotonic(), 2),
            "moved": now.moved_pages,
            "numab": now.numab_pages,
            "reclaimed": now.reclaimed_pages,
            "free_kib": probe.free_bytes(self.where.fast) >> 10,
        }
        for name, value in row.items():
            self.columns.setdefault(name, []).append(value)
        self.kdamonds = self.kdamonds.seen(probe.cpu_s(probe.kdamonds()))
        self.daemon = self.daemon.seen(probe.cpu_s(self.running.pids()))
        self.server_cpu = self.server_cpu.seen(probe.cpu_s((self.server,)))

    def pages(self) -> dict[str, int]:
        """Return how many pages of the program's memory are on each node now."""
        nodes = (self.where.fast, self.where.slow)
        maps = probe.text(Path(f"/proc/{self.server}/numa_maps"))
        if maps is None:
            raise BenchError(f"the program is gone: /proc/{self.server}/numa_maps cannot be read")
        found = probe.parse_numa_maps(maps, "own", nodes)
        return {str(node): found.get(("own", node), 0) for node in nodes}


def wait_for_socket(server: "subprocess.Popen[bytes]") -> None:
    end_s = time.monotonic() + START_S_MAX
    while not Path(program.SOCKET).is_socket():
        if server.poll() is not None or time.monotonic() > end_s:
            raise BenchError(f"the program does not serve: {server.args!r}, {server.returncode}")
        time.sleep(POLL_S)


def wait_for_lines(
    said: Path, driver: "subprocess.Popen[bytes]", count: int, most_s: float
) -> None:
    """Wait until the driver has printed `count` lines."""
    end_s = time.monotonic() + most_s
    while said.read_bytes().count(b"\n") < count:
        if time.monotonic() > end_s:
            raise BenchError(f"the driver said {said.read_text()!r} in {most_s:g} s, and no more")
        if driver.poll():
            raise BenchError(f"the driver ended with {driver.returncode}")
        time.sleep(POLL_S)


def run(
    chosen: Program, running: Contender, driver: Path, seconds: tuple[int, int], folder: Path
) -> dict[str, Any]:
    """Run the program without the configuration, then with it, for so many seconds each."""
    contender.quiet()
    Path("/proc/sys/vm/drop_caches").write_text("3")
    keys = chosen.keys(running.place.fast_bytes)
    said = folder / "driver.out"
    # The log of the server must not get into the output of this program.
    with (folder / "server.log").open("wb") as log, said.open("wb") as out:
        server = subprocess.Popen(chosen.argv, stdout=log, stderr=log, cwd=folder)
        asking: subprocess.Popen[bytes] | None = None
        try:
            wait_for_socket(server)
            asking = subprocess.Popen(chosen.driven(str(driver), keys, sum(seconds)), stdout=out)
            wait_for_lines(said, asking, 1, FILL_S_MAX)
            return {"keys": keys, **_watched(Recorder(server.pid, running.place, running),
                                             asking, said, seconds)}  # fmt: skip
        finally:
            for process in (asking, server):
                if process is not None:
                    process.kill()
                    process.wait()


def _watched(
    recorder: Recorder,
    asking: "subprocess.Popen[bytes]",
    said: Path,
    seconds: tuple[int, int],
) -> dict[str, Any]:
    before, after = seconds
    at_first = recorder.pages()
    recorder.begin()
    wait_for_lines(said, asking, 1 + before, before + LATE_S_MAX)
    recorder.sample()
    began_s = time.monotonic()
    recorder.running.start(lambda: None)
    in_force_s = time.monotonic()
    end_s = in_force_s + after + LATE_S_MAX
    while asking.poll() is None:
        recorder.sample()
        if time.monotonic() > end_s:
            raise BenchError(f"the driver has not ended after {after + LATE_S_MAX:g} s")
        try:
            asking.wait(SAMPLE_S)
        except subprocess.TimeoutExpired:
            continue
    recorder.sample()
    if asking.returncode:
        raise BenchError(f"the driver ended with {asking.returncode}")
    running = recorder.running
    return {
        **driven.parse(said.read_text()),
        "samples": recorder.columns,
        "before": before,
        "began_s": round(began_s, 2),
        "in_force_s": round(in_force_s, 2),
        "pages": {"first": at_first, "last": recorder.pages()},
        "kdamond_cpu_s": recorder.kdamonds.total_s(expected=running.has_kdamonds),
        "daemon_cpu_s": recorder.daemon.total_s(expected=running.daemon is not None),
        "server_cpu_s": recorder.server_cpu.total_s(expected=True),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", choices=program.BY_NAME, required=True)
    parser.add_argument("--configuration", choices=configuration.BY_NAME, required=True)
    parser.add_argument("--driver", type=Path, required=True, help="built from keys.c")
    parser.add_argument("--before", type=int, required=True, help="seconds without it")
    parser.add_argument("--after", type=int, required=True, help="seconds with it")
    parser.add_argument("--cap", type=int, default=configuration.CAP_BYTES_PER_S)
    arguments = parser.parse_args()
    require_guest()
    chosen = program.BY_NAME[arguments.program]
    where = place.find(RealSysfs())
    with tempfile.TemporaryDirectory(prefix="tierd-bench.") as scratch:
        folder = Path(scratch)
        running = Contender(
            configuration.BY_NAME[arguments.configuration], where, folder, arguments.cap
        )
        seconds = (arguments.before, arguments.after)
        try:
            found = run(chosen, running, arguments.driver, seconds, folder)
        finally:
            running.stop()
            sys.stderr.write(running.log())
    nodes = {key: value for key, value in asdict(where).items() if key != "ranges"}
    settings = {"program": asdict(chosen), "cap": arguments.cap, **nodes}
    print(json.dumps({**found, **settings}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
