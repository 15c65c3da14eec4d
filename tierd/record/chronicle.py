"""What tierd remembers of itself on disk: every event, and a reading every ten seconds.

Rules of this file: both stores are rings of fixed size; what is read back is values, and a record
that another version of tierd wrote in another way is passed over.
"""

import json
import logging
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple, TypedDict

from tierd.errors import TierdError
from tierd.record import ring
from tierd.record.ring import Contents, Record
from tierd.record.rundir import EVENTS, HISTORY, RunDir
from tierd.record.snapshot import EventStatus, Snapshot

log = logging.getLogger("tierd")

READING_EVERY_S = 10.0
READINGS_MAX = 8_640
"""A day."""
READING_SLOT_BYTES = 512
"""Room for two nodes with a scheme each; a larger machine gets larger slots."""

EVENTS_MAX = 2_048
EVENT_SLOT_BYTES = 512

# What a text that was cut short ends with.
_CUT = "..."


class NodeReading(NamedTuple):
    """A node at one moment, in bytes. A tuple, as a day has thousands, made at each look back."""

    size_bytes: int
    free_bytes: int
    headroom_bytes: int | None
    hot_bytes: int | None
    cold_bytes: int | None

    @property
    def used_bytes(self) -> int:
        return self.size_bytes - self.free_bytes


class Reading(NamedTuple):
    """The machine at one moment, as far as a graph needs it; a tuple for the same reason."""

    at: float
    state: str
    cpu_seconds: float
    """Of all kdamonds, a total that only grows."""
    nodes: Mapping[int, NodeReading]
    applied_bytes: Mapping[str, int]
    """By scheme, a total that only grows."""


def reading_of(snapshot: Snapshot) -> Reading:
    """What is kept of a snapshot."""
    return Reading(
        at=snapshot.at,
        state=snapshot.state,
        cpu_seconds=round(sum(one.cpu_seconds_total for one in snapshot.kdamonds), 2),
        nodes={
            node.numa_node: NodeReading(
                node.size_bytes,
                node.free_bytes,
                node.headroom_target_bytes,
                node.hot_bytes,
                node.cold_bytes,
            )
            for node in snapshot.nodes
        },
        applied_bytes={one.scheme: one.applied_bytes_total for one in snapshot.schemes},
    )


def reading_to_bytes(reading: Reading) -> bytes:
    nodes = {
        str(node): [
            one.size_bytes,
            one.free_bytes,
            one.headroom_bytes,
            one.hot_bytes,
            one.cold_bytes,
        ]
        for node, one in reading.nodes.items()
    }
    raw = {
        "t": round(reading.at, 3),
        "s": reading.state,
        "c": reading.cpu_seconds,
        "n": nodes,
        "m": dict(reading.applied_bytes),
    }
    return json.dumps(raw, separators=(",", ":")).encode()


def reading_from_bytes(text: bytes) -> Reading | None:
    """The reading; None if another version of tierd wrote it in another way."""
    try:
        raw = json.loads(text.decode())
        nodes = {int(node): NodeReading(*figures[:5]) for node, figures in raw["n"].items()}
        return Reading(raw["t"], raw["s"], raw["c"], nodes, raw["m"])
    except (ValueError, KeyError, TypeError):
        return None


