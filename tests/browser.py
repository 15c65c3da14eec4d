"""Chromium without a window, driven over two pipes by its own protocol (--remote-debugging-pipe).

No driver and no package is needed. Each message is JSON and ends with a null byte.
"""

import fcntl
import json
import os
import shutil
import subprocess
import sys
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from select import select
from typing import Any

from tests.needed import REQUIRE_VARIABLE, needed

# It installs what it is told to, as root on Debian, and does nothing elsewhere.
SET_UP = Path(__file__).parent.parent / "tools/setup-debian"

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")

# Bound of each wait. A busy machine is slow, but not as slow as this.
BOUND_S = 30.0

# The pipes that Chromium reads from and writes to, by its own numbers.
READS_FD, WRITES_FD = 3, 4

# Gives the pipes the numbers that Chromium expects, and becomes Chromium.
RENUMBERED = f"""
import os, sys
os.dup2(int(sys.argv[1]), {READS_FD})
os.dup2(int(sys.argv[2]), {WRITES_FD})
os.execv(sys.argv[3], sys.argv[3:])
"""

OPTIONS = (
    "--headless=new",
    "--remote-debugging-pipe",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--hide-scrollbars",
)

Message = dict[str, Any]


def find() -> Path | str:
    """Return Chromium, or why there is none.

    It is large, so only CI installs it, and only in the turn of the tests that need it.
    """
    found = _found()
    if found is None and os.environ.get(REQUIRE_VARIABLE) == "1":
        subprocess.run(
            [SET_UP, "chromium"], env={**os.environ, "PYTHON": sys.executable}, check=True
        )
        found = _found()
    return found or "no Chromium: `tools/setup-debian chromium` installs it, as root on Debian"


def _found() -> Path | None:
    path = next(filter(None, map(shutil.which, PROGRAMS)), None)
    return None if path is None else Path(path)


@dataclass(slots=True)
class Tab:
    """An open tab, and what Chromium has reported about it."""

    sends_fd: int
    hears_fd: int
    session: str = ""
    complaints: list[str] = field(default_factory=list)
    """Errors and warnings on the console, such as what a policy has forbidden."""
    fetched: list[str] = field(default_factory=list)
    """The address of each request."""
    _number: int = 0
    _heard: bytes = b""
    _events: list[Message] = field(default_factory=list)

    def ask(self, method: str, **parameters: Any) -> Message:
        """Send a command, and return its result."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.sends_fd, json.dumps(message).encode() + b"\0")
        while True:
            heard = self._next()
            if heard.get("id") == self._number:
                assert "error" not in heard, f"{method}: {heard['error']}"
                result: Message = heard["result"]
                return result

    def renew(self) -> None:
        """Replace the tab by a new one, about which nothing has been reported."""
        self.session = ""
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")
        self.complaints.clear()
        self.fetched.clear()

    def await_event(self, method: str) -> None:
        """Wait until an event of this name has come since the last wait for one."""
        while not any(one["method"] == method for one in self._events):
            self._next()
        self._events.clear()

    def evaluate(self, expression: str) -> Any:
        """Return the value of a JavaScript expression in the page."""
        found = self.ask(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def show(self, width: int, height: int, scheme: str) -> None:
        """Set the size of the window, and whether the user prefers light or dark."""
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.ask("Emulation.setEmulatedMedia", features=features)

    def open(self, url: str) -> None:
        """Load a page, and wait until it is complete."""
        self._events.clear()
        self.ask("Page.navigate", url=url)
        self.await_event("Page.loadEventFired")

    def pass_time(self, milliseconds: int) -> None:
        """Let this time pass for the page at once, but for its requests, which it waits for."""
        self._events.clear()
        self.ask(
            "Emulation.setVirtualTimePolicy",
            policy="pauseIfNetworkFetchesPending",
            budget=milliseconds,
        )
        self.await_event("Emulation.virtualTimeBudgetExpired")

    def screenshot(self, path: Path) -> None:
        """Write a picture of what the window shows."""
        found = self.ask("Page.captureScreenshot")
        path.write_bytes(b64decode(found["data"]))

    def _next(self) -> Message:
        """Return the next message, and note it if it is an event."""
        while b"\0" not in self._heard:
            assert select([self.hears_fd], [], [], BOUND_S)[0], "Chromium says nothing"
            chunk = os.read(self.hears_fd, 1 << 20)
            assert chunk, "Chromium has ended"
            self._heard += chunk
        raw, _, self._heard = self._heard.partition(b"\0")
        message: Message = json.loads(raw)
        if "method" in message:
            self._note(message)
        return message

    def _note(self, event: Message) -> None:
        self._events.append(event)
        parameters = event.get("params", {})
        if event["method"] == "Log.entryAdded":
            self.complaints.append(parameters["entry"]["text"])
        elif event["method"] == "Runtime.exceptionThrown":
            self.complaints.append(str(parameters["exceptionDetails"]))
        elif event["method"] == "Runtime.consoleAPICalled":
            self.complaints.append(str(parameters["args"]))
        elif event["method"] == "Network.requestWillBeSent":
            self.fetched.append(parameters["request"]["url"])


def _pipe() -> tuple[int, int]:
    """Return the ends of a pipe, with numbers that none of Chromium's has."""
    ends = os.pipe()
    moved = tuple(fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, WRITES_FD + 1) for end in ends)
    for end in ends:
        os.close(end)
    return moved[0], moved[1]


@contextmanager
def tab(profile: Path) -> Iterator[Tab]:
    """Start Chromium with a fresh profile. A test without it is skipped."""
    program = needed(find())
    its_input, sends_fd = _pipe()
    hears_fd, its_output = _pipe()
    argv = [
        *(sys.executable, "-c", RENUMBERED, str(its_input), str(its_output)),
        *(str(program), *OPTIONS, f"--user-data-dir={profile}", "about:blank"),
    ]
    process = subprocess.Popen(
        argv, pass_fds=(its_input, its_output), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    os.close(its_input)
    os.close(its_output)
    try:
        yield Tab(sends_fd, hears_fd)
    finally:
        os.close(sends_fd)
        os.close(hears_fd)
        # Chromium ends by itself when its pipe is closed.
        try:
            process.wait(BOUND_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(BOUND_S)
