"""The commands `tierd events` and `tierd history`: they read from disk and need no daemon."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypedDict

from tierd.record import chronicle
from tierd.record.chronicle import Numbered
from tierd.record.rundir import EVENTS, HISTORY, FileError, RunDir, save
from tierd.views import history, picture
from tierd.views.plots import Ink
from tierd.views.render import day, event_line

SCHEMA = "tierd.events/1"

# How many events are shown, as by `tail`, and how often --follow looks for new ones.
SHOWN = 10
FOLLOW_EVERY_S = 0.5

# Everybody may read a picture.
SVG_MODE = 0o644


class EventDocument(TypedDict):
    """One event. `tierd events --follow --json` prints one of these per line."""

    number: int
    """Rises by one with each event; begins again if the file of events is removed."""
    at: float
    """Seconds since the epoch."""
    event: str
    """The kind of event: see docs/operations.md."""
    text: str
    """What happened and why, in words."""


class EventsDocument(TypedDict):
    """Events, oldest first, as `tierd events --json` prints them."""

    schema: str
    events: list[EventDocument]


def kept_events(folder: RunDir, since: float | None) -> tuple[Numbered, ...]:
    """Return the events since a time, or the last few."""
    found = chronicle.events(folder)
    if since is None:
        return found[-SHOWN:]
    return tuple(one for one in found if one.event.at >= since)


def events_text(shown: tuple[Numbered, ...], folder: RunDir) -> str:
    if not shown:
        return f"there are no events of that time in {folder.state / EVENTS}"
    return "\n".join(_line(one) for one in shown)


def events_json(shown: tuple[Numbered, ...]) -> str:
    document = EventsDocument(schema=SCHEMA, events=[_fields(one) for one in shown])
    return json.dumps(document, indent=2)


def follow(
    folder: RunDir, shown: tuple[Numbered, ...], wait: Callable[[float], None]
) -> Iterator[Numbered]:
    """Yield events as they happen, without an end. A restart or a new file does not end this."""
    last = shown[-1].number if shown else 0
    yield from shown
    while True:
        wait(FOLLOW_EVERY_S)
        found = chronicle.events(folder)
        if found and found[-1].number < last:
            # The file was removed, so the numbers began again.
            last = 0
        yield from (one for one in found if one.number > last)
        last = found[-1].number if found else 0


def one_line(one: Numbered, *, as_json: bool) -> str:
    return json.dumps(_fields(one)) if as_json else _line(one)


def _line(one: Numbered) -> str:
    """Return the event as a line. It begins with the day, because events of weeks are kept."""
    return f"{day(one.event.at)} {event_line(_fields(one))}"


def _fields(one: Numbered) -> EventDocument:
    return {
        "number": one.number,
        "at": one.event.at,
        "event": one.event.event,
        "text": one.event.text,
    }


def history_text(folder: RunDir, since: float, now: float, columns: int, ink: Ink) -> str:
    readings = chronicle.readings(folder, since, now, history.READINGS_MAX)
    text = history.as_text(readings, since, now, columns, ink)
    return text if readings else f"{text} (file: {folder.state / HISTORY})"


def history_json(folder: RunDir, since: float, now: float) -> str:
    readings = chronicle.readings(folder, since, now)
    return history.as_json(readings, since, now)


def history_svg(folder: RunDir, since: float, now: float) -> str:
    readings = chronicle.readings(folder, since, now, history.READINGS_MAX)
    return picture.svg(readings, since, now)


def write_svg(folder: RunDir, since: float, now: float, path: Path) -> None:
    write_picture(path, history_svg(folder, since, now))


def write_picture(path: Path, text: str) -> None:
    """Write a file that the user has named, for others to read."""
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise FileError(f"cannot write {path}: it is not a regular file", "name another file")
    try:
        save(path, text, SVG_MODE, lasting=False)
    except FileError as error:
        error.hint = "name another file"
        raise
