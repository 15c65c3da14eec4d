"""What is counted at the edge, beside the schemes' totals: events, refused writes, reloads.

A value, kept on disk like the other totals, so that these counters go on where they were when
the daemon starts again.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace

FORMAT = "tierd.tally/1"


@dataclass(frozen=True, slots=True)
class Tally:
    """Counts since the first start; times are seconds since the epoch, 0 for never."""

    events: Mapping[str, int] = field(default_factory=dict)
    write_errors: Mapping[str, int] = field(default_factory=dict)
    """By the name of the errno."""
    reload_ok: bool = True
    """Of the configuration read last; that of a start was good, or nothing would run."""
    reloaded_at: float = 0.0
    succeeded_at: float = 0.0
    """The last round of the loop without trouble."""


def happened(tally: Tally, event: str, at: float) -> Tally:
    """The tally after one more event."""
    events = {**tally.events, event: tally.events.get(event, 0) + 1}
    if event in ("reload", "running"):
        return replace(tally, events=events, reload_ok=True, reloaded_at=at)
    if event == "reload_failed":
        return replace(tally, events=events, reload_ok=False)
    return replace(tally, events=events)


def refused(tally: Tally, errno_name: str) -> Tally:
    """The tally after the kernel refused one more write."""
    count = tally.write_errors.get(errno_name, 0) + 1
    return replace(tally, write_errors={**tally.write_errors, errno_name: count})


def succeeded(tally: Tally, at: float) -> Tally:
    """The tally after a round that went well."""
    return replace(tally, succeeded_at=at)


def to_text(tally: Tally) -> str:
    """The tally as the text of its file."""
    return json.dumps({"format": FORMAT, **asdict(tally)}, indent=1) + "\n"


def from_text(text: str) -> Tally | None:
    """The tally of a file's text, or None if it is not one (then it begins at zero)."""
    try:
        raw = json.loads(text)
        if raw.pop("format") != FORMAT:
            return None
        found = Tally(**raw)
        counts = {**found.events, **found.write_errors}.values()
        times = (found.reloaded_at, found.succeeded_at)
        whole = all(isinstance(count, int) for count in counts)
        return found if whole and all(isinstance(at, int | float) for at in times) else None
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
