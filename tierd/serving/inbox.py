"""What reaches the loop from outside: signals, hotplug, and commands over the API."""

import queue
import selectors
import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from types import FrameType
from typing import Protocol

from tierd.machine import uevent

# Commands wait in line for the loop; more than a few at once is a client gone wild, which then
# gets "busy" instead of memory.
COMMANDS_MAX = 16


class Verb(StrEnum):
    """What the loop can be asked to do."""

    stop = "stop"
    reload = "reload"
    pause = "pause"
    resume = "resume"
    hotplug = "hotplug"


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a command: an exit code and a sentence."""

    exit_code: int
    text: str


@dataclass(frozen=True, slots=True)
class Event:
    """A verb, who asked (for the log), and where the answer goes."""

    verb: Verb
    source: str
    reply: Callable[[Answer], None] = lambda _answer: None


class Inbox(Protocol):
    """Where the loop waits: for `seconds` at most, less when something comes."""

    def wait(self, seconds: float) -> tuple[Event, ...]: ...


SIGNALS = {
    signal.SIGTERM: Verb.stop,
    signal.SIGINT: Verb.stop,
    signal.SIGHUP: Verb.reload,
}


class SystemInbox:
    """The real one. Only the thread that made it may wait on it; any thread may post."""

    def __init__(self) -> None:
        self._wake_r, self._wake_w = socket.socketpair()
        self._wake_r.setblocking(False)
        self._wake_w.setblocking(False)
        self._commands: queue.Queue[Event] = queue.Queue(COMMANDS_MAX)
        self._signals: list[signal.Signals] = []
        self._uevents = uevent.listen()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._wake_r, selectors.EVENT_READ)
        if self._uevents is not None:
            self._selector.register(self._uevents, selectors.EVENT_READ)

    @property
    def hears_hotplug(self) -> bool:
        """Whether kernel uevents arrive; if not, the periodic rescan has to find changes."""
        return self._uevents is not None

    def catch_signals(self) -> None:
        """Turn the signals of SIGNALS into events."""
        signal.set_wakeup_fd(self._wake_w.fileno(), warn_on_full_buffer=False)
        for number in SIGNALS:
            signal.signal(number, self._on_signal)

    def post(self, event: Event) -> bool:
        """Hand the loop a command; False if too many wait already."""
        try:
            self._commands.put_nowait(event)
        except queue.Full:
            return False
        self._nudge()
        return True

    def wait(self, seconds: float) -> tuple[Event, ...]:
        hotplug = False
        for key, _ in self._selector.select(max(0.0, seconds)):
            if key.fileobj is self._wake_r:
                self._swallow_nudges()
            elif self._uevents is not None:
                hotplug = uevent.drain(self._uevents)
        events = [Event(SIGNALS[number], number.name) for number in self._take_signals()]
        events += self._take_commands()
        if hotplug:
            events.append(Event(Verb.hotplug, "kernel"))
        return tuple(events)

    def close(self) -> None:
        """Let go of signals and descriptors."""
        signal.set_wakeup_fd(-1)
        self._selector.close()
        for sock in (self._wake_r, self._wake_w, self._uevents):
            if sock is not None:
                sock.close()

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        self._signals.append(signal.Signals(number))

    def _nudge(self) -> None:
        try:
            self._wake_w.send(b"\0")
        except BlockingIOError:
            # The pipe is full of nudges already: the loop will wake.
            return

    def _swallow_nudges(self) -> None:
        try:
            self._wake_r.recv(4096)
        except BlockingIOError:
            return

    def _take_signals(self) -> list[signal.Signals]:
        taken, self._signals = self._signals, []
        return taken

    def _take_commands(self) -> list[Event]:
        return [self._commands.get_nowait() for _ in range(self._commands.qsize())]
