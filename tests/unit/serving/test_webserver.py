"""The server of /metrics over real sockets: its answers, and clients that it does not wait for."""

import contextlib
import os
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path

import pytest

from tierd.serving import tls, webserver
from tierd.serving.webserver import (
    CLIENTS_MAX,
    REQUEST_BYTES_MAX,
    CannotListen,
    Page,
    answer,
)

PAGES = {
    "/metrics": lambda: Page(b"tierd_state 1\n"),
    "/long": lambda: Page(b"x" * 4_000_000),
}

# Bound of each wait in a test.
BOUND_S = 30.0


@pytest.fixture
def port() -> Iterator[int]:
    listener = webserver.listen("127.0.0.1:0")
    number: int = listener.getsockname()[1]
    server = webserver.serve(listener, PAGES)
    yield number
    server.stop()


def connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), BOUND_S)


def read_all(sock: socket.socket) -> bytes:
    chunks = []
    # The server may close the connection after garbage.
    with contextlib.suppress(ConnectionError):
        while chunk := sock.recv(65536):
            chunks.append(chunk)
    return b"".join(chunks)


def ask(port: int, request: bytes = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n") -> bytes:
    with connected(port) as sock:
        sock.sendall(request)
        return read_all(sock)


def test_a_page_comes_whole_with_its_length(port: int) -> None:
    head, _, body = ask(port).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"Content-Length: 14" in head
    assert b"Connection: close" in head
    assert body == b"tierd_state 1\n"


def test_a_long_page_comes_whole_to_a_client_that_takes_it_in_pieces(port: int) -> None:
    assert len(ask(port, b"GET /long HTTP/1.0\r\n\r\n")) > 4_000_000


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET /metrics HTTP/1.1\r\n\r\n", HTTPStatus.OK),
        (b"GET /metrics?name=x HTTP/1.0\r\n\r\n", HTTPStatus.OK),
        (b"GET /nope HTTP/1.1\r\n\r\n", HTTPStatus.NOT_FOUND),
        (b"GET /../etc/shadow HTTP/1.1\r\n\r\n", HTTPStatus.NOT_FOUND),
        (b"GET /\xff HTTP/1.1\r\n\r\n", HTTPStatus.NOT_FOUND),
        (b"POST /metrics HTTP/1.1\r\n\r\n", HTTPStatus.METHOD_NOT_ALLOWED),
        (b"GET /metrics\r\n\r\n", HTTPStatus.BAD_REQUEST),
        (b"GET /metrics HTTP/1.1\r\nX: ", HTTPStatus.BAD_REQUEST),
        (b"GET /metrics HTTP/9.9\r\n\r\n", HTTPStatus.BAD_REQUEST),
        (b"\0\xff\x16\x03\r\n\r\n", HTTPStatus.BAD_REQUEST),
        (b"", HTTPStatus.BAD_REQUEST),
        (b"GET /" + b"x" * REQUEST_BYTES_MAX + b" HTTP/1.1\r\n\r\n", HTTPStatus.BAD_REQUEST),
    ],
)
def test_every_request_has_an_answer(request_: bytes, status: HTTPStatus) -> None:
    assert answer(request_, PAGES).startswith(f"HTTP/1.1 {status.value} ".encode())


def test_an_unknown_path_is_answered_with_those_there_are() -> None:
    said = answer(b"GET /nope HTTP/1.1\r\n\r\n", PAGES)
    assert said.endswith(b"there are: /metrics, /long\n")


@pytest.mark.parametrize("method", [b"POST", b"PUT", b"DELETE", b"OPTIONS", b"get"])
def test_who_may_not_write_is_told_what_is_allowed(method: bytes) -> None:
    said = answer(method + b" /metrics HTTP/1.1\r\n\r\n", PAGES)
    assert said.startswith(b"HTTP/1.1 405 ")
    assert b"\r\nAllow: GET, HEAD\r\n" in said


def test_every_answer_tells_a_browser_not_to_guess_and_not_to_keep() -> None:
    for path in (b"/metrics", b"/nope"):
        said = answer(b"GET " + path + b" HTTP/1.1\r\n\r\n", PAGES)
        assert b"\r\nX-Content-Type-Options: nosniff\r\nCache-Control: no-store\r\n" in said


def test_a_page_may_add_headers() -> None:
    said = webserver.written(Page(b"x", headers=(("Referrer-Policy", "no-referrer"),)))
    assert b"\r\nReferrer-Policy: no-referrer\r\n" in said.partition(b"\r\n\r\n")[0] + b"\r\n"


@pytest.mark.parametrize(
    ("address", "tls", "url"),
    [
        ("127.0.0.1:19100", False, "http://127.0.0.1:19100/"),
        ("0.0.0.0:80", False, "http://127.0.0.1:80/"),
        ("[::]:80", False, "http://[::1]:80/"),
        ("db-17:19100", True, "https://db-17:19100/"),
    ],
)
def test_the_url_is_one_that_a_browser_can_open(address: str, tls: bool, url: str) -> None:
    assert webserver.url(address, tls=tls) == url


def test_head_has_no_body() -> None:
    said = answer(b"HEAD /metrics HTTP/1.1\r\n\r\n", PAGES)
    assert b"Content-Length: 14" in said
    assert said.endswith(b"\r\n\r\n")


