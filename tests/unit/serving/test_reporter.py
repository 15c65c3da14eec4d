"""What is told in numbers, over a real socket and in a real file."""

import logging
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest

from tierd.configuration.config import Config
from tierd.errors import TierdError
from tierd.record.snapshot import EventStatus, Snapshot, State
from tierd.record.tally import Tally
from tierd.serving import webserver
from tierd.serving.reporter import TEXTFILE_S, Reporter


def snapshot(at: float, state: State = State.active) -> Snapshot:
    return Snapshot(at, "1", 1, 0.0, state, "", "manage", "kernel", "", "this machine")


def free_address() -> str:
    with webserver.listen("127.0.0.1:0") as listener:
        return f"127.0.0.1:{listener.getsockname()[1]}"


def lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if not line.startswith("#")]


@pytest.fixture
def kept() -> list[Tally]:
    return []


@pytest.fixture
def reporter(kept: list[Tally]) -> Iterator[Reporter]:
    made = Reporter(Tally(), kept.append)
    yield made
    made.stop()


def get(address: str, path: str) -> str:
    with urlopen(f"http://{address}{path}", timeout=30) as response:
        text: str = response.read().decode()
        return text


def test_a_scrape_tells_the_last_snapshot_and_what_the_process_costs(reporter: Reporter) -> None:
    address = free_address()
    reporter.start(Config(metrics_address=address))
    assert "tierd_" not in get(address, "/metrics")
    reporter.happened(EventStatus(1.0, "degraded", "why"))
    reporter.refused("EBUSY")
    reporter.publish(snapshot(2.0))
    told = lines(get(address, "/metrics"))
    assert 'tierd_state{state="active"} 1.0' in told
    assert 'tierd_state{state="paused"} 0.0' in told
    assert 'tierd_events_total{event="degraded"} 1.0' in told
    assert 'tierd_events_total{event="kdamond_died"} 0.0' in told
    assert 'tierd_kernel_write_errors_total{errno="EBUSY"} 1.0' in told
    assert "tierd_loop_last_success_timestamp_seconds 2.0" in told
    assert any(line.startswith("process_resident_memory_bytes") for line in told)
    assert "/metrics" in get(address, "/")


def test_a_round_with_trouble_is_no_success(reporter: Reporter) -> None:
    reporter.publish(snapshot(2.0))
    reporter.publish(snapshot(3.0, State.degraded))
    assert reporter.tally.succeeded_at == 2.0


def test_the_textfile_is_for_all_to_read_and_goes_with_the_daemon(
    tmp_path: Path, reporter: Reporter
) -> None:
    path = tmp_path / "tierd.prom"
    reporter.start(Config(metrics_address=None, metrics_textfile=str(path)))
    reporter.publish(snapshot(1.0))
    assert path.stat().st_mode & 0o777 == 0o644
    told = path.read_text()
    assert 'tierd_state{state="active"} 1.0' in told
    # node_exporter has these by the same names.
    assert "process_" not in told
    reporter.publish(snapshot(2.0, State.paused))
    assert path.read_text() == told
    reporter.publish(snapshot(1.0 + TEXTFILE_S, State.paused))
    assert 'tierd_state{state="paused"} 1.0' in path.read_text()
    assert [one.name for one in tmp_path.iterdir()] == ["tierd.prom"]
    reporter.stop()
    assert not path.exists()


def test_what_cannot_be_told_is_said_once(
    tmp_path: Path, reporter: Reporter, caplog: pytest.LogCaptureFixture
) -> None:
    reporter.start(Config(metrics_address=None, metrics_textfile=str(tmp_path / "no/tierd.prom")))
    with caplog.at_level(logging.WARNING):
        for at in (0.0, 20.0, 40.0):
            reporter.publish(snapshot(at))
    assert len(caplog.messages) == 1
    assert "No such file" in caplog.text


def test_a_port_that_is_taken_does_not_stop_the_daemon(
    reporter: Reporter, caplog: pytest.LogCaptureFixture
) -> None:
    with webserver.listen("127.0.0.1:0") as taken, caplog.at_level(logging.WARNING):
        port = taken.getsockname()[1]
        reporter.start(Config(metrics_address=f"127.0.0.1:{port}"))
    assert "Address already in use" in caplog.text
    reporter.publish(snapshot(1.0))


def test_the_tally_is_kept_when_it_changes_and_not_at_every_round(
    reporter: Reporter, kept: list[Tally]
) -> None:
    for at in (1.0, 2.0, 3.0):
        reporter.publish(snapshot(at))
    assert len(kept) == 1
    reporter.happened(EventStatus(4.0, "reload", ""))
    assert len(kept) == 1
    reporter.publish(snapshot(4.0))
    assert kept[-1].events == {"reload": 1}


def test_a_counter_is_on_disk_before_anybody_sees_it() -> None:
    order = []

    def keep(tally: Tally) -> None:
        order.append((dict(tally.events), made.seen))

    made = Reporter(Tally(), keep)
    made.happened(EventStatus(4.0, "reload", ""))
    made.publish(snapshot(4.0))
    assert order == [({"reload": 1}, None)]


def test_a_full_disk_does_not_stop_the_loop(caplog: pytest.LogCaptureFixture) -> None:
    def keep(_: Tally) -> None:
        raise TierdError("cannot write: No space left on device", "make room")

    reporter = Reporter(Tally(), keep)
    with caplog.at_level(logging.WARNING):
        for at in (1.0, 2.0):
            reporter.happened(EventStatus(at, "reload", ""))
            reporter.publish(snapshot(at))
    assert len(caplog.messages) == 1
    assert reporter.seen is not None
