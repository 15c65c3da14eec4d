"""Metrics for systemd: the protocol, and the socket with clients that misbehave."""

import json
import os
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.snapshots import FAST, MIB, SNAPSHOT
from tierd.configuration.config import Config
from tierd.record.daemon_counts import DaemonCounts
from tierd.serving import varlink
from tierd.serving.metrics import METRICS, Seen
from tierd.serving.metrics_output import REPORTS, MetricsOutput
from tierd.serving.varlink import NAME, NotVarlink, answer
from tierd.serving.webserver import REQUEST_BYTES_MAX

SEEN = Seen(SNAPSHOT, DaemonCounts())
LIST = "io.systemd.Metrics.List"
DESCRIBE = "io.systemd.Metrics.Describe"

# Bound of each wait in a test.
BOUND_S = 30.0


@dataclass
class Client:
    """A Varlink client: it sends calls, and takes replies until one has no `continues`."""

    sock: socket.socket
    rest: bytes = b""

    def send(self, call: Any) -> None:
        self.sock.sendall(json.dumps(call).encode() + b"\0")

    def replies(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        while not found or found[-1].get("continues"):
            while b"\0" not in self.rest:
                chunk = self.sock.recv(65536)
                if not chunk:
                    raise ConnectionResetError("the server has closed the connection")
                self.rest += chunk
            text, _, self.rest = self.rest.partition(b"\0")
            found.append(json.loads(text))
        return found

    def call(self, method: str, *, more: bool = False, **parameters: Any) -> list[dict[str, Any]]:
        self.send({"method": method, "parameters": parameters, "more": more})
        return self.replies()


@dataclass
class Place:
    """A directory of sockets, and how to connect to tierd's."""

    root: Path
    clients: list[socket.socket] = field(default_factory=list)

    def client(self) -> Client:
        sock = socket.socket(socket.AF_UNIX)
        sock.settimeout(BOUND_S)
        # The path may be too long for an address, so it is reached from its folder.
        folder = os.open(self.root / REPORTS, os.O_RDONLY)
        sock.connect(f"/proc/self/fd/{folder}/{NAME}")
        os.close(folder)
        self.clients.append(sock)
        return Client(sock)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    (tmp_path / REPORTS).mkdir(parents=True)
    output = MetricsOutput(DaemonCounts(), lambda _tally: True)
    output.start_report(tmp_path)
    output.publish(SNAPSHOT)
    found = Place(tmp_path)
    yield found
    output.stop()
    for sock in found.clients:
        sock.close()
    assert not (tmp_path / REPORTS / NAME).exists()


def parameters(replies: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [one["parameters"] for one in replies]


def test_list_has_every_value_once(place: Place) -> None:
    found = parameters(place.client().call(LIST, more=True))
    keys = [(one["name"], json.dumps(one.get("fields"))) for one in found]
    assert len(set(keys)) == len(keys)
    by_name = {one["name"]: one for one in found}
    assert by_name["io.tierd.state"] == {"name": "io.tierd.state", "value": "active"}
    free = [one for one in found if one["name"] == "io.tierd.node_memory_free_bytes"]
    assert free[0]["fields"] == {"numa_node": "0", "tier": "memory_tier4"}
    assert free[0]["value"] == FAST.free_bytes
    assert by_name["io.tierd.promoted_bytes_total"]["value"] == 200 * MIB
    # Whole numbers are integers, and others are not.
    assert isinstance(free[0]["value"], int)
    assert by_name["io.tierd.goal_target_ratio"]["value"] == 0.1


def test_describe_has_every_family_of_the_table(place: Place) -> None:
    found = {one["name"]: one for one in parameters(place.client().call(DESCRIBE, more=True))}
    for metric in METRICS:
        if metric.name not in varlink.IN_STRINGS:
            described = found.pop(f"{NAME}.{metric.name}")
            assert described["type"] == metric.kind
            assert described["description"] == metric.doc
    assert {one["type"] for one in found.values()} == {"string"}
    assert {name.rpartition(".")[2] for name in found} == set(varlink.STRINGS)


def test_it_says_what_it_is(place: Place) -> None:
    client = place.client()
    (info,) = parameters(client.call("org.varlink.service.GetInfo"))
    assert info["product"] == "tierd"
    for interface in info["interfaces"]:
        # One connection serves several calls.
        (told,) = parameters(
            client.call("org.varlink.service.GetInterfaceDescription", interface=interface)
        )
        assert told["description"].startswith(f"interface {interface}\n")


def test_calls_that_come_together_are_answered_in_turn(place: Place) -> None:
    client = place.client()
    for _ in range(3):
        client.send({"method": LIST, "more": True})
    client.send({"method": DESCRIBE, "more": True, "oneway": True})
    client.send({"method": "org.varlink.service.GetInfo"})
    sizes = {len(client.replies()) for _ in range(3)}
    assert len(sizes) == 1
    assert client.replies()[0]["parameters"]["product"] == "tierd"


@pytest.mark.parametrize(
    ("call", "error", "parameters"),
    [
        ({"method": LIST}, "org.varlink.service.ExpectedMore", {}),
        (
            {"method": LIST, "more": True, "parameters": {"x": 1}},
            "org.varlink.service.InvalidParameter",
            {"parameter": "x"},
        ),
        (
            {"method": "io.systemd.Metrics.Reset"},
            "org.varlink.service.MethodNotFound",
            {"method": "Reset"},
        ),
        (
            {"method": "io.systemd.Facts.List", "more": True},
            "org.varlink.service.InterfaceNotFound",
            {"interface": "io.systemd.Facts"},
        ),
        (
            {"method": "org.varlink.service.GetInterfaceDescription"},
            "org.varlink.service.InvalidParameter",
            {"parameter": "interface"},
        ),
        (
            {
                "method": "org.varlink.service.GetInterfaceDescription",
                "parameters": {"interface": "a.b"},
            },
            "org.varlink.service.InterfaceNotFound",
            {"interface": "a.b"},
        ),
    ],
)
def test_errors(call: dict[str, Any], error: str, parameters: dict[str, str]) -> None:
    reply = json.loads(answer(json.dumps(call).encode() + b"\0", lambda: b"")[:-1])
    assert reply == {"error": error, "parameters": parameters}


@pytest.mark.parametrize(
    "request_",
    [
        b"\0",
        b"GET / HTTP/1.1\r\n\r\n\0",
        b"[]\0",
        b"{}\0",
        b'{"method":1}\0',
        b"\xff\0",
        b"[" * 8000,
    ],
)
def test_what_is_no_call_ends_the_connection(request_: bytes, place: Place) -> None:
    with pytest.raises(NotVarlink):
        answer(request_, lambda: b"")
    client = place.client()
    client.sock.sendall(request_)
    client.sock.shutdown(socket.SHUT_WR)
    assert client.sock.recv(1) == b""


def test_a_request_without_end_is_cut_off(place: Place) -> None:
    client = place.client()
    client.sock.sendall(b" " * (REQUEST_BYTES_MAX + 1))
    assert client.sock.recv(1) == b""


def test_before_the_first_tick_there_is_no_metric() -> None:
    (reply,) = varlink.Listed(lambda: None)().split(b"\0")[:-1]
    assert json.loads(reply)["error"] == "io.systemd.Metrics.NoSuchMetric"


def test_the_text_is_made_once_per_tick() -> None:
    seen = [SEEN]
    listed = varlink.Listed(lambda: seen[0])
    first = listed()
    assert listed() is first
    seen[0] = Seen(replace(SNAPSHOT, at=1.0), DaemonCounts())
    assert listed() is not first


def test_a_name_that_is_not_utf_8_is_told_as_text() -> None:
    hostile = Seen(replace(SNAPSHOT, reason="cgroup /a\udcff"), DaemonCounts())
    (reason,) = (one for one in varlink.listed(hostile) if one["name"] == "io.tierd.reason")
    assert reason["value"] == "cgroup /a\\udcff"


def test_names_are_as_systemd_wants_them() -> None:
    """varlink_idl_field_name_is_valid(): letters and digits, and single underscores in between."""
    for one in varlink.described():
        prefix, _, name = one["name"].rpartition(".")
        assert prefix == NAME
        assert name.replace("_", "x").isalnum()
        assert name[0].isalpha()
        assert "__" not in name
        assert not name.endswith("_")


def test_every_user_may_ask(place: Place) -> None:
    assert (place.root / REPORTS / NAME).stat().st_mode & 0o777 == 0o666


def test_silent_clients_do_not_keep_others_waiting(place: Place) -> None:
    silent = [place.client() for _ in range(50)]
    assert parameters(place.client().call(LIST, more=True))
    assert len(silent) == 50


def test_without_the_directory_nothing_is_made(tmp_path: Path) -> None:
    output = MetricsOutput(DaemonCounts(), lambda _tally: True)
    before = set(threading.enumerate())
    output.start_report(tmp_path)
    output.start(Config(metrics_address=None))
    output.publish(SNAPSHOT)
    output.stop()
    assert set(threading.enumerate()) <= before
    assert not list(tmp_path.iterdir())


def test_a_directory_that_cannot_be_used_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / REPORTS / NAME).mkdir(parents=True)
    output = MetricsOutput(DaemonCounts(), lambda _tally: True)
    output.start_report(tmp_path)
    output.stop()
    assert "cannot listen on" in caplog.text
