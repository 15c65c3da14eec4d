"""Counts of the daemon itself: events, refused writes, reloads, files that could not be saved.

They are saved on disk, so that they go on from there when the daemon starts again.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, field
from typing import Any

from tierd.frozen import dataclass, replace
from tierd.record import fields

FORMAT = "tierd.tally/1"


@dataclass(frozen=True, slots=True)
class DaemonCounts:
    """Counts since the first start; times are seconds since the epoch, 0 for never."""

    events: Mapping[str, int] = field(default_factory=dict)
    write_errors: Mapping[str, int] = field(default_factory=dict)
    """Counts by the name of the errno."""
    reload_ok: bool = True
    """True if the configuration that was read last is good."""
    reloaded_at: float = 0.0
    succeeded_at: float = 0.0
    """When the last tick without a failure was."""
    bookkeeping_errors: Mapping[str, int] = field(default_factory=dict)
    """Counts by the name of the file that could not be saved."""


def happened(tally: DaemonCounts, event: str, at: float) -> DaemonCounts:
    """Return the counts after one more event."""
    events = {**tally.events, event: tally.events.get(event, 0) + 1}
    if event in ("reload", "running"):
        return replace(tally, events=events, reload_ok=True, reloaded_at=at)
    if event == "reload_failed":
        return replace(tally, events=events, reload_ok=False)
    return replace(tally, events=events)


def refused(tally: DaemonCounts, errno_name: str) -> DaemonCounts:
    """Return the counts after one more write that the kernel refused."""
    count = tally.write_errors.get(errno_name, 0) + 1
    return replace(tally, write_errors={**tally.write_errors, errno_name: count})


def lost(tally: DaemonCounts, file: str) -> DaemonCounts:
    """Return the counts after one more failure to save a file of tierd."""
    count = tally.bookkeeping_errors.get(file, 0) + 1
    return replace(tally, bookkeeping_errors={**tally.bookkeeping_errors, file: count})


def succeeded(tally: DaemonCounts, at: float) -> DaemonCounts:
    """Return the counts after a tick without a failure."""
    return replace(tally, succeeded_at=at)


def to_text(tally: DaemonCounts) -> str:
    """Return the text of the file."""
    return json.dumps({"format": FORMAT, **asdict(tally)}, indent=1) + "\n"


def from_text(text: str) -> DaemonCounts | None:
    """Return the counts of a text, or None if it is not valid (then they begin at zero)."""
    try:
        raw = fields.document(text)
        if raw.pop("format") != FORMAT:
            return None
        return DaemonCounts(**{key: _READERS[key](value) for key, value in raw.items()})
    except (ValueError, KeyError, TypeError):
        return None


def _counts(raw: object) -> dict[str, int]:
    return {fields.name(key): fields.whole(value) for key, value in fields.table(raw).items()}


# A field that an earlier version did not write has its default.
_READERS: Mapping[str, Callable[[object], Any]] = {
    "events": _counts,
    "write_errors": _counts,
    "reload_ok": fields.truth,
    "reloaded_at": fields.seconds,
    "succeeded_at": fields.seconds,
    "bookkeeping_errors": _counts,
}
