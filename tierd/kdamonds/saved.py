"""What must survive tierd's death: which kdamonds are ours, and what to put back.

It is written before the first change and before each change after that, so that a kill at any
point leaves enough to restore. Text in, value out; the daemon owns the file.
"""

import json
from dataclasses import dataclass, replace

from tierd.errors import TierdError
from tierd.plans.damon import Write, Writes, fingerprint

SCHEMA = "tierd.saved/1"

# Only a crash in the middle of a change leaves more than one behind.
FORMER_MAX = 4


@dataclass(frozen=True, slots=True)
class SavedKnob:
    """A setting that we change: its path, what it was, and what we make it."""

    path: str
    before: str
    ours: str


@dataclass(frozen=True, slots=True)
class SavedState:
    """One moment of an applied plan, or of a change that has begun."""

    boot_id: str
    """After a reboot nothing of it is left in the kernel."""
    writes: Writes
    """What the kernel's tree holds, or is about to."""
    pids: tuple[int, ...] = ()
    """Of our kdamonds, in order; empty until they run."""
    knobs: tuple[SavedKnob, ...] = ()
    former: tuple[Writes, ...] = ()
    """What the tree may still hold while a change is under way; empty when none is."""

    @property
    def fingerprint(self) -> str:
        return fingerprint(self.writes)

    @property
    def settled(self) -> bool:
        """Whether the last change came to its end."""
        return bool(self.pids) and not self.former


def to_text(saved: SavedState) -> str:
    document = {
        "schema": SCHEMA,
        "boot_id": saved.boot_id,
        "writes": _pairs(saved.writes),
        "pids": saved.pids,
        "knobs": [[knob.path, knob.before, knob.ours] for knob in saved.knobs],
        "former": [_pairs(writes) for writes in saved.former],
    }
    return json.dumps(document, separators=(",", ":"))


def from_text(text: str) -> SavedState:
    """The state that `to_text` wrote; anything else is refused, not guessed at."""
    try:
        raw = json.loads(text)
        if raw["schema"] != SCHEMA:
            raise TierdError(f"the saved state has schema {raw['schema']!r}, not {SCHEMA!r}", HINT)
        return SavedState(
            boot_id=_text(raw["boot_id"]),
            writes=_writes(raw["writes"]),
            pids=tuple(int(pid) for pid in raw["pids"]),
            knobs=tuple(SavedKnob(*_texts(entry, 3)) for entry in raw["knobs"]),
            former=tuple(_writes(entry) for entry in raw["former"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise TierdError(f"the saved state is damaged: {error!r}", HINT) from error


HINT = (
    "remove it if nothing of tierd runs; DAMON's own state is below /sys/kernel/mm/damon/admin, "
    "and `echo off > .../kdamonds/N/state` stops a kdamond"
)


def changing(saved: SavedState, writes: Writes, knobs: tuple[SavedKnob, ...]) -> SavedState:
    """The state to record before the tree is made into `writes`."""
    held = dict.fromkeys((saved.writes, *saved.former))
    return replace(saved, writes=writes, knobs=knobs, former=tuple(held)[:FORMER_MAX])


def _pairs(writes: Writes) -> list[list[str]]:
    return [[write.path, write.value] for write in writes]


def _writes(raw: list[list[object]]) -> Writes:
    return tuple(Write(*_texts(entry, 2)) for entry in raw)


def _texts(raw: list[object], count: int) -> list[str]:
    texts = [_text(value) for value in raw]
    if len(texts) != count:
        raise ValueError(f"expected {count} texts, found {raw!r}")
    return texts


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected text, found {value!r}")
    return value
