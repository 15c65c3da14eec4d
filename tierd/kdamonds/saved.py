"""The saved state, which must survive a crash: which kdamonds are ours, and what to put back.

It is written before each change, so that a restore is possible after a kill at any point. This
module only turns it into text and back; the daemon owns the file.

A restore writes these values as root. So only paths that tierd itself saves are accepted.
"""

import json
import re

from tierd.errors import TierdError
from tierd.frozen import dataclass, replace
from tierd.machine import interleave
from tierd.machine.features import KDAMONDS
from tierd.machine.neighbours import NUMA_BALANCING
from tierd.machine.numa_balancing import PROMOTE_RATE_LIMIT
from tierd.plans.damon import Write, Writes, fingerprint
from tierd.plans.knobs import DAMON_STAT_ENABLED, DEMOTION_ENABLED
from tierd.record import fields

SCHEMA = "tierd.saved/1"

# Former lists of writes that are kept. Each crash in the middle of a change adds one.
FORMER_MAX = 4

# The settings outside DAMON that a plan may change, besides the weight of each node.
_SWITCHES = {f"{interleave.FOLDER}/{name}" for name in interleave.AUTO_NAMES}
KNOBS = frozenset(
    {DAMON_STAT_ENABLED, DEMOTION_ENABLED, NUMA_BALANCING, PROMOTE_RATE_LIMIT, *_SWITCHES}
)
# The settings that tierd changes while it runs, between 0 and a most.
STEERED = frozenset({PROMOTE_RATE_LIMIT})

# The spellings of a boolean, as the kernel prints it and as it is written.
_TRUE = frozenset({"Y", "y", "1", "true", "on"})
_FALSE = frozenset({"N", "n", "0", "false", "off"})

_WEIGHT = re.compile(re.escape(interleave.FOLDER) + r"/node[0-9]{1,9}")

# Settings: the weights of as many nodes as Linux can have, and the others.
KNOBS_MAX = 1_024 + len(KNOBS)

_TREE = re.compile(re.escape(KDAMONDS) + r"(/[a-z0-9_]+){1,16}")
# The value of a setting, as Y, true or 1.
_SETTING = re.compile(r"[ -~]{0,64}")

# Writes: enough for 64 nodes with three schemes of 256 filters each, at five writes per filter.
WRITES_MAX = 1 << 18
# Characters of a value: PATH_MAX, since the path of a cgroup is the longest.
VALUE_CHARS_MAX = 4_096
PATH_CHARS_MAX = 256
KDAMONDS_MAX = 1_024


@dataclass(frozen=True, slots=True)
class SavedKnob:
    """A setting that we change: its path, its former value, and our value."""

    path: str
    before: str
    ours: str
    """The largest number, if tierd changes the setting while it runs."""

    def is_in(self, found: str) -> bool:
        """Return whether a file with this text holds our value."""
        return holds(self.path, self.ours, found)


def holds(path: str, ours: str, found: str) -> bool:
    """Return whether the text of a setting's file is the value that tierd has set.

    A number that tierd steers may be any up to ours.
    """
    if path in STEERED and found.isdecimal() and ours.isdecimal():
        return int(found) <= int(ours)
    return same_value(found, ours)


def same_value(left: str, right: str) -> bool:
    """True if two texts of a file mean the same value. Booleans have several spellings."""
    return left == right or {left, right} <= _TRUE or {left, right} <= _FALSE


@dataclass(frozen=True, slots=True)
class SavedState:
    """What the kernel holds under a plan that runs, or during a change that has begun."""

    boot_id: str
    """The boot in which this was written. After a reboot the kernel holds nothing of it."""
    writes: Writes
    """What DAMON's files hold, or are about to hold."""
    pids: tuple[int, ...] = ()
    """The pids of our kdamonds, by index; empty until they run."""
    knobs: tuple[SavedKnob, ...] = ()
    former: tuple[Writes, ...] = ()
    """What DAMON's files may still hold while a change is under way; else empty."""

    @property
    def fingerprint(self) -> str:
        return fingerprint(self.writes)

    @property
    def settled(self) -> bool:
        """True if the last change was completed."""
        return bool(self.pids) and not self.former


def to_text(saved: SavedState) -> str:
    assert all(_is_ours(knob.path) for knob in saved.knobs), "a restore would refuse these"
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
    """Return the state that `to_text` wrote. Any other text is refused."""
    try:
        raw = fields.document(text)
        if raw["schema"] != SCHEMA:
            raise TierdError(f"the saved state has schema {raw['schema']!r}, not {SCHEMA!r}", HINT)
        return SavedState(
            boot_id=fields.name(raw["boot_id"]),
            writes=_writes(raw["writes"]),
            pids=tuple(fields.pid(pid) for pid in fields.rows(raw["pids"], KDAMONDS_MAX)),
            knobs=tuple(_knob(entry) for entry in fields.rows(raw["knobs"], KNOBS_MAX)),
            former=tuple(_writes(entry) for entry in fields.rows(raw["former"], FORMER_MAX)),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise TierdError(f"the saved state is damaged: {error!r}", HINT) from error


HINT = (
    "if tierd does not run, remove the file; then `echo off > .../kdamonds/N/state` below "
    "/sys/kernel/mm/damon/admin stops a kdamond that is left"
)


def changing(saved: SavedState, writes: Writes, knobs: tuple[SavedKnob, ...]) -> SavedState:
    """Return the state to record before a change to `writes` begins."""
    held = dict.fromkeys((saved.writes, *saved.former))
    return replace(saved, writes=writes, knobs=knobs, former=tuple(held)[:FORMER_MAX])


def _pairs(writes: Writes) -> list[list[str]]:
    return [[write.path, write.value] for write in writes]


def _writes(raw: object) -> Writes:
    return tuple(_write(entry) for entry in fields.rows(raw, WRITES_MAX))


def _write(raw: object) -> Write:
    path, value = (_text(entry, VALUE_CHARS_MAX) for entry in fields.rows(raw, 2))
    if len(path) > PATH_CHARS_MAX or not _TREE.fullmatch(path):
        raise ValueError(f"{path!r} is not a file of DAMON's kdamonds")
    return Write(path, value)


def _is_ours(path: str) -> bool:
    return path in KNOBS or _WEIGHT.fullmatch(path) is not None


def _knob(raw: object) -> SavedKnob:
    path, before, ours = (_text(entry, PATH_CHARS_MAX) for entry in fields.rows(raw, 3))
    if not _is_ours(path):
        raise ValueError(f"{path!r} is not a setting that tierd changes")
    if not _SETTING.fullmatch(before) or not _SETTING.fullmatch(ours):
        raise ValueError(f"{before!r} and {ours!r} are not values of {path}")
    return SavedKnob(path, before, ours)


def _text(value: object, chars_max: int) -> str:
    """Return the value if it is text. The name of a cgroup may hold any bytes."""
    if not isinstance(value, str) or len(value) > chars_max:
        raise ValueError(f"expected text of at most {chars_max} characters")
    return value
