"""A simulated machine, a tierd that runs on it, and a Prometheus that scrapes it."""

import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

import yaml

from tests.monitoring.hastened import hastened
from tests.monitoring.machine import Served
from tests.monitoring.shipped import MONITORING
from tests.prometheus import programs
from tierd.record.rundir import SOCKET
from tierd.record.snapshot import State
from tierd.serving import client

# Bound of each wait. A busy machine is slow, but not as slow as this.
BOUND_S = 240.0
POLL_S = 0.1

# Alerts fire this many times sooner than the shipped ones: an hour becomes twenty seconds.
TIMES = 180.0
INTERVAL = "500ms"

# On so small a node the watermarks take more than half of this headroom.
GOOD = "headroom: 15%\n"
BAD = "headroom: much\n"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        port: int = sock.getsockname()[1]
        return port


def wait_for(what: str, reached: Callable[[], bool]) -> None:
    end_s = time.monotonic() + BOUND_S
    while not reached():
        assert time.monotonic() < end_s, f"waited in vain for {what}"
        time.sleep(POLL_S)


def get(url: str) -> bytes | None:
    """Return the content of a URL, or None if nobody answers."""
    try:
        with urlopen(url, timeout=BOUND_S) as response:
            found: bytes = response.read()
            return found
    except OSError:
        return None


@dataclass
class Scene:
    """The three processes, and what a test can do with them."""

    folder: Path
    ours: str
    """The address of tierd's metrics."""
    theirs: str
    """The address of Prometheus."""
    started: dict[str, "subprocess.Popen[bytes]"] = field(default_factory=dict)

    @property
    def metrics(self) -> str:
        return f"http://{self.ours}/metrics"

    @property
    def prometheus(self) -> str:
        return f"http://{self.theirs}"

    def start(self, name: str, *argv: str | Path) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            self.started[name] = subprocess.Popen(argv, stdout=log, stderr=log)

    def start_tierd(self) -> None:
        self.start(
            "tierd", sys.executable, "-m", "tests.monitoring.served_daemon",
            self.folder / "machine", self.folder / "tierd.yaml", *self.folders,
        )  # fmt: skip

    def end(self, name: str, how: signal.Signals) -> None:
        process = self.started.pop(name)
        process.send_signal(how)
        process.wait(BOUND_S)

    def configure(self, text: str) -> None:
        address = f"metrics: {{address: {self.ours}}}\n"
        (self.folder / "tierd.yaml").write_text(text + address)

    @property
    def socket(self) -> Path:
        """The path of tierd's socket."""
        return self.folders[0] / SOCKET

    @property
    def folders(self) -> tuple[Path, Path]:
        return self.folder / "run", self.folder / "lib"

    def tierd(self, *words: str) -> int:
        """Run a command for the daemon, and return its exit status."""
        argv = [sys.executable, "-m", "tierd", *words, "--run-dir", str(self.folder / "run")]
        return subprocess.run(argv, capture_output=True, check=False).returncode

    def served(self) -> Served:
        return Served(self.folder / "machine")

    def query(self, expression: str) -> list[dict[str, Any]]:
        raw = get(f"{self.prometheus}/api/v1/query?{urlencode({'query': expression})}")
        assert raw is not None, f"Prometheus refuses {expression}"
        found: list[dict[str, Any]] = json.loads(raw)["data"]["result"]
        return found

    def value(self, expression: str) -> float:
        return sum(float(one["value"][1]) for one in self.query(expression))

    def firing(self) -> set[str]:
        """Return the alerts that fire now, with the labels that tell several of a kind apart."""
        found = (one["metric"] for one in self.query('ALERTS{alertstate="firing"}'))
        return {" ".join((one["alertname"], *_about(one))) for one in found}

    def state(self) -> str:
        found = self.query("tierd_state == 1")
        return found[0]["metric"]["state"] if found else "gone"

    def reason(self) -> str:
        """Return the reason for tierd's state."""
        return str(self.status()["reason"])

    def status(self) -> dict[str, Any]:
        return client.get(self.socket, "/v1/status")

    def wait_until_active(self) -> None:
        wait_for("tierd to be active", lambda: self.state() == State.active)


def _about(labels: dict[str, str]) -> list[str]:
    return [labels[name] for name in ("numa_node", "owner", "errno", "file") if name in labels]


def configuration(folder: Path, ours: str) -> str:
    """Return the configuration of Prometheus: the shipped scrape job, and hastened rules."""
    for name in ("alerts.yaml", "recording.yaml"):
        rules = yaml.safe_load((MONITORING / name).read_text())
        (folder / name).write_text(yaml.safe_dump(hastened(rules, TIMES)))
    scrape = (MONITORING / "scrape.yaml").read_text().replace("localhost:19100", ours)
    return (
        f"global: {{scrape_interval: {INTERVAL}, scrape_timeout: {INTERVAL}, "
        f"evaluation_interval: {INTERVAL}}}\n"
        f"rule_files: [{folder}/alerts.yaml, {folder}/recording.yaml]\n{scrape}"
    )


@contextmanager
def machine_and_tierd(folder: Path) -> Iterator[Scene]:
    """Start a machine and a tierd, without a Prometheus."""
    made = Scene(folder, f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}")
    made.configure(GOOD)
    try:
        made.start("machine", sys.executable, "-m", "tests.monitoring.machine", folder / "machine")
        wait_for("the machine", (folder / "machine").exists)
        made.start_tierd()
        wait_for("tierd", lambda: b"tierd_build_info" in (get(made.metrics) or b""))
        yield made
    finally:
        for process in made.started.values():
            process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait(BOUND_S)


@contextmanager
def scene(folder: Path) -> Iterator[Scene]:
    """Start all three, and wait until tierd is active."""
    with machine_and_tierd(folder) as made:
        (folder / "prometheus.yml").write_text(configuration(folder, made.ours))
        made.start(
            "prometheus", programs().prometheus, f"--config.file={folder}/prometheus.yml",
            f"--storage.tsdb.path={folder}/data", f"--web.listen-address={made.theirs}",
        )  # fmt: skip
        wait_for("Prometheus", lambda: get(f"{made.prometheus}/-/ready") is not None)
        made.wait_until_active()
        yield made
