"""The verbs that look back, `tierd events` and `tierd history`; they need no daemon."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypedDict

from tierd.record import chronicle
from tierd.record.chronicle import Numbered
from tierd.record.rundir import EVENTS, HISTORY, FileError, RunDir
from tierd.views import history, picture
from tierd.views.plots import Ink
from tierd.views.render import day, event_line

SCHEMA = "tierd.events/1"

# As `tail` does.
SHOWN = 10
FOLLOW_EVERY_S = 0.5


class EventDocument(TypedDict):
    """Something that happened. `tierd events --follow --json` writes one of these on each line."""

    number: int
    """Rises by one with each event, until the store is removed."""
    at: float
    """Seconds since the epoch."""
    event: str
    """What kind of thing it was: see docs/operations.md."""
    text: str
    """What and why, in words."""


class EventsDocument(TypedDict):
    """What happened, oldest first, as `tierd events --json` tells it."""

    schema: str
    events: list[EventDocument]


def kept_events(folder: RunDir, since: float | None) -> tuple[Numbered, ...]:
    """Those since a time, or the last few."""
    found = chronicle.events(folder)
    if since is None:
        return found[-SHOWN:]
    return tuple(one for one in found if one.event.at >= since)


def events_text(shown: tuple[Numbered, ...], folder: RunDir) -> str:
    if not shown:
        return f"no events of that time in {folder.state / EVENTS}"
    return "\n".join(_line(one) for one in shown)


def events_json(shown: tuple[Numbered, ...]) -> str:
    document = EventsDocument(schema=SCHEMA, events=[_fields(one) for one in shown])
    return json.dumps(document, indent=2)


def follow(
    folder: RunDir, shown: tuple[Numbered, ...], wait: Callable[[float], None]
) -> Iterator[Numbered]:
    """Events as they come, for ever; a daemon that starts again, or another file, is no end."""
    last = shown[-1].number if shown else 0
    yield from shown
    while True:
        wait(FOLLOW_EVERY_S)
        found = chronicle.events(folder)
        if found and found[-1].number < last:
            # Somebody removed the file, and the numbers began again.
            last = 0
        yield from (one for one in found if one.number > last)
        last = found[-1].number if found else 0


def one_line(one: Numbered, *, as_json: bool) -> str:
    return json.dumps(_fields(one)) if as_json else _line(one)


def _line(one: Numbered) -> str:
    """With the day, as weeks may be kept."""
    return f"{day(one.event.at)} {event_line(_fields(one))}"


def _fields(one: Numbered) -> EventDocument:
    return {
        "number": one.number,
        "at": one.event.at,
        "event": one.event.event,
        "text": one.event.text,
    }


def history_text(folder: RunDir, since: float, now: float, columns: int, ink: Ink) -> str:
    readings = chronicle.readings(folder, since, history.READINGS_MAX)
    text = history.as_text(readings, since, now, columns, ink)
    return text if readings else f"{text} (looked in {folder.state / HISTORY})"


def history_json(folder: RunDir, since: float, now: float) -> str:
    readings = chronicle.readings(folder, since)
    return history.as_json(readings, since, now)


def write_svg(folder: RunDir, since: float, now: float, path: Path) -> None:
    readings = chronicle.readings(folder, since, history.READINGS_MAX)
    try:
        path.write_text(picture.svg(readings, since, now))
    except OSError as error:
        raise FileError(f"cannot write {path}: {error.strerror}", "name another file") from error
