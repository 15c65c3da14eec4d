"""A small HTTP server: one thread answers all clients. Its callers give the pages by path.

Rules of this file: the server never waits for one client. A client costs a descriptor and a
bounded buffer until it is answered or its time is up. If there are too many clients, the one that
has waited longest is dropped. Nothing that a client sends is kept, logged or trusted. An answer
that takes long is made in a thread of its own, and the number of these threads is bounded.
"""

import os
import queue
import selectors
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import field
from http import HTTPStatus
from typing import Protocol

from tierd import __version__
from tierd.errors import TierdError
from tierd.frozen import dataclass

# Seconds from the connection to the last byte of the answer; a scrape takes milliseconds.
CLIENT_S_MAX = 5.0

# How many clients are served at once. More than this is an attack, or a client with a leak.
CLIENTS_MAX = 256

# Connections that may wait to be accepted; the kernel allows net.core.somaxconn (4,096).
BACKLOG_MAX = 4096

# Threads that may make an answer at once. A further client gets the answer `busy`.
WAITING_MAX = 4

# Bytes of the request line and the headers; Prometheus sends about 300.
REQUEST_BYTES_MAX = 8192

CHUNK_BYTES = 65536
HEAD_END = b"\r\n\r\n"

# In every answer. A browser does not guess that a text is a script, and it keeps no old figures.
ALWAYS = (("X-Content-Type-Options", "nosniff"), ("Cache-Control", "no-store"))


@dataclass(frozen=True, slots=True)
class Page:
    """The content of an answer."""

    body: bytes
    content_type: str = "text/plain; charset=utf-8"
    status: HTTPStatus = HTTPStatus.OK
    headers: tuple[tuple[str, str], ...] = ()
    """Names and values of further headers of the answer."""


Pages = Mapping[str, Callable[[], Page]]
"""The function that makes the page, by path."""

Reply = bytes | Callable[[], bytes]
"""A complete answer, or a function that makes the answer and may take long."""

Respond = Callable[[bytes, socket.socket], Reply]
"""Returns the reply to the head of a request from the client at this socket."""


class Tls(Protocol):
    """TLS for connections, as in `tierd.serving.tls`, which is only imported if it is used."""

    def wrapped(self, sock: socket.socket) -> socket.socket: ...
    def shake(self, sock: socket.socket) -> None: ...
    def waits_for(self, error: OSError) -> int | None: ...


class CannotListen(TierdError):
    """The address cannot be listened on."""


def listen(address: str) -> socket.socket:
    """Return a listening socket at `host:port`; IPv6 hosts stand in brackets."""
    host, _, port = address.rpartition(":")
    bare = host.strip("[]")
    family = socket.AF_INET6 if host.startswith("[") else socket.AF_INET
    try:
        return socket.create_server((bare, int(port)), family=family, backlog=BACKLOG_MAX)
    except OSError as error:
        raise CannotListen(
            f"cannot listen on {address}: {_why(error)}",
            "set metrics.address to another address or off; a systemd unit needs SocketBindAllow=",
        ) from error


# Addresses that stand for all of this machine's. A browser needs one of them.
_ALL = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}


def url(address: str, *, tls: bool) -> str:
    """Return the URL of the page / for a browser on this machine."""
    host, _, port = address.rpartition(":")
    return f"{'https' if tls else 'http'}://{_ALL.get(host, host)}:{port}/"


def _why(error: OSError) -> str:
    """Return the system's message for the error, without what create_server() adds to it."""
    if isinstance(error, socket.gaierror) or error.errno is None:
        return error.strerror or str(error)
    return os.strerror(error.errno)


def asked(request: bytes) -> tuple[bytes, str] | None:
    """Return the method and the path of a request; None if its head is not valid or complete."""
    head, end, _ = request.partition(HEAD_END)
    words = head.split(b"\r\n", 1)[0].split(b" ")
    if not end or len(head) > REQUEST_BYTES_MAX:
        return None
    if len(words) != 3 or not words[2].startswith(b"HTTP/1."):
        return None
    return words[0], words[1].partition(b"?")[0].decode("ascii", "replace")


_NOT_ALLOWED = Page(
    b"only GET and HEAD are allowed\n",
    status=HTTPStatus.METHOD_NOT_ALLOWED,
    headers=(("Allow", "GET, HEAD"),),
)


def answer(request: bytes, pages: Pages) -> bytes:
    """Return the complete answer to a request. HTTP/1.1, one request per connection."""
    found = asked(request)
    if found is None:
        return written(Page(b"this is not an HTTP request\n", status=HTTPStatus.BAD_REQUEST))
    method, path = found
    if method not in (b"GET", b"HEAD"):
        return written(_NOT_ALLOWED)
    if path in pages:
        page = pages[path]()
    else:
        known = ", ".join(pages)
        page = Page(f"no such page; there are: {known}\n".encode(), status=HTTPStatus.NOT_FOUND)
    return written(page, body=method == b"GET")


def written(page: Page, *, body: bool = True) -> bytes:
    """Return the bytes of the answer with this page."""
    lines = (
        f"HTTP/1.1 {page.status.value} {page.status.phrase}",
        f"Server: tierd/{__version__}",
        f"Content-Type: {page.content_type}",
        f"Content-Length: {len(page.body)}",
        *(f"{name}: {value}" for name, value in (*ALWAYS, *page.headers)),
        "Connection: close",
    )
    return "\r\n".join(lines).encode() + HEAD_END + (page.body if body else b"")


