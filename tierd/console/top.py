"""`tierd top`: a live view in the terminal.

Rules of this file: `top` only asks the daemon for its snapshot. If the daemon is gone, `top` waits
until it is back. However `top` ends, the terminal is restored to how it was.
"""

import os
import select
import signal
import socket
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from tierd.errors import ExitCode, TierdError
from tierd.frozen import dataclass, replace
from tierd.views import plots, processview, screen, terminal, whoview
from tierd.views.screen import View
from tierd.views.statusview import Status

QUIT = "q"
BY_PROCESS = "p"
EVERY_S = (0.5, 1.0, 2.0, 5.0, 10.0)


@dataclass(frozen=True, slots=True)
class _Terminal:
    """The descriptor that keys are read from, and the socket that signals write to."""

    keys: int
    signals: socket.socket


class TerminalGone(TierdError):
    """The terminal was closed while it was in use."""


@dataclass(frozen=True, slots=True)
class Asked:
    """Where `top` has its figures from."""

    status: Callable[[], Status]
    """Returns the daemon's snapshot."""
    cgroups: Callable[[], tuple[whoview.Entry, ...]]
    """Returns the cgroups with memory, those with the most on slow nodes first."""
    processes: Callable[[], processview.Document]
    """Returns the largest processes."""


# Seconds between two readings of all cgroups, or of the processes, at least, and what share of the
# time they may take.
CENSUS_S = 5.0
CENSUS_SHARE = 0.05

# Seconds in which processes are read, between two frames: keys wait meanwhile.
WALK_S = 1.0


def run(asked: Asked, *, by_process: bool, colour: bool) -> ExitCode:
    """Draw one screen after the other until the user quits."""
    try:
        return _show(asked, View(by_process=by_process), colour=colour)
    except (OSError, termios.error) as error:
        # The window of the terminal was closed, or its connection was lost.
        raise TerminalGone(f"the terminal is gone: {error.args[-1]}") from error


def _show(asked: Asked, view: View, *, colour: bool) -> ExitCode:
    ink = plots.ink_for(sys.stdout.encoding)
    census_s = time.monotonic()
    with _opened() as opened:
        while True:
            if not view.held:
                view = look(view, asked.status)
                began_s = time.monotonic()
                if began_s >= census_s:
                    view = counted(view, asked)
                    now_s = time.monotonic()
                    census_s = now_s + max(CENSUS_S, (now_s - began_s) / CENSUS_SHARE)
            frame = "\n".join(screen.frame(view, time.time(), *terminal.shape(), ink))
            sys.stdout.write(terminal.over(terminal.painted(frame) if colour else frame))
            sys.stdout.flush()
            pressed = _key(opened, view.every_s)
            if pressed == QUIT:
                return ExitCode.ok
            view = key(view, pressed)
            if pressed == BY_PROCESS:
                census_s = time.monotonic()


def look(view: View, ask: Callable[[], Status]) -> View:
    """Return the view with the daemon's newest snapshot, or with the reason why there is none."""
    try:
        return screen.seen(view, ask())
    except TierdError as error:
        return screen.lost(view, str(error))


def counted(view: View, asked: Asked) -> View:
    """Return the view with who has memory now, or with the reason why that is not known."""
    known = replace(view, who=(), processes=None, who_trouble="")
    try:
        if view.by_process:
            return replace(known, processes=asked.processes())
        return replace(known, who=asked.cgroups())
    except TierdError as error:
        return replace(known, who_trouble=str(error))


def key(view: View, pressed: str) -> View:
    """Return the view after a key was pressed."""
    if pressed == " ":
        return replace(view, held=not view.held)
    if pressed == BY_PROCESS:
        return replace(view, by_process=not view.by_process, who_trouble="")
    step = {"+": -1, "-": 1}.get(pressed)
    if step is None:
        return view
    at = EVERY_S.index(view.every_s) + step
    return replace(view, every_s=EVERY_S[max(0, min(len(EVERY_S) - 1, at))])


def _key(opened: _Terminal, seconds: float) -> str:
    """Return the key that is pressed within this time; empty if none is, or at a signal."""
    ready, _, _ = select.select([opened.keys, opened.signals.fileno()], [], [], seconds)
    if opened.signals.fileno() in ready:
        opened.signals.recv(64)
    if opened.keys not in ready:
        return ""
    # Reading from a terminal that was closed returns nothing.
    return os.read(opened.keys, 1).decode("ascii", "replace") or QUIT


@contextmanager
def _opened() -> Iterator[_Terminal]:
    """Use the alternate screen and read single keys; restore the terminal at the end."""
    keys = sys.stdin.fileno()
    before = termios.tcgetattr(keys)
    told, tell = socket.socketpair()
    tell.setblocking(False)
    wakeup = signal.set_wakeup_fd(tell.fileno(), warn_on_full_buffer=False)
    handlers = {
        signal.SIGWINCH: signal.signal(signal.SIGWINCH, lambda *_: None),
        signal.SIGTERM: signal.signal(signal.SIGTERM, _interrupt),
    }
    try:
        tty.setcbreak(keys)
        sys.stdout.write(terminal.ENTER)
        yield _Terminal(keys, told)
    finally:
        # A terminal that is gone cannot be restored.
        with suppress(OSError, termios.error):
            sys.stdout.write(terminal.LEAVE)
            sys.stdout.flush()
            termios.tcsetattr(keys, termios.TCSADRAIN, before)
        for number, handler in handlers.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(wakeup)
        told.close()
        tell.close()


def _interrupt(*_: object) -> None:
    """Treat SIGTERM like Ctrl-C, so that the terminal is restored."""
    raise KeyboardInterrupt
