"""DAMON's sysfs directory: what is staged there, before any command looks at it.

The files come from a recorded listing of a real kernel. A directory's nr_* file makes and deletes
the numbered objects beside it, and what is written to any other file is checked as its store
function does: the form at once, the meaning only by a command.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from errno import EINVAL, ENOMEM

from tierd.sim import kstrto
from tierd.sim.lock import Lock
from tierd.sim.tree import ROOT_READ_ONLY, ROOT_READ_WRITE, Directory, Refused

Value = str | int | bool

# The largest array of pointers that kmalloc() gives on x86-64: 4 MiB.
_OBJECTS_MAX = 2**19

# A kdamond's own, put beside what is staged by commands.py.
_LIVE = {"state", "pid"}
_COUNTERS = {
    "nr_kdamonds",
    "nr_contexts",
    "nr_targets",
    "nr_regions",
    "nr_schemes",
    "nr_filters",
    "nr_goals",
    "nr_dests",
    "nr_probes",
}
# The kernel's own limits: one context for each kdamond, DAMON_MAX_PROBES.
_COUNTS_MAX = {"nr_contexts": 1, "nr_probes": 4}

# Objects that the recorded listings have none of.
_UNRECORDED: dict[str, Mapping[str, str]] = {
    "regions": {"start": "0", "end": "0"},
    "probe filters": {"type": "anon", "matching": "N", "allow": "N", "path": ""},
}

_INTEGERS = {"pid_target", "nid", "target_nid", "damon_target_idx"}
_UNSIGNED = {
    "refresh_ms",
    "sz_permil",
    "nr_accesses_permil",
    "age_permil",
    "fail_charge_num",
    "fail_charge_denom",
    "id",
    "weight",
}
_BOOLEANS = {"matching", "allow", "pause", "obsolete_target"}
_PATHS = {"memcg_path", "path"}
_WORDS = {"type", "operations", "action", "target_metric", "goal_tuner", "metric"}
# Their store functions answer EINVAL whatever kstrto*() said.
_FLAT_ERRORS = {
    "ms",
    "bytes",
    "reset_interval_ms",
    "fail_charge_num",
    "fail_charge_denom",
    "pid_target",
}
_READ_ONLY_FOLDERS = {"stats", "tried_regions"}
_READ_ONLY = {"avail_operations", "effective_bytes"}

# damos_filter_for_ops(): what the core handles itself, and what needs the page.
CORE_FILTERS = ("addr", "target")


@dataclass(frozen=True, slots=True)
class Kind:
    """How an attribute is read, written and guarded."""

    parse: Callable[[str], Value] | None
    locked: bool = False


@dataclass(frozen=True, slots=True)
class Template:
    """What a directory holds when it is made."""

    files: tuple[tuple[str, Kind, Value], ...]
    folders: tuple[tuple[str, "Template"], ...]
    counter: str | None
    child: "Template | None"


@dataclass(frozen=True, slots=True)
class Keywords:
    """The words that this kernel knows, and how it takes booleans and paths."""

    operations: Sequence[str]
    actions: Sequence[str]
    metrics: Sequence[str]
    tuners: Sequence[str]
    filters: Sequence[str]
    probe_filters: Sequence[str]
    watermarks: Sequence[str]
    boolean: Callable[[str], bool]
    locks_paths: bool


class Attribute:
    """A staged value."""

    __slots__ = ("kind", "lock", "value")

    def __init__(self, kind: Kind, value: Value, lock: Lock) -> None:
        self.kind = kind
        self.value = value
        self.lock = lock

    @property
    def mode(self) -> int:
        return ROOT_READ_ONLY if self.kind.parse is None else ROOT_READ_WRITE

    def read(self) -> str:
        if self.kind.locked:
            self.lock.require()
        value = self.value
        if isinstance(value, bool):
            return "Y" if value else "N"
        return str(value)

    def write(self, text: str) -> None:
        if self.kind.parse is None:
            raise ValueError("a read-only attribute is refused when it is opened")
        value = self.kind.parse(text)
        if self.kind.locked:
            self.lock.require()
        self.value = value


class Counter:
    """An nr_* file: any write deletes every numbered object beside it and makes new ones."""

    __slots__ = ("_child", "_folder", "_lock", "_max", "nr")

    mode = ROOT_READ_WRITE

    def __init__(
        self, folder: Directory, child: Template, lock: Lock, most: int | None = None
    ) -> None:
        self._folder = folder
        self._child = child
        self._lock = lock
        self._max = most
        self.nr = 0

    def read(self) -> str:
        return str(self.nr)

    def write(self, text: str) -> None:
        nr = count(text, self._max)
        self._lock.require()
        clear_numbered(self._folder)
        self.nr = 0
        if nr > _OBJECTS_MAX:
            raise Refused(ENOMEM)
        for index in range(nr):
            self._folder.entries[str(index)] = create(self._child, self._lock)
        self.nr = nr


def count(text: str, most: int | None = None) -> int:
    """The number written to an nr_* file."""
    nr = kstrto.integer(text)
    if nr < 0 or (most is not None and nr > most):
        raise Refused(EINVAL)
    return nr


def clear_numbered(folder: Directory) -> None:
    """Delete the objects of a directory, not its other files."""
    for name in [name for name in folder.entries if name.isdigit()]:
        del folder.entries[name]


def create(template: Template, lock: Lock) -> Directory:
    """A new directory after a template."""
    folder = Directory()
    for name, kind, value in template.files:
        folder.entries[name] = Attribute(kind, value, lock)
    for name, inner in template.folders:
        folder.entries[name] = create(inner, lock)
    if template.counter and template.child:
        folder.entries[template.counter] = Counter(
            folder, template.child, lock, _COUNTS_MAX.get(template.counter)
        )
    return folder


def number(folder: Directory, path: str) -> int:
    """A staged number."""
    return int(staged(folder, path))


def staged(folder: Directory, path: str, default: Value | None = None) -> Value:
    """A staged value; `default` where this kernel lacks the file."""
    try:
        entry = folder.find(path)
    except Refused:
        if default is None:
            raise
        return default
    if not isinstance(entry, Attribute):
        raise ValueError(f"{path} holds no staged value")
    return entry.value


def assign(folder: Directory, path: str, value: Value) -> None:
    """Set a value from inside the kernel; nothing happens where this kernel lacks the file."""
    folder_path, _, name = path.rpartition("/")
    entry = folder.directory(folder_path).entries.get(name)
    if isinstance(entry, Attribute):
        entry.value = value


def objects(folder: Directory) -> list[Directory]:
    """The numbered objects of a directory, in their order."""
    numbered = {int(name): entry for name, entry in folder.entries.items() if name.isdigit()}
    return [entry for _, entry in sorted(numbered.items()) if isinstance(entry, Directory)]


def parse_listing(text: str) -> dict[str, str]:
    """A recorded listing, one "path = value" on a line, as paths and values."""
    pairs = (line.partition(" =") for line in text.splitlines())
    return {path: value.strip() for path, _, value in pairs}


def template(listing: Mapping[str, str], keywords: Keywords) -> Template:
    """The template of kdamonds/, from a listing with one of each object."""
    root: dict[str, object] = {}
    for path, value in listing.items():
        folder = root
        *folders, name = path.split("/")
        for part in folders:
            inner = folder.setdefault(part, {})
            if not isinstance(inner, dict):
                raise ValueError(path)
            folder = inner
        folder[name] = value
    return _template((), root, keywords)


def _template(where: tuple[str, ...], raw: Mapping[str, object], keywords: Keywords) -> Template:
    files: list[tuple[str, Kind, Value]] = []
    folders: list[tuple[str, Template]] = []
    counter: str | None = None
    child: Template | None = None
    for name, value in raw.items():
        if isinstance(value, dict):
            inner = _template((*where, name), value, keywords)
            if name == "0":
                child = inner
            else:
                folders.append((name, inner))
        elif name in _COUNTERS:
            counter = name
        elif name not in _LIVE:
            kind = _kind(where, name, keywords)
            files.append((name, kind, _initial(kind, name, str(value))))
    if counter and child is None:
        what = "probe filters" if "probes" in where else where[-1]
        child = _template((*where, "0"), _UNRECORDED[what], keywords)
    return Template(tuple(files), tuple(folders), counter, child)


def _initial(kind: Kind, name: str, text: str) -> Value:
    if kind.parse is None:
        return text.replace(" ", "\n")
    return text if name in _PATHS | _WORDS else kind.parse(text)


def _kind(where: tuple[str, ...], name: str, keywords: Keywords) -> Kind:
    inside = where[-1] if where else ""
    if name in _READ_ONLY or (inside in _READ_ONLY_FOLDERS and name != "max_nr_snapshots"):
        return Kind(None)
    if name in _PATHS:
        return Kind(str, locked=keywords.locks_paths)
    words = _words(where, name, keywords)
    if words is not None:
        return Kind(lambda text: kstrto.keyword(text, words))
    if name == "addr_unit":
        return Kind(_addr_unit)
    parse: Callable[[str], Value] = kstrto.ulong
    if name in _INTEGERS:
        parse = kstrto.integer
    elif name in _UNSIGNED:
        parse = kstrto.uint
    elif name in _BOOLEANS:
        parse = keywords.boolean
    return Kind(_flat(parse) if name in _FLAT_ERRORS else parse)


def _words(where: tuple[str, ...], name: str, keywords: Keywords) -> Sequence[str] | None:
    if name == "type":
        return _filter_words(where, keywords)
    return {
        "operations": keywords.operations,
        "action": keywords.actions,
        "target_metric": keywords.metrics,
        "goal_tuner": keywords.tuners,
        "metric": keywords.watermarks,
    }.get(name)


def _filter_words(where: tuple[str, ...], keywords: Keywords) -> Sequence[str]:
    """damos_sysfs_scheme_filter_valid_type(): the wrong directory for a type is refused."""
    if "probes" in where:
        return keywords.probe_filters
    if "core_filters" in where:
        return [word for word in keywords.filters if word in CORE_FILTERS]
    if "ops_filters" in where:
        return [word for word in keywords.filters if word not in CORE_FILTERS]
    return keywords.filters


def _flat(parse: Callable[[str], Value]) -> Callable[[str], Value]:
    def flat(text: str) -> Value:
        try:
            return parse(text)
        except Refused as refused:
            raise Refused(EINVAL) from refused

    return flat


def _addr_unit(text: str) -> int:
    unit = kstrto.ulong(text)
    if unit == 0:
        raise Refused(EINVAL)
    return unit
