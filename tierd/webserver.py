"""Answers GET requests over TCP from what is known: one thread, however many come at once.

Rules of this file: no client is waited for, each costs a descriptor and a bounded buffer until
it is answered or its time is up; when there are too many the one that has waited longest goes;
nothing that a client sends is kept, logged or believed. It never touches the loop.
"""

import selectors
import socket
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus

from tierd import __version__
from tierd.errors import TierdError

# Whole, from connecting to the last byte of the answer: a scrape takes milliseconds.
CLIENT_S_MAX = 5.0

# Two hundred at once are served; beyond it is an attack or a leak of somebody's.
CLIENTS_MAX = 256

# A line and the headers of a scraper; Prometheus sends some 300 bytes.
REQUEST_BYTES_MAX = 8192

CHUNK_BYTES = 65536
HEAD_END = b"\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Page:
    """An answer."""

    body: bytes
    content_type: str = "text/plain; charset=utf-8"
    status: HTTPStatus = HTTPStatus.OK


Pages = Callable[[str], Page | None]
"""The page at a path; None if there is none."""


class CannotListen(TierdError):
    """The address cannot be had."""


def listen(address: str) -> socket.socket:
    """A listening socket at `host:port`; IPv6 hosts stand in brackets."""
    host, _, port = address.rpartition(":")
    bare = host.strip("[]")
    family = socket.AF_INET6 if host.startswith("[") else socket.AF_INET
    try:
        return socket.create_server((bare, int(port)), family=family, backlog=CLIENTS_MAX)
    except OSError as error:
        raise CannotListen(
            f"cannot listen on {address}: {error.strerror or error}",
            "choose another metrics.address, or off",
        ) from error


def answer(request: bytes, pages: Pages) -> bytes:
    """The whole answer to a request's head. HTTP/1.1, one request per connection."""
    words = request.split(b"\r\n", 1)[0].split(b" ")
    if len(request) > REQUEST_BYTES_MAX or len(words) != 3 or not words[2].startswith(b"HTTP/1."):
        return _written(Page(b"this is no request\n", status=HTTPStatus.BAD_REQUEST))
    if words[0] not in (b"GET", b"HEAD"):
        return _written(Page(b"only GET\n", status=HTTPStatus.METHOD_NOT_ALLOWED))
    path = words[1].partition(b"?")[0].decode("ascii", "replace")
    page = pages(path)
    if page is None:
        page = Page(b"there is / and /metrics\n", status=HTTPStatus.NOT_FOUND)
    return _written(page, body=words[0] == b"GET")


def _written(page: Page, *, body: bool = True) -> bytes:
    lines = (
        f"HTTP/1.1 {page.status.value} {page.status.phrase}",
        f"Server: tierd/{__version__}",
        f"Content-Type: {page.content_type}",
        f"Content-Length: {len(page.body)}",
        "Connection: close",
    )
    return "\r\n".join(lines).encode() + HEAD_END + (page.body if body else b"")


@dataclass(slots=True)
class Client:
    """A connection on its way: shaking hands, asking, or being answered."""

    sock: socket.socket
    until_s: float
    shaking: bool
    heard: bytearray = field(default_factory=bytearray)
    answer: memoryview | None = None


@dataclass(slots=True)
class WebServer:
    """Serves `pages` on a listening socket until `stop()`; `run` is the body of its thread."""

    listener: socket.socket
    pages: Pages
    tls: Callable[[], ssl.SSLContext] | None = None
    """Asked at each connection, so that renewed certificates count."""
    _selector: selectors.BaseSelector = field(default_factory=selectors.DefaultSelector)
    _clients: dict[int, Client] = field(default_factory=dict)
    """By descriptor, the oldest first, which is also the order of their ends."""
    _stopping: bool = False
    _wake: tuple[socket.socket, socket.socket] = field(default_factory=socket.socketpair)

    def run(self) -> None:
        """Serve; idle, it sleeps."""
        self.listener.setblocking(False)
        self._selector.register(self.listener, selectors.EVENT_READ)
        self._selector.register(self._wake[0], selectors.EVENT_READ)
        while not self._stopping:
            oldest = next(iter(self._clients.values()), None)
            wait_s = None if oldest is None else max(0.0, oldest.until_s - time.monotonic())
            for key, _ in self._selector.select(wait_s):
                if key.fileobj is self.listener:
                    self._accept()
                elif key.fd in self._clients:
                    self._go_on(self._clients[key.fd])
            self._drop_late(time.monotonic())
        for client in list(self._clients.values()):
            self._drop(client)
        self._selector.close()
        self.listener.close()
        self._wake[0].close()

    def stop(self) -> None:
        """Ask it to end, from any thread."""
        self._stopping = True
        self._wake[1].close()

    def _accept(self) -> None:
        try:
            sock, _ = self.listener.accept()
        except OSError:
            # Gone before it was greeted; or no descriptor is left, and then one has to go.
            self._drop_oldest(CLIENTS_MAX // 2)
            return
        try:
            if self.tls is not None:
                sock.setblocking(False)
                sock = self.tls().wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
            sock.setblocking(False)
        except OSError:
            sock.close()
            return
        client = Client(sock, time.monotonic() + CLIENT_S_MAX, self.tls is not None)
        self._clients[sock.fileno()] = client
        self._selector.register(sock, selectors.EVENT_READ)
        self._drop_oldest(CLIENTS_MAX)

    def _go_on(self, client: Client) -> None:
        """As far as it goes without waiting."""
        try:
            if client.shaking:
                assert isinstance(client.sock, ssl.SSLSocket)
                client.sock.do_handshake()
                client.shaking = False
            if client.answer is None and self._heard_all(client):
                client.answer = memoryview(answer(bytes(client.heard), self.pages))
            if client.answer is not None:
                client.answer = client.answer[client.sock.send(client.answer) :]
                if not client.answer:
                    self._drop(client)
                    return
                self._selector.modify(client.sock, selectors.EVENT_WRITE)
        except (BlockingIOError, ssl.SSLWantReadError):
            return
        except ssl.SSLWantWriteError:
            self._selector.modify(client.sock, selectors.EVENT_WRITE)
        except OSError:
            self._drop(client)

    def _heard_all(self, client: Client) -> bool:
        """Whether the request is there, or will never be."""
        while HEAD_END not in client.heard and len(client.heard) <= REQUEST_BYTES_MAX:
            chunk = client.sock.recv(CHUNK_BYTES)
            if not chunk:
                return True
            client.heard += chunk
        return True

    def _drop_oldest(self, clients_max: int) -> None:
        if len(self._clients) > clients_max:
            self._drop(next(iter(self._clients.values())))

    def _drop_late(self, now_s: float) -> None:
        for client in list(self._clients.values()):
            if client.until_s > now_s:
                return
            self._drop(client)

    def _drop(self, client: Client) -> None:
        del self._clients[client.sock.fileno()]
        self._selector.unregister(client.sock)
        client.sock.close()


def serve(
    listener: socket.socket, pages: Pages, tls: Callable[[], ssl.SSLContext] | None = None
) -> WebServer:
    """Answer in the background until `stop()`."""
    server = WebServer(listener, pages, tls)
    threading.Thread(target=server.run, name="metrics", daemon=True).start()
    return server
