"""Messages to systemd, over a real datagram socket."""

import socket
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tierd.loop import systemd
from tierd.loop.systemd import STATUS_S, Notifier, WatchdogInbox
from tierd.record.snapshot import SchemeStatus, Snapshot, State
from tierd.serving.inbox import Event, Verb


@dataclass
class Systemd:
    """Records messages. Its clock advances when somebody waits."""

    heard: list[str] = field(default_factory=list)
    now_s: float = 0.0
    waits: list[float] = field(default_factory=list)
    comes_at_s: float | None = None

    def notifier(self, watchdog_s: float | None = None) -> Notifier:
        return Notifier(self.heard.append, lambda: self.now_s, watchdog_s)

    def wait(self, seconds: float) -> tuple[Event, ...]:
        self.waits.append(seconds)
        self.now_s += seconds
        comes = self.comes_at_s is not None and self.now_s >= self.comes_at_s
        return (Event(Verb.reload, "test"),) if comes else ()


def snapshot(state: State = State.active, reason: str = "built") -> Snapshot:
    up = SchemeStatus("promote-1-0", "promote", 1, 0, 0, 0, 0, 0, 0, 84e6)
    down = SchemeStatus("demote-0-1", "demote", 0, 1, 0, 0, 0, 0, 0, 80e6)
    return Snapshot(
        0.0, "1", 1, 0.0, state, reason, "manage", "kernel", "", "m", schemes=(up, down)
    )


def test_ready_is_said_once_with_what_it_does() -> None:
    told = Systemd()
    notifier = told.notifier()
    notifier.publish(snapshot())
    notifier.publish(snapshot())
    assert told.heard == ["READY=1\nSTATUS=active: 80.1 MiB/s up, 76.3 MiB/s down; tuner kernel"]


def test_a_new_state_is_told_at_once_and_new_figures_now_and_then() -> None:
    told = Systemd()
    notifier = told.notifier()
    notifier.publish(snapshot())
    notifier.publish(snapshot(State.degraded, "no memory\non node 1"))
    assert told.heard[1:] == ["STATUS=degraded: no memory on node 1"]
    told.now_s += STATUS_S
    notifier.publish(snapshot(State.degraded, "still"))
    assert told.heard[2:] == ["STATUS=degraded: still"]


def test_who_waits_long_shows_that_it_lives() -> None:
    told = Systemd()
    inbox = WatchdogInbox(told, told.notifier(watchdog_s=30.0))
    assert inbox.wait(60.0) == ()
    assert sum(told.waits) == 60.0
    assert max(told.waits) <= 15.0
    assert told.heard.count("WATCHDOG=1") >= 60 / 30


def test_an_event_ends_the_wait() -> None:
    told = Systemd(comes_at_s=15.0)
    events = WatchdogInbox(told, told.notifier(watchdog_s=30.0)).wait(60.0)
    assert [event.verb for event in events] == [Verb.reload]
    assert told.now_s == 15.0


def test_no_watchdog_no_signs_of_life_and_one_wait() -> None:
    told = Systemd()
    WatchdogInbox(told, told.notifier()).wait(60.0)
    assert (told.waits, told.heard) == ([60.0], [])


def test_signs_of_life_are_not_more_than_wanted() -> None:
    """If each write sent one, there would be thousands."""
    told = Systemd()
    notifier = told.notifier(watchdog_s=40.0)
    for _ in range(1000):
        notifier.alive()
        told.now_s += 0.1
    assert 2 * 100 / 40 <= len(told.heard) <= 12


@pytest.mark.parametrize(
    ("environ", "seconds"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "30000000"}, 30.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "7"}, 30.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "8"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
    ],
)
def test_the_watchdog_is_as_the_environment_says(
    environ: dict[str, str], seconds: float | None
) -> None:
    assert systemd.watchdog_s(environ, 7) == seconds


@pytest.mark.parametrize("abstract", [False, True])
def test_a_message_reaches_the_socket(tmp_path: Path, abstract: bool) -> None:
    name = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.settimeout(30)
        listening.bind(f"\0{name}" if abstract else name)
        systemd.sender({"NOTIFY_SOCKET": f"@{name}" if abstract else name})("READY=1")
        assert listening.recv(100) == b"READY=1"


@pytest.mark.parametrize("environ", [{}, {"NOTIFY_SOCKET": "/no/such/socket"}])
def test_where_nobody_listens_nothing_happens(environ: dict[str, str]) -> None:
    systemd.sender(environ)("READY=1")


@pytest.mark.parametrize(
    ("result", "follows"),
    [
        ("success", False),
        ("signal", True),
        ("core-dump", True),
        ("watchdog", True),
        ("oom-kill", True),
        ("exit-code", False),
        ("timeout", False),
        ("protocol", False),
        ("start-limit-hit", False),
    ],
)
def test_restart_follows_a_kill_only(result: str, follows: bool) -> None:
    environ = {"SERVICE_RESULT": result}
    assert systemd.restart_follows(environ) is follows
    assert systemd.ended_well(environ) is (result == "success")
