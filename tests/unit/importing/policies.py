"""Makes policies for the tests, as Python values that can be changed and written as a file."""

import copy
import json
from typing import Any

from tierd.importing import imported
from tierd.importing.imported import Document
from tierd.importing.remarks import Remark

Json = Any

UP = "--damos_action migrate_hot 0"
DOWN = "--damos_action migrate_cold 1"

# As damo writes it, with the parts that a test may want to change.
SCHEME: Json = {
    "action": "migrate_cold",
    "dests": [],
    "target_nid": 1,
    "access_pattern": {
        "sz_bytes": {"min": "4.000 KiB", "max": "max"},
        "nr_accesses": {"min": "0 %", "max": "0 %"},
        "age": {"min": "0 ns", "max": "max"},
    },
    "apply_interval_us": "1 s",
    "quotas": {
        "time_ms": "0 ns",
        "sz_bytes": "100.000 MiB",
        "reset_interval_ms": "1 s",
        "goals": [
            {
                "metric": "node_mem_free_bp",
                "nid": "0",
                "target_value": "100",
                "current_value": "0",
            }
        ],
        "weights": {"sz_permil": "0 %", "nr_accesses_permil": "0.1 %", "age_permil": "0.1 %"},
    },
    "watermarks": {
        "metric": "none",
        "interval_us": "0 ns",
        "high_permil": "0 %",
        "mid_permil": "0 %",
        "low_permil": "0 %",
    },
    "filters": [{"filter_type": "young", "matching": True, "allow": False}],
}
CONTEXT: Json = {
    "ops": "paddr",
    "targets": [{"pid": None, "regions": [{"start": "4,294,967,296", "end": "8,589,934,592"}]}],
    "intervals": {
        "sample_us": "5 ms",
        "aggr_us": "100 ms",
        "ops_update_us": "1 s",
        "intervals_goal": {
            "access_bp": "4 %",
            "aggrs": "3",
            "min_sample_us": "5 ms",
            "max_sample_us": "10 s",
        },
    },
    "nr_regions": {"min": "10", "max": "1,000"},
    "schemes": [SCHEME],
}

Path = tuple[str | int, ...]


def down() -> Json:
    """Return a context that demotes from node 0 to node 1."""
    return copy.deepcopy(CONTEXT)


def up() -> Json:
    """Return a context that promotes from node 1 to node 0."""
    made = copy.deepcopy(CONTEXT)
    scheme = made["schemes"][0]
    scheme |= {"action": "migrate_hot", "target_nid": 0}
    scheme["access_pattern"]["nr_accesses"] = {"min": "5 %", "max": "max"}
    scheme["quotas"]["goals"][0] |= {"metric": "node_mem_used_bp", "target_value": "9,950"}
    scheme["filters"] = [{"filter_type": "young", "matching": True, "allow": True}]
    return made


def changed(context: Json, path: Path, value: Json) -> Json:
    """Return the context with another value at a path."""
    made = copy.deepcopy(context)
    inner = made
    for part in path[:-1]:
        inner = inner[part]
    inner[path[-1]] = value
    return made


def scheme_changed(context: Json, path: Path, value: Json) -> Json:
    """Return the context with another value at a path in its first scheme."""
    return changed(context, ("schemes", 0, *path), value)


def without_goal(context: Json, target: int) -> Json:
    made = scheme_changed(context, ("quotas", "goals"), [])
    return scheme_changed(made, ("target_nid",), target)


def text(*contexts: Json) -> str:
    """Return a file of damo with a kdamond for each context."""
    return json.dumps({"kdamonds": [{"contexts": [one]} for one in contexts]}, indent=4)


def of(*contexts: Json) -> Document:
    return imported.read("p.json", text(*contexts))


def of_command(options: str) -> Document:
    return imported.read("p", f"damo start {options}")


def values(document: Document) -> dict[str, str]:
    """Return the settings of the configuration by name, as text."""
    found, group = {}, ""
    for line in document.config.splitlines():
        key, _, value = line.strip().partition(": ")
        if line.endswith(":"):
            group = line[:-1]
        else:
            found[f"{group}.{key}" if line.startswith(" ") else key] = value
    return found


def told(document: Document, words: str) -> Remark:
    """Return the only remark with these words, in what was given or in the text."""
    found = [one for one in document.remarks if words in one.text or words in ", ".join(one.given)]
    assert len(found) == 1, [(one.kind, one.given, one.text) for one in found or document.remarks]
    return found[0]
