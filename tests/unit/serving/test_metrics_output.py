"""Metrics over a real socket and in a real file."""

import logging
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from tierd.configuration.config import Config
from tierd.record.daemon_counts import DaemonCounts
from tierd.record.snapshot import EventStatus, Snapshot, State
from tierd.serving import metrics_text, webserver
from tierd.serving.metrics import METRICS, Seen
from tierd.serving.metrics_output import LOOP_AGE_S_MAX, TEXTFILE_S, MetricsOutput
from tierd.serving.webserver import Page

BY_NAME = {metric.name: metric for metric in METRICS}


def snapshot(at: float, state: State = State.active) -> Snapshot:
    return Snapshot(at, "1", 1, 0.0, state, "", "manage", "kernel", "", "this machine")


def free_address() -> str:
    with webserver.listen("127.0.0.1:0") as listener:
        return f"127.0.0.1:{listener.getsockname()[1]}"


def lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if not line.startswith("#")]


def keeps(write: Callable[[DaemonCounts], None]) -> Callable[[DaemonCounts], bool]:
    """Return a writer for a disk without failures."""

    def keep(tally: DaemonCounts) -> bool:
        write(tally)
        return True

    return keep


@pytest.fixture
def kept() -> list[DaemonCounts]:
    return []


@pytest.fixture
def metrics_output(kept: list[DaemonCounts]) -> Iterator[MetricsOutput]:
    made = MetricsOutput(DaemonCounts(), keeps(kept.append), pages={"/": lambda: Page(b"hello\n")})
    yield made
    made.stop()


def get(address: str, path: str) -> str:
    with urlopen(f"http://{address}{path}", timeout=30) as response:
        text: str = response.read().decode()
        return text


def test_by_default_it_answers_at_the_loopback_address_only(metrics_output: MetricsOutput) -> None:
    host, _, port = (Config().metrics_address or "").rpartition(":")
    assert (host, port) == ("127.0.0.1", "19100")
    # Another tierd may have the default port.
    _, _, free = free_address().rpartition(":")
    metrics_output.start(Config(metrics_address=f"{host}:{free}"))
    assert get(f"127.0.0.1:{free}", "/") == "hello\n"
    # This is an address of the same machine too. A server that listens on all addresses has it.
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", int(free)), 30)


def test_a_scrape_tells_the_last_snapshot_and_what_the_process_costs(
    metrics_output: MetricsOutput,
) -> None:
    address = free_address()
    metrics_output.start(Config(metrics_address=address))
    assert "tierd_" not in get(address, "/metrics")
    metrics_output.happened(EventStatus(1.0, "degraded", "why"))
    metrics_output.refused("EBUSY")
    metrics_output.publish(snapshot(2.0))
    told = lines(get(address, "/metrics"))
    assert 'tierd_state{state="active"} 1.0' in told
    assert 'tierd_state{state="paused"} 0.0' in told
    assert 'tierd_events_total{event="degraded"} 1.0' in told
    assert 'tierd_events_total{event="kdamond_died"} 0.0' in told
    assert 'tierd_kernel_write_errors_total{errno="EBUSY"} 1.0' in told
    assert "tierd_loop_last_success_timestamp_seconds 2.0" in told
    assert any(line.startswith("process_resident_memory_bytes") for line in told)
    assert get(address, "/") == "hello\n"


def test_a_round_with_trouble_is_no_success(metrics_output: MetricsOutput) -> None:
    metrics_output.publish(snapshot(2.0))
    metrics_output.publish(snapshot(3.0, State.degraded))
    assert metrics_output.tally.succeeded_at == 2.0


def test_the_textfile_harms_no_file_that_somebody_has_a_link_to(tmp_path: Path) -> None:
    """The folder is node_exporter's. Others than root may be able to write there."""
    treasure = tmp_path / "treasure"
    treasure.write_text("gold")
    treasure.chmod(0o600)
    path = tmp_path / "tierd.prom"
    path.with_name(f".tierd.prom.{os.getpid()}").symlink_to(treasure)
    metrics_text.write_textfile(path, b"numbers")
    assert (treasure.read_text(), treasure.stat().st_mode & 0o777) == ("gold", 0o600)
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"numbers", 0o644)