def event_to_bytes(event: EventStatus) -> bytes:
    """The event; a text that is too long for its slot is cut."""
    kept = event
    while len(packed := _event_bytes(kept)) > ring.room(EVENT_SLOT_BYTES) and kept.text:
        shorter = kept.text.removesuffix(_CUT)
        kept = replace(event, text=shorter[: len(shorter) * 9 // 10] + _CUT)
    return packed


def _event_bytes(event: EventStatus) -> bytes:
    raw = {"t": round(event.at, 3), "e": event.event, "x": event.text}
    return json.dumps(raw, separators=(",", ":")).encode()


def event_from_bytes(text: bytes) -> EventStatus | None:
    """The event; None if another version of tierd wrote it in another way."""
    try:
        raw = json.loads(text.decode())
        return EventStatus(raw["t"], raw["e"], raw["x"])
    except (ValueError, KeyError, TypeError):
        return None


@dataclass(frozen=True, slots=True)
class Numbered:
    """An event and its number, by which a follower knows what is new."""

    number: int
    event: EventStatus


def events(folder: RunDir) -> tuple[Numbered, ...]:
    """Every event that is kept, oldest first."""
    found = ring.read(folder.state / EVENTS)
    return tuple(
        Numbered(record.number, event)
        for record in (found.records if found else ())
        if (event := event_from_bytes(record.text)) is not None
    )


def readings(folder: RunDir, since: float, most: int | None = None) -> tuple[Reading, ...]:
    """The readings since that time, oldest first; every so manieth, if there are more than `most`.

    A day has thousands, and to parse them all takes longer than somebody who waits for a chart
    likes.
    """
    found = ring.read(folder.state / HISTORY)
    records = found.records if found else ()
    begin = bisect_left(records, since, key=_moment)
    step = 1 if most is None else -(-(len(records) - begin) // most) or 1
    # From the newest backwards, so that this one is among them.
    picked = reversed(records[: begin - 1 if begin else None : -1][::step])
    parsed = (reading_from_bytes(record.text) for record in picked)
    return tuple(one for one in parsed if one is not None and one.at >= since)


def _moment(record: Record) -> float:
    reading = reading_from_bytes(record.text)
    return reading.at if reading else 0.0


@dataclass(slots=True)
class _Store:
    """One ring that is written to."""

    path: Path
    slots: int
    slot_bytes: int
    shape: Contents | None = None
    next: int = 1

    def append(self, text: bytes) -> None:
        if self.shape is None or not self.path.exists():
            self._open()
        assert self.shape is not None
        if len(text) > ring.room(self.shape.slot_bytes):
            self._widen(len(text))
        ring.append(self.path, self.shape, Record(self.next, text))
        self.next += 1

    def _open(self) -> None:
        try:
            self.shape = ring.read(self.path)
        except ring.Damaged as error:
            log.warning("%s; beginning a new one", error)
            self.shape = None
        if self.shape is None:
            self._create(self.slot_bytes, ())
        assert self.shape is not None
        self.next = self.shape.last + 1

    def _widen(self, bytes_needed: int) -> None:
        """Move everything into a file with larger slots."""
        old = ring.read(self.path)
        slot_bytes = self.slot_bytes
        while ring.room(slot_bytes) < bytes_needed:
            slot_bytes *= 2
        self._create(slot_bytes, old.records if old else ())

    def _create(self, slot_bytes: int, records: tuple[Record, ...]) -> None:
        ring.create(self.path, self.slots, slot_bytes, records)
        self.shape = Contents(self.slots, slot_bytes, records)


@dataclass(slots=True)
class Chronicle:
    """Writes both stores. A disk that fails is said once, and stops nothing."""

    folder: RunDir
    read_at: float = float("-inf")
    failing: bool = False
    _events: _Store = field(init=False)
    _readings: _Store = field(init=False)

    def __post_init__(self) -> None:
        state = self.folder.state
        self._events = _Store(state / EVENTS, EVENTS_MAX, EVENT_SLOT_BYTES)
        self._readings = _Store(state / HISTORY, READINGS_MAX, READING_SLOT_BYTES)

    def happened(self, event: EventStatus) -> None:
        self._write(self._events, event_to_bytes(event))

    def saw(self, snapshot: Snapshot) -> None:
        """Keep a snapshot, if it is time for one; a clock that was set back counts as time."""
        if 0 <= snapshot.at - self.read_at < READING_EVERY_S or not snapshot.nodes:
            return
        self.read_at = snapshot.at
        self._write(self._readings, reading_to_bytes(reading_of(snapshot)))

    def _write(self, store: _Store, text: bytes) -> None:
        try:
            store.append(text)
            self.failing = False
        except TierdError as error:
            if not self.failing:
                log.warning("history is not kept: %s", error)
            self.failing = True


class NodeDocument(TypedDict):
    """A node at one moment."""

    numa_node: int
    size_bytes: int
    free_bytes: int
    headroom_target_bytes: int | None
    """What demotion keeps free here; null on a node that demotes to nowhere."""
    hot_bytes: int | None
    """Hot memory that could go to a faster node; null where nobody sensed it."""
    cold_bytes: int | None
    """Memory that nobody accesses and that could go to a slower node, free memory included."""


class SchemeDocument(TypedDict):
    """A scheme at one moment."""

    scheme: str
    applied_bytes_total: int
    """What it has moved in all; only grows."""


class ReadingDocument(TypedDict):
    """The machine at one moment."""

    at: float
    state: str
    kdamond_cpu_seconds_total: float
    """Of all kdamonds, since the counters began; only grows."""
    nodes: list[NodeDocument]
    schemes: list[SchemeDocument]


def documents(readings: Iterable[Reading]) -> Iterator[ReadingDocument]:
    """Readings as JSON values, with names that say what they are."""
    for reading in readings:
        yield {
            "at": reading.at,
            "state": reading.state,
            "kdamond_cpu_seconds_total": reading.cpu_seconds,
            "nodes": [
                {
                    "numa_node": node,
                    "size_bytes": one.size_bytes,
                    "free_bytes": one.free_bytes,
                    "headroom_target_bytes": one.headroom_bytes,
                    "hot_bytes": one.hot_bytes,
                    "cold_bytes": one.cold_bytes,
                }
                for node, one in sorted(reading.nodes.items())
            ],
            "schemes": [
                {"scheme": scheme, "applied_bytes_total": total}
                for scheme, total in reading.applied_bytes.items()
            ],
        }
