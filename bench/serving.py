"""Runs a program and its driver in a guest. Contenders have their turns beside it, one by one.

`python3 -m bench.serving --program NAME --turns NAME,NAME` prints one JSON object:
what the driver said, each second, and for each turn what the machine said meanwhile. Before each
turn all pages of the program are put back to where they were after it had been filled.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bench import configuration, contender, driven, place, placement, probe, program
from bench.contender import Contender
from bench.errors import BenchError
from bench.place import Place
from bench.program import Program
from bench.spent import Spent
from bench.waiting import Mode, Switch
from tests.vm.guard import require_guest
from tierd.sysfs import RealSysfs

# A reading takes an emulated processor some milliseconds, which the program then lacks.
SAMPLE_S = 5.0
POLL_S = 0.2
# A server starts within seconds. To fill it takes a minute, and ten times as long on a busy host.
START_S_MAX = 60.0
FILL_S_MAX = 1800.0
# When all memory is fast nothing changes over time, so a turn needs no longer than this.
EVEN_S = 15
# The driver is killed at the end. It never runs for as long as this.
DRIVER_S = 100_000


@dataclass(slots=True)
class Recorder:
    """The series of the machine during one turn."""

    server: int
    where: Place
    running: Contender
    kdamonds: Spent = field(default_factory=lambda: Spent({}))
    daemon: Spent = field(default_factory=lambda: Spent({}))
    server_cpu: Spent = field(default_factory=lambda: Spent({}))
    columns: dict[str, list[Any]] = field(default_factory=dict)

    def begin(self) -> None:
        self.server_cpu = Spent(probe.cpu_s((self.server,)))
        # What it took to start does not count: it was before this. A kdamond begins with it.
        self.daemon = Spent(probe.cpu_s(self.running.pids()))
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

    def spent(self) -> dict[str, float | None]:
        """Return the processor time of this turn."""
        running = self.running
        return {
            "kdamond_cpu_s": self.kdamonds.total_s(expected=running.has_kdamonds),
            "daemon_cpu_s": self.daemon.total_s(expected=running.daemon is not None),
            "server_cpu_s": self.server_cpu.total_s(expected=True),
        }


@dataclass(frozen=True, slots=True)
class Service:
    """A program that has been filled, and the driver that asks it."""

    server: int
    asking: "subprocess.Popen[bytes]"
    said: Path
    at_first: Mapping[int, placement.Placement]
    """Where all pages were, by the pid of their process: the server, and who holds cold memory."""
    switch: Switch

    def wait(self, end_s: float, recorder: Recorder | None = None) -> None:
        """Wait until a moment of the monotonic clock, and record meanwhile."""
        while (left_s := end_s - time.monotonic()) > 0:
            if recorder is not None:
                recorder.sample()
            try:
                self.asking.wait(min(SAMPLE_S, left_s))
            except subprocess.TimeoutExpired:
                continue
            raise BenchError(f"the driver ended with {self.asking.returncode}")


@dataclass(frozen=True, slots=True)
class Lengths:
    """Seconds of a turn without its contender, and with it."""

    before: int
    after: int


def progress(words: str) -> None:
    """Tell somebody who watches the console of the guest how far it is."""
    Path("/dev/console").write_text(f"{time.monotonic():.0f} s: {words}\n")


def hogged(size_bytes: int) -> "subprocess.Popen[bytes] | None":
    """Start a process that holds so much memory, and wait until it has it."""
    if not size_bytes:
        return None
    command = (sys.executable, "-m", "bench.hog", str(size_bytes))
    hog = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert hog.stdout is not None
    # The end of the output comes too if the process dies.
    if not hog.stdout.readline():
        raise BenchError(f"{command}: ended with {hog.wait()}")
    return hog


def wait_for_socket(server: "subprocess.Popen[bytes]") -> None:
    end_s = time.monotonic() + START_S_MAX
    while not Path(program.SOCKET).is_socket():
        if server.poll() is not None or time.monotonic() > end_s:
            raise BenchError(f"the program does not serve: {server.args!r}, {server.returncode}")
        time.sleep(POLL_S)


def wait_until_filled(said: Path, driver: "subprocess.Popen[bytes]") -> None:
    """Wait until the driver has printed its first line."""
    end_s = time.monotonic() + FILL_S_MAX
    while b"\n" not in said.read_bytes():
        if time.monotonic() > end_s:
            raise BenchError(f"the driver said {said.read_text()!r} in {FILL_S_MAX:g} s")
        if driver.poll() is not None:
            raise BenchError(f"the driver ended with {driver.returncode}")
        time.sleep(POLL_S)


def turn(name: str, service: Service, running: Contender, lengths: Lengths) -> dict[str, Any]:
    """Put all pages back, run without the contender, then with it."""
    even = program.CONTENDERS[name].even
    after_s = min(lengths.after, EVEN_S) if even else lengths.after
    where = running.place
    nodes = (where.fast, where.slow)
    progress(f"{name}: putting pages back")
    service.switch.set(Mode.off)
    contender.quiet()
    placement.put_back(service.at_first, (where.slow, where.fast))
    mode = Mode.even if even else Mode.slow
    service.switch.set(mode)
    turn_s = time.monotonic()
    recorder = Recorder(service.server, where, running)
    progress(f"{name}: without it")
    service.wait(turn_s + lengths.before)
    before_end_s = time.monotonic()
    # Memory does not wait while a contender starts: its size does not shrink with the machine, and
    # a service starts once in the life of a machine.
    service.switch.set(Mode.off)
    before = placement.of(service.server)
    began_s = time.monotonic()
    running.start(lambda: None)
    in_force_s = time.monotonic()
    service.switch.set(mode)
    recorder.begin()
    progress(f"{name}: in force")
    service.wait(in_force_s + after_s, recorder)
    recorder.sample()
    end_s = time.monotonic()
    spent = recorder.spent()
    running.stop()
    service.switch.set(Mode.off)
    after = placement.of(service.server)
    told = {"profile": running.profile, "report": running.report}
    recorded = {key: path.read_text() for key, path in told.items() if path.exists()}
    return {
        **recorded,
        "name": name,
        "configuration": running.configuration.name,
        "even": even,
        "before": lengths.before,
        "after": after_s,
        "turn_s": round(turn_s, 2),
        "before_end_s": round(before_end_s, 2),
        "began_s": round(began_s, 2),
        "in_force_s": round(in_force_s, 2),
        "end_s": round(end_s, 2),
        "samples": recorder.columns,
        "pages": {
            "first": {str(node): before.on(node) for node in nodes},
            "last": {str(node): after.on(node) for node in nodes},
            "up": before.went(after, where.slow, where.fast),
            "down": before.went(after, where.fast, where.slow),
            "put_back": service.at_first[service.server].went(before, where.fast, where.fast),
        },
        **spent,
    }


def run(
    chosen: Program, names: tuple[str, ...], where: Place, arguments: argparse.Namespace,
    folder: Path,
) -> dict[str, Any]:  # fmt: skip
    """Fill the program, and give each contender its turn."""
    contender.quiet()
    Path("/proc/sys/vm/drop_caches").write_text("3")
    switch = Switch()
    switch.set(Mode.off)
    free = {str(node): probe.free_bytes(node) for node in (where.fast, where.slow)}
    items = arguments.items or chosen.items(where.fast_bytes)
    progress(f"filling {items} items")
    said = folder / "driver.out"
    # The log of the server must not get into the output of this program.
    with (folder / "server.log").open("wb") as log, said.open("wb") as out:
        server: subprocess.Popen[bytes] | None = None
        asking: subprocess.Popen[bytes] | None = None
        hog: subprocess.Popen[bytes] | None = None
        try:
            hog = hogged(round(chosen.hog_share * free[str(where.fast)]))
            if chosen.server:
                # A server that was killed leaves its socket behind, and nobody answers there.
                Path(program.SOCKET).unlink(missing_ok=True)
                server = subprocess.Popen(chosen.server, stdout=log, stderr=log, cwd=folder)
                wait_for_socket(server)
            asking = subprocess.Popen(chosen.driven(items, DRIVER_S), stdout=out)
            # An installed tierd has been compiled too. The other processor has time meanwhile.
            subprocess.run([sys.executable, "-m", "compileall", "-q", "tierd"], check=True)
            wait_until_filled(said, asking)
            holder = server or asking
            pid = driven.data_pid(said.read_text()) or holder.pid
            at_first = {pid: placement.of(pid)}
            if hog is not None:
                at_first[hog.pid] = placement.of(hog.pid)
            service = Service(pid, asking, said, at_first, switch)
            found = all_turns(names, service, where, arguments, folder)
        finally:
            for process in (asking, server, hog):
                if process is not None:
                    process.kill()
                    process.wait()
    return {"items": items, "free": free, **driven.parse(said.read_text()), "turns": found}


def all_turns(
    names: tuple[str, ...], service: Service, where: Place, arguments: argparse.Namespace,
    folder: Path,
) -> list[dict[str, Any]]:  # fmt: skip
    """Give each contender its turn, as long as there is time for one more."""
    lengths = Lengths(arguments.before, arguments.after)
    found: list[dict[str, Any]] = []
    longest_s = 0.0
    for number, name in enumerate(names):
        began_s = time.monotonic()
        if arguments.seconds_max and found and began_s + longest_s > arguments.seconds_max:
            progress(f"no time for turn {number + 1} of {len(names)}")
            break
        own = folder / str(number)
        own.mkdir()
        one = configuration.BY_NAME[program.CONTENDERS[name].configuration]
        running = Contender(one, where, own, arguments.cap)
        try:
            found.append(turn(name, service, running, lengths))
        finally:
            # Its log says why it does not stop.
            try:
                running.stop()
            finally:
                sys.stderr.write(running.log())
        longest_s = max(longest_s, time.monotonic() - began_s)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", choices=program.BY_NAME, required=True)
    parser.add_argument("--turns", required=True, help="names of contenders, with commas")
    parser.add_argument("--items", type=int, default=0, help="instead of as many as fit its size")
    parser.add_argument("--seconds-max", type=int, default=0, help="of uptime, for all turns")
    parser.add_argument("--before", type=int, required=True, help="seconds without it")
    parser.add_argument("--after", type=int, required=True, help="seconds with it")
    parser.add_argument("--cap", type=int, default=configuration.CAP_BYTES_PER_S)
    arguments = parser.parse_args()
    require_guest()
    chosen = program.BY_NAME[arguments.program]
    where = place.find(RealSysfs())
    with tempfile.TemporaryDirectory(prefix="tierd-bench.") as scratch:
        found = run(chosen, tuple(arguments.turns.split(",")), where, arguments, Path(scratch))
    nodes = {key: value for key, value in asdict(where).items() if key != "ranges"}
    settings = {"program": asdict(chosen), "cap": arguments.cap, **nodes}
    print(json.dumps({**found, **settings}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