def test_the_textfile_is_for_all_to_read_and_goes_with_the_daemon(
    tmp_path: Path, metrics_output: MetricsOutput
) -> None:
    path, now_s = tmp_path / "tierd.prom", [100.0]
    metrics_output.monotonic = lambda: now_s[0]
    metrics_output.start(Config(metrics_address=None, metrics_textfile=str(path)))
    metrics_output.publish(snapshot(1.0))
    assert path.stat().st_mode & 0o777 == 0o644
    told = path.read_text()
    assert 'tierd_state{state="active"} 1.0' in told
    # node_exporter has metrics of the same names.
    assert "process_" not in told
    metrics_output.publish(snapshot(2.0, State.paused))
    assert path.read_text() == told
    now_s[0] += TEXTFILE_S
    # Even if the real-time clock was set meanwhile.
    metrics_output.publish(snapshot(-3600.0, State.paused))
    assert 'tierd_state{state="paused"} 1.0' in path.read_text()
    assert [one.name for one in tmp_path.iterdir()] == ["tierd.prom"]
    metrics_output.stop()
    assert not path.exists()


def test_what_cannot_be_told_is_said_once(
    tmp_path: Path, metrics_output: MetricsOutput, caplog: pytest.LogCaptureFixture
) -> None:
    metrics_output.start(
        Config(metrics_address=None, metrics_textfile=str(tmp_path / "no/tierd.prom"))
    )
    with caplog.at_level(logging.WARNING):
        for at in (0.0, 20.0, 40.0):
            metrics_output.publish(snapshot(at))
    assert len(caplog.messages) == 1
    assert "No such file" in caplog.text


def test_a_port_that_is_taken_does_not_stop_the_daemon(
    metrics_output: MetricsOutput, caplog: pytest.LogCaptureFixture
) -> None:
    with webserver.listen("127.0.0.1:0") as taken, caplog.at_level(logging.WARNING):
        port = taken.getsockname()[1]
        metrics_output.start(Config(metrics_address=f"127.0.0.1:{port}"))
    assert "Address already in use" in caplog.text
    metrics_output.publish(snapshot(1.0))


def test_the_tally_is_kept_when_it_changes_and_not_at_every_round(
    metrics_output: MetricsOutput, kept: list[DaemonCounts]
) -> None:
    for at in (1.0, 2.0, 3.0):
        metrics_output.publish(snapshot(at))
    assert len(kept) == 1
    metrics_output.happened(EventStatus(4.0, "reload", ""))
    assert len(kept) == 1
    metrics_output.publish(snapshot(4.0))
    assert kept[-1].events == {"reload": 1}


def test_a_counter_is_on_disk_before_anybody_sees_it() -> None:
    order = []

    def keep(tally: DaemonCounts) -> None:
        order.append((dict(tally.events), made.seen))

    made = MetricsOutput(DaemonCounts(), keeps(keep))
    made.happened(EventStatus(4.0, "reload", ""))
    made.publish(snapshot(4.0))
    assert order == [({"reload": 1}, None)]


def test_a_tally_that_cannot_be_kept_is_tried_again_and_the_failures_are_told() -> None:
    lost = ["tally.json", "tally.json", "events.ring"]

    def failures() -> tuple[str, ...]:
        found = tuple(lost)
        lost.clear()
        return found

    tried = []

    def keep(tally: DaemonCounts) -> bool:
        tried.append(tally)
        return len(tried) > 2

    metrics_output = MetricsOutput(DaemonCounts(), keep, failures)
    for at in (1.0, 2.0, 3.0, 4.0):
        metrics_output.publish(snapshot(at))
    assert len(tried) == 3
    assert metrics_output.seen is not None
    errors = dict(BY_NAME["bookkeeping_errors_total"].values(metrics_output.seen))
    assert {name: count for (name,), count in errors.items() if count} == {
        "tally.json": 2,
        "events.ring": 1,
    }


