"""Starts and stops a configuration on this machine."""

import json
import os
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from bench import probe
from bench.configuration import Configuration, Kind, cover_letter, hmsdk, tierd_config
from bench.errors import BenchError
from bench.place import Place

NUMA_BALANCING = Path("/proc/sys/kernel/numa_balancing")
DEMOTION_ENABLED = Path("/sys/kernel/mm/numa/demotion_enabled")
DAMON_STAT = Path("/sys/module/damon_stat/parameters/enabled")

DAMO = (sys.executable, "-c", "from damo.damo import main; main()")
TIERD = (sys.executable, "-m", "tierd")
# What the systemd unit runs after a kill.
STOP_POST = (*TIERD, "restore", "--after-service")
KILLED = {"SERVICE_RESULT": "signal"}

# In an emulated guest Python takes seconds to start. On a busy host that takes several times as
# long.
PATIENCE_S = 180.0
POLL_S = 0.1

# The turns of a report on a running tierd: their length and how many pairs of them.
AB_S = 40
AB_PAIRS = 4
# Prints the operations a second of the line that a driver wrote last to a file. A shell does it,
# because Python takes a second to start in a guest.
LATELY = (
    "tail -n 1 {said} | "
    "{{ read -r _ began ended operations _; echo $((operations * 1000000000 / (ended - began))); }}"
)

# Seconds between two updates of the statistics. One may take a kdamond its sampling interval.
ASK_S = 2.0


