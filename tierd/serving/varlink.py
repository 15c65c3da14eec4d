"""Metrics for systemd: Varlink on a socket in /run/systemd/report (systemd 260 and later).

A request is a JSON object and a NUL byte; so is each reply. `systemd-report` calls
io.systemd.Metrics.List at every socket of that directory.

Rules of this file: nothing can be changed through the socket, so every user may read it. A request
that is no Varlink call ends the connection. How many clients there are, how long they stay and how
much they send is bounded by `webserver`.
"""

import json
import socket
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tierd import __version__
from tierd.serving import api, webserver
from tierd.serving.metrics import METRICS, Metric, Seen
from tierd.serving.webserver import WebServer

# The name of the socket. The names of metrics must begin with it, else systemd-report drops them.
NAME = "io.tierd"

END = b"\0"

METRICS_INTERFACE = "io.systemd.Metrics"
SERVICE_INTERFACE = "org.varlink.service"

DESCRIPTIONS = {
    METRICS_INTERFACE: """\
interface io.systemd.Metrics
type MetricFamilyType (counter, gauge, string)
method List() -> (name: string, value: object, object: ?string, fields: ?[string]string)
method Describe() -> (name: string, description: string, type: MetricFamilyType)
error NoSuchMetric ()
""",
    SERVICE_INTERFACE: """\
interface org.varlink.service
method GetInfo() -> (vendor: string, product: string, version: string, url: string,
  interfaces: []string)
method GetInterfaceDescription(interface: string) -> (description: string)
error InterfaceNotFound (interface: string)
error MethodNotFound (method: string)
error InvalidParameter (parameter: string)
error ExpectedMore ()
""",
}

# Metrics whose whole meaning is in their labels. Varlink has values of the type `string` for these.
IN_STRINGS = ("build_info", "state")

STRINGS: Mapping[str, tuple[str, Callable[[Seen], str]]] = {
    "version": ("The version of tierd.", lambda seen: seen.snapshot.version),
    "tuner": ("The tuner that sets the quotas.", lambda seen: seen.snapshot.tuner),
    "mode": ("The mode: manage or observe.", lambda seen: seen.snapshot.mode),
    "state": ("What tierd does now.", lambda seen: seen.snapshot.state),
    "reason": ("Why tierd is in this state.", lambda seen: seen.snapshot.reason),
}

FAMILIES: tuple[Metric, ...] = tuple(one for one in METRICS if one.name not in IN_STRINGS)

Reply = dict[str, Any]


class NotVarlink(OSError):
    """What a client sent is no Varlink call. The server drops the client, as after a lost link."""


def listed(seen: Seen | None) -> Iterator[Reply]:
    """Return all values, in the form of io.systemd.Metrics.List; none before the first tick."""
    if seen is None:
        return
    for name, (_, text) in STRINGS.items():
        # A reason may name a cgroup, whose name need not be UTF-8.
        value = text(seen).encode("utf-8", "backslashreplace").decode()
        yield {"name": f"{NAME}.{name}", "value": value}
    for one in FAMILIES:
        for labels, number in one.values(seen):
            found: Reply = {"name": f"{NAME}.{one.name}", "value": _plain(number)}
            if labels:
                found["fields"] = dict(zip(one.labels, labels, strict=True))
            yield found


def _plain(number: float) -> float:
    """Return whole numbers without a fraction: JSON has one type for both, systemd has two."""
    return int(number) if number == int(number) else number


def described() -> Iterator[Reply]:
    """Return all families, in the form of io.systemd.Metrics.Describe."""
    for name, (about, _) in STRINGS.items():
        yield {"name": f"{NAME}.{name}", "description": about, "type": "string"}
    for one in FAMILIES:
        yield {"name": f"{NAME}.{one.name}", "description": one.doc, "type": str(one.kind)}


def answer(request: bytes, list_all: Callable[[], bytes]) -> bytes:
    """Return the replies to a request with its NUL byte. `list_all` makes those of List."""
    try:
        call = json.loads(request.removesuffix(END))
        method, parameters = call["method"], dict(call.get("parameters") or {})
        more, oneway = call.get("more", False), call.get("oneway", False)
        interface, _, name = method.rpartition(".")
    # RecursionError: lists in lists in lists.
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise NotVarlink("not a Varlink call") from error
    if oneway:
        return b""
    if interface == METRICS_INTERFACE and name in ("List", "Describe"):
        if parameters:
            return _error("InvalidParameter", parameter=next(iter(parameters)))
        if not more:
            return _error("ExpectedMore")
        return list_all() if name == "List" else streamed(described())
    if interface == SERVICE_INTERFACE and name == "GetInfo":
        return _reply(INFO)
    if interface == SERVICE_INTERFACE and name == "GetInterfaceDescription":
        return _description(parameters.get("interface"))
    if interface in DESCRIPTIONS:
        return _error("MethodNotFound", method=name)
    return _error("InterfaceNotFound", interface=interface)


def _description(interface: object) -> bytes:
    if not isinstance(interface, str):
        return _error("InvalidParameter", parameter="interface")
    if interface not in DESCRIPTIONS:
        return _error("InterfaceNotFound", interface=interface)
    return _reply({"description": DESCRIPTIONS[interface]})


INFO = {
    "vendor": "tierd",
    "product": "tierd",
    "version": __version__,
    "url": "https://varlink.org/",
    "interfaces": list(DESCRIPTIONS),
}


def streamed(replies: Iterator[Reply]) -> bytes:
    """Return the replies as one stream; an error if there are none."""
    texts = [{"parameters": one, "continues": True} for one in replies]
    if not texts:
        return _message({"error": f"{METRICS_INTERFACE}.NoSuchMetric", "parameters": {}})
    del texts[-1]["continues"]
    return b"".join(map(_message, texts))


def _reply(parameters: Reply) -> bytes:
    return _message({"parameters": parameters})


def _error(name: str, **parameters: str) -> bytes:
    return _message({"error": f"{SERVICE_INTERFACE}.{name}", "parameters": parameters})


def _message(document: Reply) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode() + END


@dataclass(slots=True)
class Listed:
    """The replies of List: made at most once per tick, and only if somebody asks."""

    seen: Callable[[], Seen | None]
    _of: Seen | None = None
    _text: bytes = field(default_factory=lambda: streamed(iter(())))

    def __call__(self) -> bytes:
        seen = self.seen()
        if seen is not self._of:
            self._of, self._text = seen, streamed(listed(seen))
        return self._text


def serve(folder: Path, seen: Callable[[], Seen | None]) -> api.Server:
    """Answer at a socket in this directory, in a thread, until `stop()`."""
    path = folder / NAME
    listener = api.listen(path, mode=0o666)
    every = Listed(seen)

    def respond(request: bytes, _sock: socket.socket) -> bytes:
        return answer(request, every)

    server = WebServer(listener, respond, end=END, stays=True)
    return api.Server(path, webserver.start(server, "varlink"))
