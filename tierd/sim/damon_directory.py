"""DAMON's sysfs directory: the values that are staged there until a command reads them.

The list of files was recorded from a real kernel. An nr_* file creates and deletes the numbered
directories beside it. A write to any other file is checked as the kernel's store function checks
it: the format of the value at once, its meaning only when a command uses it.
"""

from collections.abc import Callable, Mapping, Sequence
from errno import EINVAL, ENOMEM

from tierd.frozen import dataclass
from tierd.sim import kstrto
from tierd.sim.damon_lock import DamonLock
from tierd.sim.file_tree import ROOT_READ_ONLY, ROOT_READ_WRITE, Directory, Refused

Value = str | int | bool

# kmalloc() allocates at most 4 MiB on x86-64, which is an array of this many pointers.
_OBJECTS_MAX = 2**19

# Files of a kdamond that state_commands.py adds: they are not staged values.
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
# The kernel's limits: one context for each kdamond, and DAMON_MAX_PROBES.
_COUNTS_MAX = {"nr_contexts": 1, "nr_probes": 4}

# Objects that the recorded listings do not contain.
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
# The store functions of these files return EINVAL for every error of kstrto*().
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

# damos_filter_for_ops(): the core handles these filter types; all others need the page.
CORE_FILTERS = ("addr", "target")


@dataclass(frozen=True, slots=True)
class AttributeType:
    """How the text of an attribute is parsed, and whether DAMON's lock guards it."""

    parse: Callable[[str], Value] | None
    locked: bool = False


@dataclass(frozen=True, slots=True)
class DirectoryTemplate:
    """The content of a new directory."""

    files: tuple[tuple[str, AttributeType, Value], ...]
    folders: tuple[tuple[str, "DirectoryTemplate"], ...]
    counter: str | None
    child: "DirectoryTemplate | None"


@dataclass(frozen=True, slots=True)
class Keywords:
    """The keywords that this kernel knows, and how it reads booleans and paths."""

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
    """A file with a staged value."""

    __slots__ = ("attribute_type", "lock", "value")

    def __init__(self, attribute_type: AttributeType, value: Value, lock: DamonLock) -> None:
        self.attribute_type = attribute_type
        self.value = value
        self.lock = lock

    @property
    def mode(self) -> int:
        return ROOT_READ_ONLY if self.attribute_type.parse is None else ROOT_READ_WRITE

    def read(self) -> str:
        if self.attribute_type.locked:
            self.lock.require()
        value = self.value
        if isinstance(value, bool):
            return "Y" if value else "N"
        return str(value)

    def write(self, text: str) -> None:
        if self.attribute_type.parse is None:
            raise ValueError("a read-only attribute is refused when it is opened")
        value = self.attribute_type.parse(text)
        if self.attribute_type.locked:
            self.lock.require()
        self.value = value


class ObjectCount:
    """An nr_* file: a write deletes all numbered objects beside it and creates new ones."""

    __slots__ = ("_child", "_folder", "_lock", "_max", "nr")

    mode = ROOT_READ_WRITE

    def __init__(
        self, folder: Directory, child: DirectoryTemplate, lock: DamonLock, most: int | None = None
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
    """Return the number that was written to an nr_* file."""
    nr = kstrto.integer(text)
    if nr < 0 or (most is not None and nr > most):
        raise Refused(EINVAL)
    return nr


def clear_numbered(folder: Directory) -> None:
    """Delete the numbered objects of a directory, but not its other files."""
    for name in [name for name in folder.entries if name.isdigit()]:
        del folder.entries[name]


def create(template: DirectoryTemplate, lock: DamonLock) -> Directory:
    """Return a new directory made from a template."""
    folder = Directory()
    for name, attribute_type, value in template.files:
        folder.entries[name] = Attribute(attribute_type, value, lock)
    for name, inner in template.folders:
        folder.entries[name] = create(inner, lock)
    if template.counter and template.child:
        folder.entries[template.counter] = ObjectCount(
            folder, template.child, lock, _COUNTS_MAX.get(template.counter)
        )
    return folder


def number(folder: Directory, path: str) -> int:
    """Return a staged number."""
    return int(staged(folder, path))


def staged(folder: Directory, path: str, default: Value | None = None) -> Value:
    """Return a staged value, or `default` if this kernel does not have the file."""
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
    """Set a value from inside the kernel. Do nothing if this kernel does not have the file."""
    folder_path, _, name = path.rpartition("/")
    entry = folder.directory(folder_path).entries.get(name)
    if isinstance(entry, Attribute):
        entry.value = value


def objects(folder: Directory) -> list[Directory]:
    """Return the numbered objects of a directory, in order."""
    numbered = {int(name): entry for name, entry in folder.entries.items() if name.isdigit()}
    return [entry for _, entry in sorted(numbered.items()) if isinstance(entry, Directory)]


def parse_listing(text: str) -> dict[str, str]:
    """Parse a recorded listing with one "path = value" on each line."""
    pairs = (line.partition(" =") for line in text.splitlines())
    return {path: value.strip() for path, _, value in pairs}


def template(listing: Mapping[str, str], keywords: Keywords) -> DirectoryTemplate:
    """Return the template of kdamonds/ from a listing that has one of each object."""
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


def _template(
    where: tuple[str, ...], raw: Mapping[str, object], keywords: Keywords
) -> DirectoryTemplate:
    files: list[tuple[str, AttributeType, Value]] = []
    folders: list[tuple[str, DirectoryTemplate]] = []
    counter: str | None = None
    child: DirectoryTemplate | None = None
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
            attribute_type = _attribute_type(where, name, keywords)
            files.append((name, attribute_type, _initial(attribute_type, name, str(value))))
    if counter and child is None:
        what = "probe filters" if "probes" in where else where[-1]
        child = _template((*where, "0"), _UNRECORDED[what], keywords)
    return DirectoryTemplate(tuple(files), tuple(folders), counter, child)


def _initial(attribute_type: AttributeType, name: str, text: str) -> Value:
    if attribute_type.parse is None:
        return text.replace(" ", "\n")
    return text if name in _PATHS | _WORDS else attribute_type.parse(text)


def _attribute_type(where: tuple[str, ...], name: str, keywords: Keywords) -> AttributeType:
    inside = where[-1] if where else ""
    if name in _READ_ONLY or (inside in _READ_ONLY_FOLDERS and name != "max_nr_snapshots"):
        return AttributeType(None)
    if name in _PATHS:
        return AttributeType(str, locked=keywords.locks_paths)
    words = _words(where, name, keywords)
    if words is not None:
        return AttributeType(lambda text: kstrto.keyword(text, words))
    if name == "addr_unit":
        return AttributeType(_addr_unit)
    parse: Callable[[str], Value] = kstrto.ulong
    if name in _INTEGERS:
        parse = kstrto.integer
    elif name in _UNSIGNED:
        parse = kstrto.uint
    elif name in _BOOLEANS:
        parse = keywords.boolean
    return AttributeType(_flat(parse) if name in _FLAT_ERRORS else parse)


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
    """Return the filter types that a directory takes (damos_sysfs_scheme_filter_valid_type())."""
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
