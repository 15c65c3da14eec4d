"""What ships, in the hands of a real Prometheus: linted, tested, scraped, every query run."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest

from tests.monitoring.shipped import MONITORING, queries, rules
from tests.prometheus import programs

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(600)]

# On a busy machine everything takes long; whoever waits so long has failed.
BOUND_S = 240.0
POLL_S = 0.5

# What half a minute of a healthy loop has none of.
MAY_BE_EMPTY = ("tierd_hot_bytes", "tierd_cold_bytes", "increase(tierd_events_total")


def promtool(*words: str, given: bytes | None = None) -> None:
    done = subprocess.run(
        [str(programs().promtool), *words],
        input=given, capture_output=True, check=False, cwd=MONITORING,
    )  # fmt: skip
    assert (done.returncode, b"") == (0, done.stderr), (done.stdout + done.stderr).decode()


def test_the_rules_are_well_formed() -> None:
    promtool("check", "rules", "--lint=all", "--lint-fatal", "alerts.yaml", "recording.yaml")


def test_every_alert_fires_and_resolves() -> None:
    promtool("test", "rules", "alerts_test.yaml")


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
    """What is there; None while nobody answers."""
    try:
        with urlopen(url, timeout=BOUND_S) as response:
            found: bytes = response.read()
            return found
    except OSError:
        return None


@dataclass(frozen=True, slots=True)
class Scene:
    """A tierd at work on a simulated machine, and a Prometheus that scrapes it."""

    metrics: str
    prometheus: str
    run_dir: Path

    def query(self, expression: str) -> list[dict[str, Any]]:
        raw = get(f"{self.prometheus}/api/v1/query?{urlencode({'query': expression})}")
        assert raw is not None, f"Prometheus refuses {expression}"
        found: list[dict[str, Any]] = json.loads(raw)["data"]["result"]
        return found

    def value(self, expression: str) -> float:
        return sum(float(one["value"][1]) for one in self.query(expression))


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    tools = programs()
    folder = tmp_path_factory.mktemp("prometheus")
    ours, theirs = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
    (folder / "tierd.yaml").write_text(f"metrics: {{address: {ours}}}\n")
    scrape = (MONITORING / "scrape.yaml").read_text().replace("localhost:19100", ours)
    (folder / "prometheus.yml").write_text(
        "global: {scrape_interval: 1s, evaluation_interval: 1s}\n"
        f"rule_files: [{MONITORING}/alerts.yaml, {MONITORING}/recording.yaml]\n{scrape}"
    )
    argvs = (
        [sys.executable, "-m", "tierd", "run", "--simulate", "--config", str(folder / "tierd.yaml"),
         "--run-dir", str(folder / "run"), "--state-dir", str(folder / "lib")],
        [str(tools.prometheus), f"--config.file={folder}/prometheus.yml",
         f"--storage.tsdb.path={folder}/data", f"--web.listen-address={theirs}"],
    )  # fmt: skip
    with (folder / "log").open("wb") as log:
        started = [subprocess.Popen(argv, stdout=log, stderr=log) for argv in argvs]
    try:
        made = Scene(f"http://{ours}/metrics", f"http://{theirs}", folder / "run")
        wait_for("tierd", lambda: b"tierd_build_info" in (get(made.metrics) or b""))
        wait_for("Prometheus", lambda: get(f"{made.prometheus}/-/ready") is not None)
        samples = "count_over_time(tierd_loop_duration_seconds[5m])"
        wait_for("samples", lambda: made.value(samples) >= 15)
        wait_for("movement", lambda: made.value("tierd_promoted_bytes_total") > 0)
        yield made
    finally:
        for process in started:
            process.send_signal(signal.SIGTERM)
        for process in started:
            process.wait(BOUND_S)


def test_the_endpoint_is_as_prometheus_wants_it(scene: Scene) -> None:
    """The linter knows no series whose unit is in no name: `quota_exceeded` counts windows."""
    raw = get(scene.metrics)
    assert raw is not None
    promtool("check", "metrics", given=raw)


@pytest.mark.parametrize("query", queries())
def test_every_query_of_the_dashboard_finds_samples(scene: Scene, query: str) -> None:
    asked = query.replace("$__rate_interval", "30s").replace("$instance", ".*")
    found = scene.query(asked)
    assert found or any(name in query for name in MAY_BE_EMPTY)


def test_every_rule_is_healthy_and_no_alert_fires(scene: Scene) -> None:
    raw = get(f"{scene.prometheus}/api/v1/rules")
    assert raw is not None
    seen = [rule for group in json.loads(raw)["data"]["groups"] for rule in group["rules"]]
    assert len(seen) == len(rules("alerts.yaml")) + len(rules("recording.yaml"))
    assert {rule["health"] for rule in seen} <= {"ok", "unknown"}
    assert not scene.query('ALERTS{alertstate="firing"}')


def test_what_prometheus_has_is_what_tierd_says(scene: Scene) -> None:
    """The totals grow on, so the scraped one lies between two answers of tierd itself."""
    before = told_bytes(scene)
    wait_for("a later scrape", lambda: scene.value("tierd_promoted_bytes_total") >= before)
    scraped = scene.value("tierd_promoted_bytes_total")
    assert before <= scraped <= told_bytes(scene)


def told_bytes(scene: Scene) -> int:
    argv = [sys.executable, "-m", "tierd", "status", "--json", "--run-dir", str(scene.run_dir)]
    done = subprocess.run(argv, capture_output=True, check=False, env=dict(os.environ))
    schemes = json.loads(done.stdout)["schemes"]
    return sum(one["applied_bytes_total"] for one in schemes if one["action"] == "promote")
