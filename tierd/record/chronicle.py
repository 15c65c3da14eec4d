"""The history on disk: every event, and a reading of the machine every ten seconds.

Rules of this file: both files are rings of fixed size. A record in a format of another version is
skipped.
"""

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from pathlib import Path
from typing import NamedTuple, TypedDict

from tierd.frozen import dataclass, replace
from tierd.record import fields, ring
from tierd.record.bookkeeping import Bookkeeping
from tierd.record.ring import Contents, Record
from tierd.record.rundir import EVENTS, HISTORY, RunDir
from tierd.record.snapshot import EventStatus, Snapshot

READING_EVERY_S = 10.0
READINGS_MAX = 8_640
"""Readings of a day, one every ten seconds."""
READING_SLOT_BYTES = 512
"""Room for two nodes with a scheme each; a larger machine gets larger slots."""

# The newest readings are also in memory, for the page: an hour, 110 KiB where there are two nodes.
LATELY_S = 3_600.0
LATELY_MAX = int(LATELY_S / READING_EVERY_S)

# Figures of a node in a record. There are five now, and later versions may add some at the end.
FIGURES_MAX = 64

EVENTS_MAX = 2_048
EVENT_SLOT_BYTES = 512

# What a text that was cut short ends with.
_CUT = "..."


class HistoryNode(NamedTuple):
    """A node at one moment, in bytes. A tuple is cheap to make, and a day has thousands."""

    size_bytes: int
    free_bytes: int
    headroom_bytes: int | None
    hot_bytes: int | None
    cold_bytes: int | None

    @property
    def used_bytes(self) -> int:
        return self.size_bytes - self.free_bytes


class HistoryReading(NamedTuple):
    """The machine at one moment, as a graph needs it. It is a tuple for the same reason."""

    at: float
    state: str
    cpu_seconds: float
    """Processor time of all kdamonds. It only grows."""
    nodes: Mapping[int, HistoryNode]
    applied_bytes: Mapping[str, int]
    """Total bytes that each scheme moved. They only grow."""


