"""Capture what the simulated kernel must know about this kernel (tierd/sim/series/files-*.json).

    capture_series.py

Run it as root inside a virtual machine that the project booted. It refuses to run anywhere else,
because it makes a kdamond and writes words to its files to see which words the kernel knows. It
never starts the kdamond. The result goes to standard output: names and formats, but no figures of
the machine.
"""

import json
import re
import sys
from pathlib import Path

from tierd.machine import btf
from tierd.machine.features import KDAMONDS
from tierd.sysfs import RealSysfs, SysfsError

MARK = "tierd.vm=1"
ROOT = Path("/")
SYSFS = RealSysfs(ROOT)
CONTEXT = f"{KDAMONDS}/0/contexts/0"
SCHEME = f"{CONTEXT}/schemes/0"

# All words that kernels up to 7.3 know. The result has those that this kernel accepts.
WORDS = {
    "operations": (f"{CONTEXT}/operations", "vaddr fvaddr paddr"),
    "actions": (
        f"{SCHEME}/action",
        "willneed cold pageout hugepage nohugepage collapse lru_prio lru_deprio migrate_hot "
        "migrate_cold stat",
    ),
    "metrics": (
        f"{SCHEME}/quotas/goals/0/target_metric",
        "user_input some_mem_psi_us node_mem_used_bp node_mem_free_bp node_memcg_used_bp "
        "node_memcg_free_bp active_mem_bp inactive_mem_bp node_eligible_mem_bp",
    ),
    "tuners": (f"{SCHEME}/quotas/goal_tuner", "consist temporal"),
    "filters": (
        f"{SCHEME}/filters/0/type",
        "anon active memcg young hugepage_size unmapped addr target",
    ),
    "probe_filters": (f"{CONTEXT}/monitoring_attrs/probes/0/filters/0/type", "anon memcg"),
    "watermarks": (f"{SCHEME}/watermarks/metric", "none free_mem_rate"),
}
COUNTS = (
    "nr_kdamonds",
    "0/contexts/nr_contexts",
    "0/contexts/0/schemes/nr_schemes",
    "0/contexts/0/schemes/0/filters/nr_filters",
    "0/contexts/0/schemes/0/quotas/goals/nr_goals",
    "0/contexts/0/monitoring_attrs/probes/nr_probes",
    "0/contexts/0/monitoring_attrs/probes/0/filters/nr_filters",
)
# Members of a nameless struct inside struct damos. They can only be found by their own names.
NAMELESS = ("migrate_dests", "target_nid")
# Values that depend on this machine, replaced by those of a machine on which no module has run, and
# which has enough memory.
AT_REST = {
    "enabled": "N",
    "kdamond_pid": "-1",
    "memory_idle_ms_percentiles": ",".join(["0"] * 101),
    "aggr_interval_us": "0",
    "estimated_memory_bandwidth": "0",
    "user_reserve_kbytes": "131072",
    "min_free_kbytes": "67584",
}


def main() -> None:
    if MARK not in (ROOT / "proc/cmdline").read_text().split():
        raise SystemExit(f"this machine was not booted with {MARK} on its kernel command line")
    series = {
        "release": SYSFS.read("proc/sys/kernel/osrelease"),
        "words": words(),
        "modules": modules(),
        "modules_on": [
            path.parts[3]
            for path in sorted(ROOT.glob("sys/module/damon_*/parameters/enabled"))
            if path.read_text().strip() == "Y"
        ],
        "vmstat": names("proc/vmstat"),
        "node_vmstat": names("sys/devices/system/node/node0/vmstat"),
        "meminfo": meminfo("proc/meminfo", ""),
        "node_meminfo": meminfo("sys/devices/system/node/node0/meminfo", "Node 0 "),
        "zoneinfo": zoneinfo(),
        "sysctl_vm": parameters(ROOT / "proc/sys/vm"),
        "lru_gen": SYSFS.read("sys/kernel/mm/lru_gen/enabled"),
        "btf": types(),
    }
    sys.stdout.write(json.dumps(series, indent=1, sort_keys=True) + "\n")