@dataclass(slots=True)
class Client:
    """A connection: in its TLS handshake, sending its request, or being answered."""

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
    """The answer for a client while WAITING_MAX threads are busy."""
    tls: Tls | None = None
    end: bytes = HEAD_END
    """The bytes that end a request."""
    stays: bool = False
    """True if a client may send its next request after the answer, within its time."""
    _selector: selectors.BaseSelector = field(default_factory=selectors.DefaultSelector)
    _clients: dict[int, Client] = field(default_factory=dict)
    """The clients by descriptor, the oldest first. Their time limits end in the same order."""
    _waiting: int = 0
    """How many threads make an answer now. The clients of these are not in `_clients`."""
    _made: "queue.SimpleQueue[Client]" = field(default_factory=queue.SimpleQueue)
    _stopping: bool = False
    _ended: bool = False
    """True if `run` takes no more answers; read and set under `_handing`."""
    _handing: threading.Lock = field(default_factory=threading.Lock)
    _wake: tuple[socket.socket, socket.socket] = field(default_factory=socket.socketpair)

    def run(self) -> None:
        """Serve until `stop()` is called. Sleep while there is no client."""
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
        with self._handing:
            self._ended = True
        self._take_made()
        for client in list(self._clients.values()):
            self._drop(client)
        self._selector.close()
        self.listener.close()
        self._wake[0].close()

    def stop(self) -> None:
        """Ask the server to end, from any thread."""
        # The socket is closed first, so that an answer that is being made is still sent.
        self._wake[1].close()
        self._stopping = True

    def _accept(self) -> None:
        try:
            sock, _ = self.listener.accept()
        except OSError:
            # The client has gone already, or no descriptor is left. Then a client is dropped.
            self._drop_oldest(CLIENTS_MAX // 2)
            return
        try:
            if self.tls is not None:
                sock.setblocking(False)
                sock = self.tls.wrapped(sock)
            sock.setblocking(False)
        except OSError:
            sock.close()
            return
        client = Client(sock, time.monotonic() + CLIENT_S_MAX, self.tls is not None)
        self._clients[sock.fileno()] = client
        self._selector.register(sock, selectors.EVENT_READ)
        self._drop_oldest(CLIENTS_MAX)

    def _go_on(self, client: Client) -> None:
        """Do the next steps for a client, as far as possible without waiting."""
        try:
            if self.tls is not None and client.shaking:
                self.tls.shake(client.sock)
                client.shaking = False
            if client.answer is None and self._heard_all(client):
                reply = self._reply(client)
                if callable(reply):
                    self._leave_to_thread(client, reply)
                    return
                client.answer = memoryview(reply)
            if client.answer is not None:
                self._send(client, client.answer)
        except BlockingIOError:
            return
        except OSError as error:
            wanted = self.tls.waits_for(error) if self.tls is not None else None
            if wanted is None:
                self._drop(client)
            elif wanted == selectors.EVENT_WRITE:
                self._selector.modify(client.sock, wanted)

    def _send(self, client: Client, answer: memoryview) -> None:
        """Send as much as can be sent now, and wait for what comes next."""
        client.answer = answer[client.sock.send(answer) :]
        if client.answer:
            self._selector.modify(client.sock, selectors.EVENT_WRITE)
        elif self.stays:
            client.answer = None
            # One request at a time, so that others have their turn. If the next one has come
            # already, the selector must not wait for more bytes.
            is_next = self.end in client.heard
            mask = selectors.EVENT_WRITE if is_next else selectors.EVENT_READ
            self._selector.modify(client.sock, mask)
        else:
            self._drop(client)

    def _heard_all(self, client: Client) -> bool:
        """Read from the client. Return True if its request is complete, too long or at its end."""
        while self.end not in client.heard and len(client.heard) <= REQUEST_BYTES_MAX:
            chunk = client.sock.recv(CHUNK_BYTES)
            if not chunk and self.stays:
                raise ConnectionResetError
            if not chunk:
                return True
            client.heard += chunk
        return True

    def _reply(self, client: Client) -> Reply:
        request = bytes(client.heard)
        if self.stays:
            head, end, rest = request.partition(self.end)
            request, client.heard = head + end, bytearray(rest)
        reply = self.respond(request, client.sock)
        return self.busy if callable(reply) and self._waiting >= WAITING_MAX else reply

    def _leave_to_thread(self, client: Client, make: Callable[[], bytes]) -> None:
        """Make the answer in a thread, which puts the client into the queue `_made` afterwards."""
        del self._clients[client.sock.fileno()]
        self._selector.unregister(client.sock)
        self._waiting += 1

        def work() -> None:
            client.answer = memoryview(make())
            with self._handing:
                if self._ended:
                    client.sock.close()
                    return
                self._made.put(client)
            # If the socket is closed, the server is about to end, and takes the answer before that.
            with suppress(OSError):
                self._wake[1].send(b"\0")

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


def serve(listener: socket.socket, pages: Pages, tls: Tls | None = None) -> WebServer:
    """Answer with these pages in a thread until `stop()`."""
    return start(WebServer(listener, lambda head, _sock: answer(head, pages), tls=tls), "metrics")


def start(server: WebServer, name: str) -> WebServer:
    """Run the server in a thread of this name."""
    threading.Thread(target=server.run, name=name, daemon=True).start()
    return server