def reading_of(snapshot: Snapshot) -> HistoryReading:
    """Return the reading of a snapshot."""
    return HistoryReading(
        at=snapshot.at,
        state=snapshot.state,
        cpu_seconds=round(sum(one.cpu_seconds_total for one in snapshot.kdamonds), 2),
        nodes={
            node.numa_node: HistoryNode(
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


def reading_to_bytes(reading: HistoryReading) -> bytes:
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


def reading_from_bytes(text: bytes) -> HistoryReading | None:
    """Return the reading, or None if it has the format of another version."""
    try:
        raw = fields.document(text)
        nodes = {
            fields.node(node): _history_node(figures)
            for node, figures in fields.table(raw["n"]).items()
        }
        moved = {fields.name(key): fields.whole(one) for key, one in fields.table(raw["m"]).items()}
        at, used_s = fields.seconds(raw["t"]), fields.seconds(raw["c"])
        return HistoryReading(at, fields.name(raw["s"]), used_s, nodes, moved)
    except (ValueError, KeyError, TypeError):
        return None


def _history_node(raw: object) -> HistoryNode:
    size, free, *sensed = fields.rows(raw, FIGURES_MAX)[:5]
    headroom, hot, cold = (None if one is None else fields.whole(one) for one in sensed)
    return HistoryNode(fields.whole(size), fields.whole(free), headroom, hot, cold)


def event_to_bytes(event: EventStatus) -> bytes:
    """Return the bytes of an event. A text that is too long for its slot is cut."""
    # Bytes that are not UTF-8 are escaped, because they could not be read back.
    written = event.text.encode("utf-8", "backslashreplace").decode("utf-8")
    event = kept = replace(event, text=written)
    while len(packed := _event_bytes(kept)) > ring.room(EVENT_SLOT_BYTES) and kept.text:
        shorter = kept.text.removesuffix(_CUT)
        kept = replace(event, text=shorter[: len(shorter) * 9 // 10] + _CUT)
    return packed


def _event_bytes(event: EventStatus) -> bytes:
    raw = {"t": round(event.at, 3), "e": event.event, "x": event.text}
    return json.dumps(raw, separators=(",", ":")).encode()


def event_from_bytes(text: bytes) -> EventStatus | None:
    """Return the event, or None if it has the format of another version."""
    try:
        raw = fields.document(text)
        at, said = fields.seconds(raw["t"]), fields.text(raw["x"], EVENT_SLOT_BYTES)
        return EventStatus(at, fields.text(raw["e"], EVENT_SLOT_BYTES), said)
    except (ValueError, KeyError, TypeError):
        return None


@dataclass(frozen=True, slots=True)
class Numbered:
    """An event and its number. A follower knows by the number what is new."""

    number: int
    event: EventStatus


def events(folder: RunDir) -> tuple[Numbered, ...]:
    """Return all events on disk, oldest first."""
    found = ring.read(folder.state / EVENTS)
    return tuple(
        Numbered(record.number, event)
        for record in (found.records if found else ())
        if (event := event_from_bytes(record.text)) is not None
    )


def readings(
    folder: RunDir, since: float, until: float, most: int | None = None
) -> tuple[HistoryReading, ...]:
    """Return the readings of a time in the order of writing; at most `most`, evenly picked.

    A day has thousands, and parsing them all is slow. Their times may be out of order if the clock
    was set back.
    """
    found = ring.read(folder.state / HISTORY)
    records = found.records if found else ()
    return _parsed([one.text for one in records if since <= _moment(one.text) <= until], most)


def _parsed(texts: list[bytes], most: int | None) -> tuple[HistoryReading, ...]:
    """Return at most `most` of the readings in these texts, evenly picked."""
    step = 1 if most is None else -(-len(texts) // most) or 1
    # Counted from the newest, so that it is among them.
    parsed = (reading_from_bytes(text) for text in reversed(texts[::-1][::step]))
    return tuple(one for one in parsed if one is not None)


_MOMENT_BEGINS = b'{"t":'


def _moment(text: bytes) -> float:
    """Return the time of a record, which is its first field; minus infinity if unreadable."""
    head, _, _ = text.partition(b",")
    try:
        return float(head.removeprefix(_MOMENT_BEGINS))
    except ValueError:
        return -math.inf


@dataclass(slots=True)
class _Store:
    """A ring that this process writes to."""

    path: Path
    slots: int
    slot_bytes: int
    books: Bookkeeping
    newest_max: int = 0
    newest: tuple[bytes, ...] = ()
    """The newest records, for other threads: replaced as a whole, so they need no lock."""
    shape: Contents | None = None
    """The shape without records. A day of records is 6 MiB, and a writer needs none."""
    next: int = 1

    def append(self, text: bytes) -> None:
        # A record is among these even if the disk does not take it.
        self._add_newest((), (text,))
        if self.shape is None or not self.path.exists():
            self._open()
        try:
            self._append(text)
        except ring.Damaged:
            # Somebody has replaced the file.
            self._open()
            self._append(text)

    def _append(self, text: bytes) -> None:
        assert self.shape is not None
        if len(text) > ring.room(self.shape.slot_bytes):
            self._widen(len(text))
        ring.append(self.path, self.shape, Record(self.next, text))
        self.next += 1

    def _open(self) -> None:
        self.shape = None
        try:
            found = ring.read(self.path)
        except ring.Damaged as error:
            self.books.failed(self.path, f"{error}; a new one begins")
            found = None
        if found is None:
            self._create(self.slot_bytes, ())
        else:
            self.shape = replace(found, records=())
            if self.next == 1:
                texts = tuple(record.text for record in found.records[-self.newest_max :])
                self._add_newest(texts, ())
        # Followers know what is new by its number.
        self.next = max(self.next, found.last + 1 if found else 1)

    def _add_newest(self, before: tuple[bytes, ...], after: tuple[bytes, ...]) -> None:
        if self.newest_max:
            self.newest = (*before, *self.newest, *after)[-self.newest_max :]

    def _widen(self, bytes_needed: int) -> None:
        """Move everything into a file with larger slots."""
        old = ring.read(self.path)
        slot_bytes = self.slot_bytes
        while ring.room(slot_bytes) < bytes_needed:
            slot_bytes *= 2
        self._create(slot_bytes, old.records if old else ())

    def _create(self, slot_bytes: int, records: tuple[Record, ...]) -> None:
        slots = min(self.slots, ring.slots_max(slot_bytes))
        ring.create(self.path, slots, slot_bytes, records)
        self.shape = Contents(slots, slot_bytes, ())


@dataclass(slots=True)
class Chronicle:
    """Writes both rings. A failing disk stops nothing."""

    folder: RunDir
    books: Bookkeeping = field(default_factory=Bookkeeping)
    read_at: float = float("-inf")
    _events: _Store = field(init=False)
    _readings: _Store = field(init=False)

    def __post_init__(self) -> None:
        state, books = self.folder.state, self.books
        self._events = _Store(state / EVENTS, EVENTS_MAX, EVENT_SLOT_BYTES, books)
        self._readings = _Store(
            state / HISTORY, READINGS_MAX, READING_SLOT_BYTES, books, LATELY_MAX
        )

    def happened(self, event: EventStatus) -> None:
        self._write(self._events, event_to_bytes(event))

    def saw(self, snapshot: Snapshot) -> None:
        """Write a reading of the snapshot to disk, if ten seconds have passed since the last one.

        If the clock was set back, one is written at once.
        """
        if 0 <= snapshot.at - self.read_at < READING_EVERY_S or not snapshot.nodes:
            return
        self.read_at = snapshot.at
        self._write(self._readings, reading_to_bytes(reading_of(snapshot)))

    def lately(self, since: float, until: float, most: int) -> tuple[HistoryReading, ...]:
        """Return the readings of a time within the last hour, at most `most`, from memory.

        Any thread may call this.
        """
        texts = [one for one in self._readings.newest if since <= _moment(one) <= until]
        return _parsed(texts, most)

    def _write(self, store: _Store, text: bytes) -> None:
        self.books.keep(store.path, lambda: store.append(text))


class HistoryNodeDocument(TypedDict):
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


class HistorySchemeDocument(TypedDict):
    """A scheme at one moment."""

    scheme: str
    applied_bytes_total: int
    """What it has moved in all; only grows."""


class HistoryReadingDocument(TypedDict):
    """The machine at one moment."""

    at: float
    state: str
    kdamond_cpu_seconds_total: float
    """Of all kdamonds, since the counters began; only grows."""
    nodes: list[HistoryNodeDocument]
    schemes: list[HistorySchemeDocument]


def documents(readings: Iterable[HistoryReading]) -> Iterator[HistoryReadingDocument]:
    """Return readings as JSON values with named fields."""
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
