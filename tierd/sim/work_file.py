"""Work for `tierd simulate` that was not recorded: from a workload file, or one that ships."""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tierd.errors import ExitCode, TierdError
from tierd.profile.load import Heat, Load, Stretch, Work, ordered
from tierd.record import fields
from tierd.sim.zipf import store
from tierd.units import BP_MAX, format_size, parse_percent, parse_size

SCHEMA = "tierd.workload/1"

# What a file may ask for. More kinds of memory than this would not differ in a trial.
ENTRIES_MAX = 32
RATE_HZ_MAX = 1e6
SKEW_MAX = 4.0
ZIPF_CLASSES = 16

HINT = "docs/simulate.md has an example; `tierd simulate --builtin LIST` names those that ship"

GIB = 1 << 30


class NoWorkload(TierdError):
    """A text is no workload, or none of that name ships."""

    exit_code = ExitCode.usage


def parse(name: str, text: str) -> Work:
    """Return the work of a workload file."""
    try:
        raw = fields.document(text)
        if raw["schema"] != SCHEMA:
            raise ValueError(f"its schema is {raw['schema']!r}, expected {SCHEMA!r}")
        heats = [
            heat for entry in fields.rows(raw["memory"], ENTRIES_MAX) for heat in _heats(entry)
        ]
        drift = parse_percent(str(raw.get("drift_per_minute", "0%"))) / BP_MAX
        load = Load(ordered(heats), parse_size(str(raw.get("piece", "0B"))), drift_per_minute=drift)
    except (ValueError, KeyError, TypeError) as error:
        raise NoWorkload(f"{name}: not a workload: {error!r}", HINT) from error
    if not load.touches_hz:
        raise NoWorkload(f"{name}: none of its memory is touched", HINT)
    return _work(f"the workload {name}", load)


def _heats(entry: object) -> Iterator[Heat]:
    raw = fields.table(entry)
    size = parse_size(fields.name(raw["size"]))
    if not size:
        raise ValueError("memory of no size")
    rate = fields.seconds(raw["touches_per_s"])
    if rate > RATE_HZ_MAX:
        raise ValueError(f"expected at most {RATE_HZ_MAX:g} touches_per_s")
    if "zipf" not in raw:
        yield Heat(rate, size)
        return
    skew = fields.seconds(raw["zipf"])
    if not 0 < skew <= SKEW_MAX:
        raise ValueError(f"expected zipf above 0 and up to {SKEW_MAX:g}")
    yield from _zipf(size, skew, rate)


def _zipf(size: int, skew: float, mean_hz: float) -> Iterator[Heat]:
    made = store("z", size, skew=skew, mean_hz=mean_hz, classes=ZIPF_CLASSES)
    for page_set, part in made.sets:
        yield Heat(page_set.rate_hz, part)


def _work(about: str, load: Load) -> Work:
    shown = f"{about}: {format_size(round(load.bytes))} in use"
    return Work(shown, (Stretch(load, 1.0),))


def _hot_set() -> Load:
    return Load(ordered((Heat(20.0, 8 * GIB), Heat(0.002, 56 * GIB))), 16 << 20)


def _zipf_store() -> Load:
    return Load(ordered(_zipf(64 * GIB, 0.99, 1.0)))


def _shifting() -> Load:
    return Load(
        ordered((Heat(20.0, 8 * GIB), Heat(0.002, 56 * GIB))), 1 << 20, drift_per_minute=0.02
    )


def _idle() -> Load:
    return Load(ordered((Heat(5.0, GIB // 2), Heat(0.001, 63 * GIB + GIB // 2))), 1 << 20)


BUILTIN: Mapping[str, tuple[str, Callable[[], Load]]] = {
    "hot-set": ("64 GiB, of which 8 GiB are hot and lie together", _hot_set),
    "zipf": ("a store of 64 GiB with zipf 0.99, scattered over its pages", _zipf_store),
    "shifting": ("as hot-set, but 2 % of the hot memory changes each minute", _shifting),
    "idle": ("64 GiB that are hardly touched", _idle),
}


def builtin(name: str) -> Work:
    """Return a work that ships."""
    if name not in BUILTIN:
        listed = "; ".join(f"{known}: {about}" for known, (about, _) in BUILTIN.items())
        raise NoWorkload(f"there is no workload {name!r}", f"there are {listed}")
    return _work(f"the workload {name}", BUILTIN[name][1]())


def schema_of(text: str) -> str:
    """Return the schema that the first line of a text names; empty if it names none."""
    for candidate in (text.partition("\n")[0], text):
        try:
            raw: Any = json.loads(candidate)
        except (ValueError, RecursionError):
            continue
        if isinstance(raw, dict) and isinstance(raw.get("schema"), str):
            return str(raw["schema"])
    return ""
