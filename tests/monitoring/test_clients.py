"""Clients that ask too much of a whole tierd: its loop goes on, and its memory does not grow.

The answers of each server are tested in tests/unit (webserver, api). Here tierd is a real process
that reports its own resident set.
"""

import contextlib
import re
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import pairwise

import pytest

from tests.monitoring.scene import BOUND_S, Scene, get, machine_and_tierd, wait_for
from tierd.loop.service import RECENT
from tierd.serving import client

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(600)]

AT_ONCE = 200
SCRAPES = 600
SIEGES = 3
# By all sieges together, or by all scrapes.
GROWTH_BYTES_MAX = 1 << 20

# Rounds of the loop while all clients are connected.
ROUNDS = 5

Connect = Callable[[], socket.socket]


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with machine_and_tierd(tmp_path_factory.mktemp("clients")) as made:
        # The memory of `tierd why` grows until it is full.
        wait_for("a memory", lambda: len(client.get(made.socket, "/v1/recent")["looks"]) == RECENT)
        yield made


def page_of(live: Scene) -> bytes | None:
    return get(f"http://{live.ours}/")


def resident_bytes(live: Scene) -> int:
    found = re.search(rb"^process_resident_memory_bytes (\S+)$", get(live.metrics) or b"", re.M)
    assert found is not None
    return int(float(found[1]))


def over_tcp(live: Scene) -> socket.socket:
    host, _, port = live.ours.partition(":")
    return socket.create_connection((host, int(port)), BOUND_S)


def over_unix(live: Scene) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(BOUND_S)
    sock.connect(str(live.socket))
    return sock


def is_tcp(sock: socket.socket) -> bool:
    return sock.family == socket.AF_INET


def sends(connect: Connect, raw: bytes) -> None:
    """Send all bytes that the server takes, and read its answer."""
    with connect() as sock, contextlib.suppress(ConnectionError):
        sock.sendall(raw)
        sock.shutdown(socket.SHUT_WR)
        while sock.recv(65536):
            pass


def besiege(live: Scene, connect: Connect) -> None:
    """Connect many clients that are silent, never end a request or read nothing. Send garbage."""
    with ExitStack() as held:
        for number in range(AT_ONCE):
            sock = held.enter_context(connect())
            if number % 3:
                # The longest answer of each server.
                path = b"/" if is_tcp(sock) else b"/v1/recent"
                ends = b"\r\n\r\n" * (number % 3 - 1)
                sock.sendall(b"GET " + path + b" HTTP/1.1\r\nX: " + ends)
        before = live.status()["at"]
        wait_for("the loop", lambda: rounds_since(live, before) >= ROUNDS)
    for garbage in (b"\0\xff" * 1000, b"\r\n\r\n", b"POST " + b"/" * 10_000_000):
        sends(connect, garbage)


def rounds_since(live: Scene, at: float) -> int:
    looks = client.get(live.socket, "/v1/recent")["looks"]
    return sum(look["at"] > at for look in looks)


def test_the_page_costs_little_memory_and_is_not_loaded_before_somebody_asks(live: Scene) -> None:
    """This is the first test that asks for the page: the growth is that of its modules too."""
    get(live.metrics)
    before = resident_bytes(live)
    for _ in range(SCRAPES):
        assert page_of(live) is not None
    assert resident_bytes(live) - before <= GROWTH_BYTES_MAX


@pytest.mark.parametrize("over", [over_tcp, over_unix])
def test_a_siege_neither_stops_the_loop_nor_makes_it_grow(
    live: Scene, over: Callable[[Scene], socket.socket]
) -> None:
    """On a busy machine more threads run at once, and malloc keeps memory for each of them. That is
    a step. What is left behind grows with each siege.
    """
    sizes: list[int] = []
    for _ in range(1 + SIEGES):
        besiege(live, lambda: over(live))
        sizes.append(resident_bytes(live))
    least = min(after - before for before, after in pairwise(sizes))
    assert least <= GROWTH_BYTES_MAX / SIEGES, sizes


def test_scrapes_leave_nothing_behind(live: Scene) -> None:
    """As many as in ten minutes, one after the other. tools/soak_scrape.py runs for ten minutes."""
    get(live.metrics)
    before = resident_bytes(live)
    for _ in range(SCRAPES):
        assert get(live.metrics) is not None
    assert resident_bytes(live) - before <= GROWTH_BYTES_MAX
