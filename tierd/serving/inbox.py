"""The events that the loop waits for: signals, hotplug, and commands from the API."""

import queue
import selectors
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum
from types import FrameType
from typing import Protocol

from tierd.frozen import dataclass
from tierd.machine import uevent

# How many commands may wait for the loop. A client that sends more is faulty, and is told that the
# daemon is busy; so the memory that commands use is bounded.
COMMANDS_MAX = 16


class Verb(StrEnum):
    """What an event asks the loop to do."""

    stop = "stop"
    reload = "reload"
    pause = "pause"
    resume = "resume"
    hotplug = "hotplug"


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a command: an exit code and a sentence."""

    exit_code: int
    text: str


@dataclass(frozen=True, slots=True)
class Event:
    """A request to the loop, with its source for the log.

    `reply` takes the answer; `wanted` returns False if nobody waits for it any more.
    """

    verb: Verb
    source: str
    reply: Callable[[Answer], None] = lambda _answer: None
    wanted: Callable[[], bool] = lambda: True


class Inbox(Protocol):
    """The queue of events for the loop. `wait` returns at an event, or after `seconds`."""

    def wait(self, seconds: float) -> tuple[Event, ...]: ...


SIGNALS = {
    signal.SIGTERM: Verb.stop,
    signal.SIGINT: Verb.stop,
    signal.SIGHUP: Verb.reload,
}


class SystemInbox:
    """The inbox of a real daemon. Only the thread that made it may wait; any thread may post."""

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
    def stop_waits(self) -> bool:
        """True if a signal to stop has come and has not been taken yet."""
        return any(SIGNALS[number] is Verb.stop for number in self._signals)

    def catch_signals(self) -> None:
        """Turn the signals of SIGNALS into events."""
        signal.set_wakeup_fd(self._wake_w.fileno(), warn_on_full_buffer=False)

        def note(number: int, _frame: FrameType | None) -> None:
            self._signals.append(signal.Signals(number))

        for number in SIGNALS:
            signal.signal(number, note)

    def post(self, event: Event) -> bool:
        """Give the loop a command; False if too many wait already."""
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
                with suppress(BlockingIOError):
                    self._wake_r.recv(4096)
            elif self._uevents is not None:
                hotplug = uevent.drain(self._uevents)
        signals, self._signals = self._signals, []
        events = [Event(SIGNALS[number], number.name) for number in signals]
        events += [self._commands.get_nowait() for _ in range(self._commands.qsize())]
        if hotplug:
            events.append(Event(Verb.hotplug, "kernel"))
        return tuple(events)

    def close(self) -> None:
        """Stop catching signals, and close all sockets."""
        signal.set_wakeup_fd(-1)
        self._selector.close()
        for sock in (self._wake_r, self._wake_w, self._uevents):
            if sock is not None:
                sock.close()

    def _nudge(self) -> None:
        try:
            self._wake_w.send(b"\0")
        except BlockingIOError:
            # The socket is full, so the loop has bytes to read and does not sleep.
            return