@dataclass(slots=True)
class Contender:
    """A configuration on this machine. Its files are in `folder`."""

    configuration: Configuration
    place: Place
    folder: Path
    cap: int
    daemon: "subprocess.Popen[bytes] | None" = field(default=None, init=False)
    _stop_post: "subprocess.Popen[bytes] | None" = field(default=None, init=False)
    _reporting: "subprocess.Popen[bytes] | None" = field(default=None, init=False)
    _asking: threading.Event = field(default_factory=threading.Event, init=False)

    @property
    def oracle(self) -> bool:
        return self.configuration.kind is Kind.oracle

    @property
    def has_kdamonds(self) -> bool:
        return self.configuration.has_kdamonds

    def start(self, meanwhile: Callable[[], None]) -> None:
        """Put the configuration in force: return when a kdamond runs or the switch is set."""
        match self.configuration.kind:
            case Kind.numab:
                DEMOTION_ENABLED.write_text("1")
                NUMA_BALANCING.write_text("2")
            case Kind.damo:
                self._damo()
                self._wait(meanwhile)
            case Kind.tierd:
                self._tierd()
                self._wait(meanwhile)
            case Kind.reported:
                self._tierd()
                self._wait(meanwhile)
                self._report()
            case Kind.recorder:
                self._run("record", str(self.profile))
                self._wait(meanwhile)
            case Kind.nobody | Kind.oracle:
                meanwhile()

    def kill(self) -> None:
        """Kill the daemon, and begin what systemd does then."""
        assert self.daemon is not None
        self.daemon.kill()
        self.daemon.wait()
        self.daemon = None
        with self._log.open("ab") as log:
            environment = {**os.environ, **KILLED}
            self._stop_post = subprocess.Popen(STOP_POST, env=environment, stdout=log, stderr=log)

    def again(self) -> None:
        """Start the daemon again after a kill. It finds its kdamonds."""
        if self._stop_post is not None:
            self._stop_post.wait(PATIENCE_S)
        self._tierd()

    def stop(self) -> None:
        if self._reporting is not None:
            self._reporting.terminate()
            self._reporting.wait(PATIENCE_S)
            self._reporting = None
        if self.daemon is not None:
            self.daemon.terminate()
            self.daemon.wait(PATIENCE_S)
            self.daemon = None
        self._asking.set()
        if self.configuration.kind is Kind.damo:
            for state in probe.KDAMONDS.glob("*/state"):
                _put(state, "off")
            _put(probe.KDAMONDS / "nr_kdamonds", "0")

    def pids(self) -> tuple[int, ...]:
        """Return the pid of the daemon, if there is one."""
        return () if self.daemon is None else (self.daemon.pid,)

    def log(self) -> str:
        return probe.text(self._log) or ""

    @property
    def profile(self) -> Path:
        """Return where a recorder writes what it has seen."""
        return self.folder / "profile.jsonl"

    @property
    def report(self) -> Path:
        """Return where a report on a running tierd is written."""
        return self.folder / "report.json"

    @property
    def _log(self) -> Path:
        return self.folder / "contender.log"

    def _tierd(self) -> None:
        config = self.folder / "tierd.yaml"
        config.write_text(tierd_config(self.configuration, self.cap))
        self._run("run", "--config", str(config))

    def _report(self) -> None:
        turns = ("--ab", f"{AB_S}s", "--turns", str(AB_PAIRS))
        # The report runs a command without a shell.
        lately = shlex.join(("sh", "-c", LATELY.format(said=self.folder.parent / "driver.out")))
        argv = [*TIERD, "report", *turns, "--command", lately, "--json"]
        with self.report.open("wb") as out, self._log.open("ab") as log:
            self._reporting = subprocess.Popen(argv, stdout=out, stderr=log)

    def _run(self, *words: str) -> None:
        with self._log.open("ab") as log:
            self.daemon = subprocess.Popen([*TIERD, *words], stdout=log, stderr=log)

    def _damo(self) -> None:
        fast, slow = self.place.fast, self.place.slow
        arguments: tuple[str, ...] = cover_letter(self.cap, fast, slow)
        if self.configuration.name == "hmsdk":
            policy = self.folder / "hmsdk.json"
            policy.write_text(json.dumps(hmsdk(fast, slow, self.place.ranges)))
            arguments = ("start", str(policy))
        path = os.pathsep.join((os.environ.get("PYTHONPATH", ""), "/opt/damo"))
        environment = {"HOME": "/root", **os.environ, "PYTHONPATH": path}
        with self._log.open("ab") as log:
            done = subprocess.run([*DAMO, *arguments], env=environment, stdin=subprocess.DEVNULL,
                                  stdout=log, stderr=log, check=False)  # fmt: skip
        if done.returncode:
            raise BenchError(f"damo ended with {done.returncode}:\n{self.log()}")
        self._asking.clear()
        threading.Thread(target=self._ask, daemon=True).start()

    def _ask(self) -> None:
        """Make damo's kdamonds update their statistics, as tierd does with its own."""
        while not self._asking.wait(ASK_S):
            for state in sorted(probe.KDAMONDS.glob("*/state")):
                for command in ("update_schemes_stats", "update_schemes_effective_quotas"):
                    # The kdamond is busy, or about to end. The next round asks it again.
                    with suppress(OSError):
                        state.write_text(command)

    def _wait(self, meanwhile: Callable[[], None]) -> None:
        end_s = time.monotonic() + PATIENCE_S
        while not probe.kdamonds():
            if self.daemon is not None and self.daemon.poll() is not None:
                raise BenchError(f"tierd ended with {self.daemon.returncode}:\n{self.log()}")
            if time.monotonic() > end_s:
                raise BenchError(f"no kdamond runs after {PATIENCE_S:g} s:\n{self.log()}")
            meanwhile()
            time.sleep(POLL_S)


def quiet() -> None:
    """Turn off all that moves or watches pages, until a configuration turns it on."""
    NUMA_BALANCING.write_text("0")
    DEMOTION_ENABLED.write_text("0")
    if DAMON_STAT.exists():
        DAMON_STAT.write_text("N")


def _put(path: Path, value: str) -> None:
    """Write to a file of DAMON. DAMON may be busy for a moment, so try again within a bound."""
    end_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            path.write_text(value)
            return
        except OSError:
            if time.monotonic() > end_s:
                raise
            time.sleep(POLL_S)