def words() -> dict[str, list[str]]:
    if SYSFS.read(f"{KDAMONDS}/nr_kdamonds") != "0":
        raise SystemExit("there are kdamonds already, and writing nr_kdamonds would remove them")
    for path in COUNTS:
        if SYSFS.exists(f"{KDAMONDS}/{path}"):
            SYSFS.write(f"{KDAMONDS}/{path}", "1")
    found = {
        name: [word for word in known.split() if takes(path, word)]
        for name, (path, known) in WORDS.items()
    }
    SYSFS.write(f"{KDAMONDS}/nr_kdamonds", "0")
    return found


def takes(path: str, word: str) -> bool:
    if not SYSFS.exists(path):
        return False
    try:
        SYSFS.write(path, word)
    except SysfsError:
        return False
    return True


def modules() -> dict[str, object]:
    folders = sorted(ROOT.glob("sys/module/damon_*/parameters"))
    return {folder.parent.name: parameters(folder) for folder in folders}


def parameters(folder: Path) -> dict[str, tuple[str, str]]:
    """Return the mode and the text of each file. Text that cannot be read is None."""
    found = {}
    for path in sorted(folder.iterdir()):
        mode = path.stat().st_mode & 0o777
        text = path.read_text().removesuffix("\n") if mode & 0o400 else ""
        found[path.name] = (f"{mode:o}", AT_REST.get(path.name, text))
    return found


def names(path: str) -> list[str]:
    return [line.split()[0] for line in SYSFS.read(path).split("\n")]


def meminfo(path: str, prefix: str) -> list[tuple[str, int, int, str]]:
    """Return for each line its name, the spaces after it, the width of its figure, and the rest.

    The machine has to be small: its figures are shorter than the field, so the width can be seen.
    """
    found = []
    for line in SYSFS.read(path).split("\n"):
        match = re.fullmatch(r"([^:]+):( +)(\d+)( kB)?", line.removeprefix(prefix))
        if match is None:
            raise SystemExit(f"{path}: {line!r}")
        width = 8 if match[4] else 5
        padding = max(0, width - len(match[3]))
        found.append((match[1], len(match[2]) - padding, width, match[4] or ""))
    return found


def zoneinfo() -> dict[str, list[str]]:
    """Return the names of "per-node stats", those of a zone, and the lines of a CPU's page list."""
    text = SYSFS.read("proc/zoneinfo")
    node = re.search(r"per-node stats\n((?:      \w+ +\d+\n)+)", text)
    zone = re.search(r"protection: .*\n((?:      \w+ +\d+\n)+)", text)
    pageset = re.search(r"cpu: 0\n((?:              .*\n)+)", text)
    tail = re.search(r"(  node_unreclaimable:(?:.*\n)+?)Node", text)
    if not (node and zone and pageset and tail):
        raise SystemExit("/proc/zoneinfo: not in the form that this tool knows")
    return {
        "node": [line.split()[0] for line in node[1].splitlines()],
        "zone": [line.split()[0] for line in zone[1].splitlines()],
        "pageset": re.sub(r"\d+", "0", pageset[1]).splitlines(),
        "tail": re.sub(r"\d+", "0", tail[1]).splitlines(),
    }


def types() -> dict[str, object]:
    """Return DAMON's names and structs, which are a hundredth of all types."""
    found = btf.Btf.parse(SYSFS.read_bytes(btf.PATH))
    kept = [name for name in found.names() if name.lower().startswith(("damon", "damos"))]
    structs = {name: sorted(members) for name in kept if (members := found.members(name))}
    kept += [name for name in NAMELESS if found.has_name(name)]
    return {"names": sorted(set(kept) - set(structs)), "structs": structs}


if __name__ == "__main__":
    main()