def test_garbage_and_huge_requests_harm_nobody_else(port: int) -> None:
    for garbage in (b"", b"\0\xff" * 1000, b"\r\n\r\n", b"G" * 10_000_000):
        with connected(port) as sock, contextlib.suppress(ConnectionError):
            sock.sendall(garbage)
            sock.shutdown(socket.SHUT_WR)
            read_all(sock)
    assert ask(port).endswith(b"tierd_state 1\n")


def test_two_hundred_silent_clients_hold_up_nobody_and_take_no_thread(port: int) -> None:
    threads = len(os.listdir("/proc/self/task"))  # noqa: PTH208 - a count
    with contextlib.ExitStack() as held:
        for number in range(200):
            sock = held.enter_context(connected(port))
            # Half of them begin a request and never end it.
            if number % 2:
                sock.sendall(b"GET /metrics HTTP/1.1\r\nX-Slow: ")
        assert ask(port).endswith(b"tierd_state 1\n")
        assert len(os.listdir("/proc/self/task")) <= threads  # noqa: PTH208


def test_beyond_the_bound_the_one_that_has_waited_longest_goes(port: int) -> None:
    with contextlib.ExitStack() as held:
        first = held.enter_context(connected(port))
        for _ in range(CLIENTS_MAX):
            held.enter_context(connected(port))
        assert ask(port).endswith(b"tierd_state 1\n")
        assert read_all(first) == b""


def test_one_that_takes_no_answer_is_let_go(monkeypatch: pytest.MonkeyPatch, port: int) -> None:
    monkeypatch.setattr(webserver, "CLIENT_S_MAX", 0.0)
    with connected(port) as sock:
        assert read_all(sock) == b""


def test_an_address_that_is_taken_is_said(port: int) -> None:
    with pytest.raises(CannotListen, match=rf"127\.0\.0\.1:{port}: Address already in use$"):
        webserver.listen(f"127.0.0.1:{port}")


@pytest.mark.parametrize("address", ["192.0.2.1:19100", "no.such.host.invalid:19100"])
def test_an_address_of_another_machine_is_said(address: str) -> None:
    with pytest.raises(CannotListen, match="cannot listen on"):
        webserver.listen(address)


def make_certificate(path: Path, name: str) -> Path:
    """Write a key and a certificate into one file, which is replaced in one step."""
    aside = path.with_name("aside.pem")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
         "-nodes", "-days", "1", "-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name}",
         "-keyout", str(aside), "-out", str(path.with_name("crt"))],
        check=True, capture_output=True,
    )  # fmt: skip
    aside.write_bytes(aside.read_bytes() + path.with_name("crt").read_bytes())
    return aside.replace(path)


def ask_by_tls(port: int, trusted: Path, name: str) -> bytes:
    context = ssl.create_default_context(cafile=str(trusted))
    with connected(port) as plain, context.wrap_socket(plain, server_hostname=name) as sock:
        sock.sendall(b"GET /long HTTP/1.1\r\n\r\n")
        return read_all(sock)


def test_by_tls_and_a_renewed_certificate_counts_at_once(tmp_path: Path) -> None:
    pem = make_certificate(tmp_path / "metrics.pem", "one")
    listener = webserver.listen("127.0.0.1:0")
    port: int = listener.getsockname()[1]
    server = webserver.serve(listener, PAGES, tls.certificate(pem))
    try:
        assert len(ask_by_tls(port, pem, "one")) > 4_000_000
        # A client without TLS gets nothing, and does no harm.
        assert b"tierd_state" not in ask(port)
        make_certificate(pem, "two")
        assert len(ask_by_tls(port, pem, "two")) > 4_000_000
        trusted = tmp_path / "crt"
        pem.write_text("half written")
        assert len(ask_by_tls(port, trusted, "two")) > 4_000_000
    finally:
        server.stop()


def test_a_certificate_that_is_missing_is_said(tmp_path: Path) -> None:
    with pytest.raises(tls.BadCertificate, match="No such file"):
        tls.certificate(tmp_path / "no.pem")


def test_an_answer_that_comes_while_the_server_ends_is_no_trouble(tmp_path: Path) -> None:
    """A thread makes the answer, and its client may have gone."""
    asked, held, answered, released = (threading.Event() for _ in range(4))

    def slowly() -> bytes:
        asked.set()
        answered.wait(BOUND_S)
        return b"late"

    def respond(head: bytes, _sock: socket.socket) -> webserver.Reply:
        if head.startswith(b"POST"):
            return slowly
        held.set()
        released.wait(BOUND_S)
        return b"at once"

    # Threads of servers in other tests may still run.
    before = set(threading.enumerate())
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "sock"))
    listener.listen()
    server = webserver.WebServer(listener, respond)
    thread = threading.Thread(target=server.run)
    thread.start()
    with socket.socket(socket.AF_UNIX) as slow, socket.socket(socket.AF_UNIX) as quick:
        slow.connect(str(tmp_path / "sock"))
        slow.sendall(b"POST / HTTP/1.1\r\n\r\n")
        assert asked.wait(BOUND_S)
        (maker,) = (
            one for one in threading.enumerate() if one not in before and one.name == "command"
        )
        # The server is busy with another client, and is told to end.
        quick.connect(str(tmp_path / "sock"))
        quick.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert held.wait(BOUND_S)
        server.stop()
        answered.set()
        maker.join(BOUND_S)
        released.set()
        thread.join(BOUND_S)
        assert not maker.is_alive()
        assert not thread.is_alive()
