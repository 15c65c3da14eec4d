"""Messages to systemd (sd_notify(3)), and how the last run of the unit ended.

Outside of a unit nothing is sent.
"""

import os
import socket
from collections.abc import Callable, Mapping

from tierd.frozen import dataclass
from tierd.plans.plan import Direction
from tierd.record.snapshot import Snapshot, State
from tierd.serving.inbox import Event, Inbox
from tierd.units import format_size

# Seconds between two status lines, which are for people. A new state is sent at once.
STATUS_S = 10.0

# Half of what the watchdog allows, as sd_watchdog_enabled(3) advises.
FEEDS_PER_WATCHDOG = 2

# Results of a run after which systemd starts another, which adopts the kdamonds.
# (systemd.exec(5), $SERVICE_RESULT)
KILLED = ("signal", "core-dump", "watchdog", "oom-kill")


def status_line(snapshot: Snapshot) -> str:
    """Return one line for `systemctl status`."""
    if snapshot.state in (State.degraded, State.starting):
        return f"{snapshot.state}: {snapshot.reason}".replace("\n", " ")
    up, down = (
        sum(one.applied_bytes_per_s for one in snapshot.schemes if one.action == direction)
        for direction in (Direction.promote, Direction.demote)
    )
    moved = f"{format_size(int(up))}/s up, {format_size(int(down))}/s down"
    return f"{snapshot.state}: {moved}; tuner {snapshot.tuner}"


def ended_well(environ: Mapping[str, str]) -> bool:
    """True if the run ended properly, and has done what `on_stop` says."""
    return environ.get("SERVICE_RESULT", "") == "success"


def restart_follows(environ: Mapping[str, str]) -> bool:
    """True if the run was killed, and systemd starts another."""
    return environ.get("SERVICE_RESULT", "") in KILLED


def watchdog_s(environ: Mapping[str, str], pid: int) -> float | None:
    """Return within how many seconds systemd wants a sign of life; None if it wants none."""
    usec = environ.get("WATCHDOG_USEC", "")
    ours = environ.get("WATCHDOG_PID", str(pid)) == str(pid)
    return int(usec) / 1e6 if ours and usec.isdigit() and int(usec) > 0 else None


def sender(environ: Mapping[str, str]) -> Callable[[str], None]:
    """Return a function that sends a message to systemd, or does nothing outside of a unit."""
    address = environ.get("NOTIFY_SOCKET", "")
    if not address:
        return lambda _text: None
    # An @ stands for the null byte of an abstract socket.
    target = f"\0{address[1:]}" if address.startswith("@") else address

    def send(text: str) -> None:
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
                sock.setblocking(False)
                sock.sendto(text.encode("utf-8", "replace"), target)
        except OSError:
            # systemd does not listen, or its queue is full. The next message comes soon.
            return

    return send


@dataclass(slots=True)
class Notifier:
    """Sends the state of the daemon to systemd, and remembers what was sent."""

    send: Callable[[str], None]
    now_s: Callable[[], float]
    watchdog_s: float | None = None
    _ready: bool = False
    _state: State | None = None
    _status_s: float = float("-inf")
    _fed_s: float = float("-inf")

    def publish(self, snapshot: Snapshot) -> None:
        """Send READY after the first tick, and a status line when it is due."""
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
        """Send that the end has begun."""
        self.send("STOPPING=1\nSTATUS=stopping")

    def alive(self) -> None:
        """Send a sign of life, if one is due."""
        if self.watchdog_s is None:
            return
        now_s = self.now_s()
        if now_s - self._fed_s >= self.watchdog_s / FEEDS_PER_WATCHDOG / 2:
            self._fed_s = now_s
            self.send("WATCHDOG=1")


def notifier(environ: Mapping[str, str], now_s: Callable[[], float]) -> Notifier:
    """Return the notifier of this process, by the environment that systemd has set."""
    return Notifier(sender(environ), now_s, watchdog_s(environ, os.getpid()))


@dataclass(frozen=True, slots=True)
class WatchdogInbox:
    """An inbox that divides a long wait into short ones, and sends a sign of life before each."""

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
