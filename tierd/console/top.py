"""`tierd top`: a live view in the terminal, drawn by hand, that leaves the terminal as it was.

Rules of this file: it only asks the daemon for its snapshot; a daemon that is gone is waited for;
whatever ends it, the terminal is put back.
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
from contextlib import contextmanager
from dataclasses import dataclass, replace

from tierd.errors import ExitCode, TierdError
from tierd.views import plots, screen, terminal
from tierd.views.screen import View
from tierd.views.statusview import Status

# Enter and leave the second screen of a terminal, without its cursor (xterm, and all since).
_ENTER = "\x1b[?1049h\x1b[?25l"
_LEAVE = "\x1b[?25h\x1b[?1049l"
_HOME = "\x1b[H"
_CLEAR_LINE = "\x1b[K"
_CLEAR_BELOW = "\x1b[J"

QUIT = "q"
EVERY_S = (0.5, 1.0, 2.0, 5.0, 10.0)


@dataclass(frozen=True, slots=True)
class _Terminal:
    """Where keys come from, and what wakes up at a signal."""

    keys: int
    signals: socket.socket


class NoTerminal(TierdError):
    """There is nothing to draw on."""

    exit_code = ExitCode.usage


def run(ask: Callable[[], Status], *, colour: bool) -> ExitCode:
    """Draw until somebody quits."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise NoTerminal("`tierd top` needs a terminal", "`tierd status` prints the same once")
    ink = plots.ink_for(sys.stdout.encoding)
    view = View()
    with _opened() as opened:
        while True:
            if not view.held:
                view = look(view, ask)
            # Not $COLUMNS, which stays as it was when the terminal's size changes.
            columns, rows = os.get_terminal_size(sys.stdout.fileno())
            frame = "\n".join(screen.frame(view, time.time(), columns, rows, ink))
            _draw(terminal.painted(frame) if colour else frame)
            pressed = _key(opened, view.every_s)
            if pressed == QUIT:
                return ExitCode.ok
            view = key(view, pressed)


def look(view: View, ask: Callable[[], Status]) -> View:
    """The view with the daemon's newest snapshot, or with why there is none."""
    try:
        return screen.seen(view, ask())
    except TierdError as error:
        return screen.lost(view, str(error))


def key(view: View, pressed: str) -> View:
    """The view after a key."""
    if pressed == " ":
        return replace(view, held=not view.held)
    step = {"+": -1, "-": 1}.get(pressed)
    if step is None:
        return view
    at = EVERY_S.index(view.every_s) + step
    return replace(view, every_s=EVERY_S[max(0, min(len(EVERY_S) - 1, at))])


def _draw(frame: str) -> None:
    """Over what is there: without clearing first, nothing flickers."""
    body = frame.replace("\n", _CLEAR_LINE + "\r\n")
    sys.stdout.write(_HOME + body + _CLEAR_LINE + _CLEAR_BELOW)
    sys.stdout.flush()


def _key(terminal: _Terminal, seconds: float) -> str:
    """The key that is pressed within so long; nothing at its end, or when the size changes."""
    ready, _, _ = select.select([terminal.keys, terminal.signals.fileno()], [], [], seconds)
    if terminal.signals.fileno() in ready:
        terminal.signals.recv(64)
    if terminal.keys not in ready:
        return ""
    # A terminal that has gone reads as empty.
    return os.read(terminal.keys, 1).decode("ascii", "replace") or QUIT


@contextmanager
def _opened() -> Iterator[_Terminal]:
    """The second screen, keys as they are pressed, and everything put back."""
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
        sys.stdout.write(_ENTER)
        yield _Terminal(keys, told)
    finally:
        sys.stdout.write(_LEAVE)
        sys.stdout.flush()
        termios.tcsetattr(keys, termios.TCSADRAIN, before)
        for number, handler in handlers.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(wakeup)
        told.close()
        tell.close()


def _interrupt(*_: object) -> None:
    """To be told to end is to be interrupted: the terminal is put back on the way out."""
    raise KeyboardInterrupt
