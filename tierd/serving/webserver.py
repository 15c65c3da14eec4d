"""Answers requests over a socket from what is known: one thread, however many come at once.

Rules of this file: no client is waited for, each costs a descriptor and a bounded buffer until
it is answered or its time is up; when there are too many the one that has waited longest goes;
nothing that a client sends is kept, logged or believed. What takes long is done by a thread of its
own, of which there are few.
"""

import os
import queue
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

# Commands wait for the loop; who sends more at once is told to come again.
WAITING_MAX = 4

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

Reply = bytes | Callable[[], bytes]
"""An answer whole, or what makes one and may take its time."""

Respond = Callable[[bytes, socket.socket], Reply]
"""What to say to a request's head, and who sent it."""


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
            f"cannot listen on {address}: {_why(error)}",
            "choose another metrics.address, or off",
        ) from error


def _why(error: OSError) -> str:
    """The system's own words, to which create_server() adds; a name's are of another kind."""
    if isinstance(error, socket.gaierror) or error.errno is None:
        return error.strerror or str(error)
    return os.strerror(error.errno)


def asked(request: bytes) -> tuple[bytes, str] | None:
    """The method and the path of a request's head; None if it is none, or not all of it."""
    head, end, _ = request.partition(HEAD_END)
    words = head.split(b"\r\n", 1)[0].split(b" ")
    if not end or len(head) > REQUEST_BYTES_MAX:
        return None
    if len(words) != 3 or not words[2].startswith(b"HTTP/1."):
        return None
    return words[0], words[1].partition(b"?")[0].decode("ascii", "replace")


def answer(request: bytes, pages: Pages) -> bytes:
    """The whole answer to a request's head. HTTP/1.1, one request per connection."""
    found = asked(request)
    if found is None:
        return written(Page(b"this is no request\n", status=HTTPStatus.BAD_REQUEST))
    method, path = found
    if method not in (b"GET", b"HEAD"):
        return written(Page(b"only GET\n", status=HTTPStatus.METHOD_NOT_ALLOWED))
    page = pages(path)
    if page is None:
        page = Page(b"there is / and /metrics\n", status=HTTPStatus.NOT_FOUND)
    return written(page, body=method == b"GET")


def written(page: Page, *, body: bool = True) -> bytes:
    """The page as it goes over the wire."""
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
    """Serves a listening socket until `stop()`; `run` is the body of its thread."""

    listener: socket.socket
    respond: Respond
    busy: bytes = b""
    """What those are told who would have to wait behind too many others."""
    tls: Callable[[], ssl.SSLContext] | None = None
    """Asked at each connection, so that renewed certificates count."""
    _selector: selectors.BaseSelector = field(default_factory=selectors.DefaultSelector)
    _clients: dict[int, Client] = field(default_factory=dict)
    """By descriptor, the oldest first, which is also the order of their ends."""
    _waiting: int = 0
    """How many threads make an answer; their clients are not among the others meanwhile."""
    _made: "queue.SimpleQueue[Client]" = field(default_factory=queue.SimpleQueue)
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
                elif key.fileobj is self._wake[0]:
                    self._wake[0].recv(CHUNK_BYTES)
                    self._take_made()
                elif key.fd in self._clients:
                    self._go_on(self._clients[key.fd])
            self._drop_late(time.monotonic())
        self._take_made()
        for client in list(self._clients.values()):
            self._drop(client)
        self._selector.close()
        self.listener.close()
        self._wake[0].close()

    def stop(self) -> None:
        """Ask it to end, from any thread."""
        # In this order: an answer that could still be told of is still taken.
        self._wake[1].close()
        self._stopping = True

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
                reply = self._reply(client)
                if callable(reply):
                    self._leave_to_thread(client, reply)
                    return
                client.answer = memoryview(reply)
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

    def _reply(self, client: Client) -> Reply:
        reply = self.respond(bytes(client.heard), client.sock)
        return self.busy if callable(reply) and self._waiting >= WAITING_MAX else reply

    def _leave_to_thread(self, client: Client, make: Callable[[], bytes]) -> None:
        """It comes back with its answer, however long that takes."""
        del self._clients[client.sock.fileno()]
        self._selector.unregister(client.sock)
        self._waiting += 1

        def work() -> None:
            client.answer = memoryview(make())
            self._made.put(client)
            try:
                self._wake[1].send(b"\0")
            except OSError:
                # Nobody is left to be woken.
                client.sock.close()

        threading.Thread(target=work, name="command", daemon=True).start()

    def _take_made(self) -> None:
        while not self._made.empty():
            client = self._made.get()
            self._waiting -= 1
            client.until_s = time.monotonic() + CLIENT_S_MAX
            self._clients[client.sock.fileno()] = client
            self._selector.register(client.sock, selectors.EVENT_WRITE)

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
    """Answer with pages in the background until `stop()`."""
    return start(WebServer(listener, lambda head, _sock: answer(head, pages), tls=tls), "metrics")


def start(server: WebServer, name: str) -> WebServer:
    """Have it serve, in a thread of that name."""
    threading.Thread(target=server.run, name=name, daemon=True).start()
    return server
