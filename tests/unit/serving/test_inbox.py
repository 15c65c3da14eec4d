"""What wakes the loop: signals, commands, or nothing."""

import os
import signal
from collections.abc import Iterator

import pytest

from tierd.serving.inbox import COMMANDS_MAX, SIGNALS, Event, SystemInbox, Verb

# Bound of a wait, so long that only a wake-up ends a wait in a test.
LONG_S = 30.0


@pytest.fixture
def inbox() -> Iterator[SystemInbox]:
    before = {number: signal.getsignal(number) for number in SIGNALS}
    made = SystemInbox()
    yield made
    made.close()
    for number, handler in before.items():
        signal.signal(number, handler)


def test_a_wait_without_news_ends(inbox: SystemInbox) -> None:
    assert inbox.wait(0.0) == ()


@pytest.mark.parametrize(("number", "verb"), SIGNALS.items())
def test_a_signal_is_an_event(inbox: SystemInbox, number: signal.Signals, verb: Verb) -> None:
    inbox.catch_signals()
    os.kill(os.getpid(), number)
    events = inbox.wait(LONG_S)
    assert [(event.verb, event.source) for event in events] == [(verb, number.name)]
    assert inbox.wait(0.0) == ()


def test_a_command_wakes_the_loop(inbox: SystemInbox) -> None:
    event = Event(Verb.pause, "api")
    assert inbox.post(event)
    assert inbox.wait(LONG_S) == (event,)


def test_commands_are_bounded(inbox: SystemInbox) -> None:
    posted = [inbox.post(Event(Verb.pause, str(n))) for n in range(COMMANDS_MAX + 5)]
    assert posted == [True] * COMMANDS_MAX + [False] * 5
    assert len(inbox.wait(LONG_S)) == COMMANDS_MAX
