"""What systemd wants to know of a service: sd_notify(3) by hand, and how the last run ended.

Outside of a unit there is nobody to tell, and nothing is said.
"""

import os
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tierd.plans.plan import Direction
from tierd.record.snapshot import Snapshot, State
from tierd.serving.inbox import Event, Inbox
from tierd.units import format_size

# A figure that changes at every round is news once in a while; a new state is, at once.
STATUS_S = 10.0

# Half of what the watchdog allows, as sd_watchdog_enabled(3) advises.
FEEDS_PER_WATCHDOG = 2

# How a run ends that systemd will follow with another: what stands is adopted by that one.
# (systemd.exec(5), $SERVICE_RESULT)
KILLED = ("signal", "core-dump", "watchdog", "oom-kill")


def status_line(snapshot: Snapshot) -> str:
    """One line for `systemctl status`."""
    if snapshot.state in (State.degraded, State.starting):
        return f"{snapshot.state}: {snapshot.reason}".replace("\n", " ")
    up, down = (
        sum(one.applied_bytes_per_s for one in snapshot.schemes if one.action == direction)
        for direction in (Direction.promote, Direction.demote)
    )
    moved = f"{format_size(int(up))}/s up, {format_size(int(down))}/s down"
    return f"{snapshot.state}: {moved}; tuner {snapshot.tuner}"


def ended_well(environ: Mapping[str, str]) -> bool:
    """Whether ExecStopPost= runs after a proper end, which has done what `on_stop` says."""
    return environ.get("SERVICE_RESULT", "") == "success"


def restart_follows(environ: Mapping[str, str]) -> bool:
    """Whether ExecStopPost= runs after a death that Restart= mends."""
    return environ.get("SERVICE_RESULT", "") in KILLED


def watchdog_s(environ: Mapping[str, str], pid: int) -> float | None:
    """How often systemd wants a sign of life; None if it does not."""
    usec = environ.get("WATCHDOG_USEC", "")
    ours = environ.get("WATCHDOG_PID", str(pid)) == str(pid)
    return int(usec) / 1e6 if ours and usec.isdigit() and int(usec) > 0 else None


def sender(environ: Mapping[str, str]) -> Callable[[str], None]:
    """How to tell systemd: a datagram, or nothing where nobody listens."""
    address = environ.get("NOTIFY_SOCKET", "")
    if not address:
        return lambda _text: None
    # An @ stands for the null byte of an abstract socket.
    target = f"\0{address[1:]}" if address.startswith("@") else address

    def send(text: str) -> None:
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
                sock.setblocking(False)
                sock.sendto(text.encode(), target)
        except OSError:
            # Nobody is there, or its queue is full. The next sign of life comes soon.
            return

    return send


@dataclass(slots=True)
class Notifier:
    """Remembers what systemd has been told."""

    send: Callable[[str], None]
    now_s: Callable[[], float]
    watchdog_s: float | None = None
    _ready: bool = False
    _state: State | None = None
    _status_s: float = float("-inf")
    _fed_s: float = float("-inf")

    def publish(self, snapshot: Snapshot) -> None:
        """After each round; the first one means that what runs has been verified."""
        told = []
        if not self._ready:
            told.append("READY=1")
            self._ready = True
        now_s = self.now_s()
        if snapshot.state is not self._state or now_s - self._status_s >= STATUS_S:
            told.append(f"STATUS={status_line(snapshot)}")
            self._state, self._status_s = snapshot.state, now_s
        if told:
            self.send("\n".join(told))

    def stopping(self) -> None:
        """The end has begun."""
        self.send("STOPPING=1\nSTATUS=stopping")

    def alive(self) -> None:
        """The loop got this far: a sign of life, as often as systemd wants one."""
        if self.watchdog_s is None:
            return
        now_s = self.now_s()
        if now_s - self._fed_s >= self.watchdog_s / FEEDS_PER_WATCHDOG / 2:
            self._fed_s = now_s
            self.send("WATCHDOG=1")


def notifier(environ: Mapping[str, str], now_s: Callable[[], float]) -> Notifier:
    """The one of this process, by what systemd has put into the environment."""
    return Notifier(sender(environ), now_s, watchdog_s(environ, os.getpid()))


@dataclass(frozen=True, slots=True)
class FedInbox:
    """Waits in pieces, with a sign of life before each: it is the loop's own thread that waits."""

    inner: Inbox
    notifier: Notifier

    def wait(self, seconds: float) -> tuple[Event, ...]:
        every_s = self.notifier.watchdog_s
        if every_s is None:
            return self.inner.wait(seconds)
        left_s = seconds
        while True:
            self.notifier.alive()
            piece_s = min(left_s, every_s / FEEDS_PER_WATCHDOG)
            events = self.inner.wait(piece_s)
            left_s -= piece_s
            if events or left_s <= 0:
                return events