def test_the_text_is_as_the_library_writes_it() -> None:
    """Labels may have any character that has to be escaped."""
    events = {"running": 3, 'a "quoted" \\ and\nbroken': 10**16}
    seen = Seen(snapshot(1.5), DaemonCounts(events=events, reloaded_at=1.7e9))
    ours = metrics_text.source(lambda: seen, process=False)().decode()
    made = CollectorRegistry(auto_describe=False)
    made.register(metrics_text.SeenCollector(lambda: seen))
    theirs = generate_latest(made).decode()
    assert families(ours) == families(theirs)
    assert len(families(ours)) > 20


def families(text: str) -> list[Metric]:
    return list(text_string_to_metric_families(text))


def test_metrics_load_no_server_no_client_and_no_tls() -> None:
    """These modules would take most of the daemon's memory beside Python."""
    script = (
        "import sys; from tierd.serving import metrics_output, webserver, metrics_text;"
        "print(*({'ssl', 'http.server', 'http.client', 'wsgiref'} & set(sys.modules)));"
        "import prometheus_client; print(prometheus_client.generate_latest.__name__)"
    )
    argv = [sys.executable, "-c", script]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert done.stdout == "\ngenerate_latest\n"


def test_health_is_that_of_the_loop_and_not_of_the_thread_that_tells_it() -> None:
    now_s = 1000.0
    metrics_output = MetricsOutput(DaemonCounts(), lambda _tally: True, monotonic=lambda: now_s)
    address = free_address()
    metrics_output.start(Config(metrics_address=address))
    try:
        assert get(address, "/healthz").startswith("ok")
        now_s += LOOP_AGE_S_MAX + 1
        with pytest.raises(HTTPError, match="503"):
            get(address, "/healthz")
        # A degraded daemon still works.
        metrics_output.publish(snapshot(1.0, State.degraded))
        assert get(address, "/healthz").startswith("ok")
    finally:
        metrics_output.stop()


READY: list[tuple[str, Snapshot | None, int, str]] = [
    ("before the first tick", None, 503, "not ready: starting: no round of the loop has ended"),
    ("the plan runs", snapshot(1.0), 200, "ready: active"),
    ("it moves nothing", snapshot(1.0, State.observing), 200, "ready: observing"),
    ("as a user asked", snapshot(1.0, State.paused), 200, "ready: paused"),
    (
        "no plan",
        replace(snapshot(1.0, State.starting), reason="why"),
        503,
        "not ready: starting: why",
    ),
    (
        "a reason with a name that is not UTF-8",
        replace(snapshot(1.0, State.degraded), reason="/evil\udcff"),
        503,
        "not ready: degraded: /evil\\udcff",
    ),
]


@pytest.mark.parametrize(
    ("seen", "status", "text"), [row[1:] for row in READY], ids=[row[0] for row in READY]
)
def test_tierd_is_ready_when_its_plan_runs(
    metrics_output: MetricsOutput, seen: Snapshot | None, status: int, text: str
) -> None:
    if seen is not None:
        metrics_output.publish(seen)
    page = metrics_output.readiness()
    assert (page.status.value, page.body.decode()) == (status, f"{text}\n")


def test_a_loop_that_stands_still_is_not_ready() -> None:
    now_s = 1000.0
    metrics_output = MetricsOutput(DaemonCounts(), lambda _tally: True, monotonic=lambda: now_s)
    metrics_output.publish(snapshot(1.0))
    assert metrics_output.readiness().status.value == 200
    now_s += LOOP_AGE_S_MAX + 1
    assert metrics_output.readiness().status.value == 503


def test_the_address_of_the_page_is_known_while_it_is_served(metrics_output: MetricsOutput) -> None:
    address = free_address()
    metrics_output.start(Config(metrics_address=address))
    assert metrics_output.url == f"http://{address}/"
    assert get(address, "/") == "hello\n"
    with pytest.raises(HTTPError, match="503"):
        get(address, "/readyz")


def test_a_page_whose_port_is_taken_has_no_address(metrics_output: MetricsOutput) -> None:
    with webserver.listen("127.0.0.1:0") as taken:
        port = taken.getsockname()[1]
        metrics_output.start(Config(metrics_address=f"127.0.0.1:{port}"))
    assert metrics_output.url is None
