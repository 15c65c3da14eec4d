"""The page over real sockets: it is made once per tick, and a browser may do nothing else."""

import base64
import hashlib
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from tests.fixtures.snapshots import SNAPSHOT
from tests.unit.serving.test_webserver import connected, read_all
from tierd.loop.service import Published
from tierd.loop.status_page import READINGS_MAX, Sources, StatusPage
from tierd.record.chronicle import LATELY_S, READING_EVERY_S, Chronicle, HistoryReading
from tierd.record.rundir import RunDir
from tierd.record.snapshot import Snapshot
from tierd.serving import webserver
from tierd.serving.webserver import Page
from tierd.views.statusview import STALE_S

CLIENTS = 200


@dataclass
class Scene:
    """A page whose snapshots a test publishes, and which counts how often it is made."""

    published: Published = field(default_factory=Published)
    now: float = SNAPSHOT.at
    asked: list[tuple[float, float, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page = StatusPage(
            Sources(lambda: self.published.recent, self.readings, "db-17", lambda: self.now)
        )

    def readings(self, since: float, until: float, most: int) -> tuple[HistoryReading, ...]:
        """Count: readings are taken once for each text that is made."""
        self.asked.append((since, until, most))
        return ()

    def publish(self, snapshot: Snapshot) -> None:
        self.published.add(snapshot, None)

    @property
    def made(self) -> int:
        return len(self.asked)


@pytest.fixture
def scene() -> Scene:
    made = Scene()
    made.publish(SNAPSHOT)
    return made


@pytest.fixture
def port(scene: Scene) -> Iterator[int]:
    listener = webserver.listen("127.0.0.1:0")
    number: int = listener.getsockname()[1]
    server = webserver.serve(listener, {"/": scene.page})
    yield number
    server.stop()


def all_at_once(port: int, count: int) -> list[bytes]:
    """Connect so many clients, let them all ask, and return their answers."""
    with ExitStack() as held:
        clients = [held.enter_context(connected(port)) for _ in range(count)]
        for number, sock in enumerate(clients):
            sock.sendall(b"HEAD" if number % 5 == 0 else b"GET")
            sock.sendall(b" / HTTP/1.1\r\nHost: x\r\n\r\n")
        for sock in clients:
            sock.shutdown(socket.SHUT_WR)
        return [read_all(sock) for sock in clients]


def test_two_hundred_clients_have_one_text_per_tick(scene: Scene, port: int) -> None:
    for tick in range(3):
        scene.publish(replace(SNAPSHOT, at=SNAPSHOT.at + tick))
        answers = all_at_once(port, CLIENTS)
        assert all(one.startswith(b"HTTP/1.1 200 ") for one in answers)
        bodies = {one.partition(b"\r\n\r\n")[2] for one in answers}
        # One text, and nothing for those who asked for the head only.
        assert len(bodies) == 2
        assert scene.made == tick + 1


def test_a_tick_that_nobody_asks_about_makes_no_text(scene: Scene) -> None:
    for tick in range(5):
        scene.publish(replace(SNAPSHOT, at=SNAPSHOT.at + tick))
    assert scene.made == 0
    scene.page()
    assert scene.made == 1


def test_a_loop_that_stands_still_is_told_by_the_page(scene: Scene) -> None:
    assert b"stuck" not in body_text(scene.page())
    scene.now += STALE_S + 5
    assert b"no new reading for 35 s" in body_text(scene.page())
    scene.page()
    assert scene.made == 2
    scene.now += STALE_S
    assert b"no new reading for 65 s" in body_text(scene.page())


def body_text(page: Page) -> bytes:
    return page.body.partition(b"<body>")[2].partition(b"<script>")[0]


def test_before_the_first_tick_it_says_so() -> None:
    scene = Scene()
    assert b"tierd has not read the machine yet" in scene.page().body
    scene.publish(SNAPSHOT)
    assert b"headroom is kept" in scene.page().body


def test_a_clock_that_was_set_back_stops_nothing(scene: Scene) -> None:
    scene.now -= 86_400
    assert scene.page().status.value == 200


def test_it_draws_the_hour_before_the_snapshot(scene: Scene) -> None:
    scene.page()
    at = SNAPSHOT.at
    assert scene.asked == [(at - LATELY_S, at - READING_EVERY_S, READINGS_MAX)]


def test_the_readings_that_tierd_keeps_are_drawn(tmp_path: Path) -> None:
    kept = Chronicle(RunDir(tmp_path, tmp_path))
    published = Published()
    for number in range(100):
        snapshot = replace(SNAPSHOT, at=SNAPSHOT.at + number * READING_EVERY_S)
        kept.saw(snapshot)
        published.add(snapshot, None)
    page = StatusPage(Sources(lambda: published.recent, kept.lately, "x", lambda: snapshot.at))
    text = page().body.decode()
    assert "the last 1 h, UTC" in text
    line = re.search(r'class="line room" d="([^"]*)"', text)
    assert line is not None
    assert line[1].count("L") == 99


def policy(page: Page) -> dict[str, str]:
    found = dict(page.headers)["Content-Security-Policy"]
    return dict(one.split(" ", 1) for one in found.split("; "))


@pytest.mark.parametrize("tag", ["style", "script"])
def test_the_policy_allows_the_page_its_own_style_and_script_only(scene: Scene, tag: str) -> None:
    page = scene.page()
    found = re.findall(rf"<{tag}>(.*?)</{tag}>", page.body.decode(), re.DOTALL)
    assert len(found) == 1
    digest = base64.b64encode(hashlib.sha256(found[0].encode()).digest()).decode()
    assert policy(page)[f"{tag}-src"] == f"'sha256-{digest}'"


def test_the_policy_forbids_everything_else(scene: Scene) -> None:
    rest = {name: what for name, what in policy(scene.page()).items() if "sha256" not in what}
    assert rest == {
        "default-src": "'none'",
        "img-src": "data:",
        "connect-src": "'self'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
    }


def test_the_page_asks_nobody_else_for_anything(scene: Scene) -> None:
    text = scene.page().body.decode()
    # The one address is the name of a namespace, which is not fetched.
    assert set(re.findall(r"[a-z]*:?//[^\s'\"]+", text)) == {"http://www.w3.org/2000/svg"}
    assert "@import" not in text
    assert "url(" not in text


def test_nothing_of_the_page_is_loaded_before_somebody_asks() -> None:
    program = (
        "import sys; from tierd.loop import service; from tierd.serving import metrics_output;"
        "print(*(name for name in sys.modules if name.startswith('tierd.views.page')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == ""
