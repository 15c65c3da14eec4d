"""Capture this machine's memory files as one JSON text, for a fixture (tests/fixtures/machines).

    capture_machine.py MACHINE ABOUT

Run it as root inside a virtual machine that the project booted. It refuses to run anywhere else,
because it makes a kdamond to see which files DAMON has. It never starts the kdamond. The result
goes to standard output. It has only the files that tierd reads, and only DAMON's types.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tierd.machine import btf
from tierd.machine.features import KDAMONDS, probe_staged
from tierd.sysfs import RealSysfs

MARK = "tierd.vm=1"
ROOT = Path("/")

FILES = (
    "proc/iomem",
    "proc/pressure/memory",
    "proc/sys/kernel/numa_balancing",
    "proc/sys/kernel/osrelease",
    "proc/sys/vm/min_free_kbytes",
    "proc/sys/vm/watermark_scale_factor",
    "proc/sys/vm/zone_reclaim_mode",
    "proc/vmstat",
    "proc/zoneinfo",
    "sys/devices/system/memory/auto_online_blocks",
    "sys/devices/system/memory/block_size_bytes",
    "sys/devices/system/memory/memory*/state",
    "sys/devices/system/node/has_cpu",
    "sys/devices/system/node/has_memory",
    "sys/devices/system/node/online",
    "sys/devices/system/node/possible",
    "sys/devices/system/node/node*/access*/initiators/*",
    "sys/devices/system/node/node*/cpulist",
    "sys/devices/system/node/node*/distance",
    "sys/devices/system/node/node*/meminfo",
    "sys/devices/system/node/node*/vmstat",
    "sys/devices/virtual/memory_tiering/memory_tier*/nodelist",
    "sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds",
    "sys/kernel/mm/numa/demotion_enabled",
    "sys/module/damon_*/parameters/enabled",
    "sys/module/damon_*/parameters/kdamond_pid",
)
FOLDERS = (
    "sys/devices/system/node/node*/memory[0-9]*",
    "sys/devices/system/node/node*/access*/initiators/node*",
)


def main(machine: str, about: str) -> None:
    if MARK not in (ROOT / "proc/cmdline").read_text().split():
        raise SystemExit(f"this machine was not booted with {MARK} on its kernel command line")
    capture = {
        "about": about,
        "machine": machine,
        "kernel": (ROOT / "proc/sys/kernel/osrelease").read_text().strip(),
        "demotion_lines": demotion_lines(),
        "staged_features": staged_features(),
        "btf": types(),
        "folders": [relative(path) for path in matching(FOLDERS) if path.is_dir()],
        "files": {relative(p): p.read_text() for p in matching(FILES) if p.is_file()},
    }
    json.dump(capture, sys.stdout, indent=1, sort_keys=True)


def matching(patterns: tuple[str, ...]) -> Iterator[Path]:
    return (path for pattern in patterns for path in sorted(ROOT.glob(pattern)))


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def demotion_lines() -> list[str]:
    """Return the last line for each node. The kernel prints all lines again at each change."""
    text = subprocess.run(["dmesg"], check=True, capture_output=True, text=True).stdout
    last = {}
    for line in text.splitlines():
        _, found, said = line.partition("Demotion targets for Node ")
        if found:
            last[int(said.split(":")[0])] = f"{found}{said}"
    return [last[node] for node in sorted(last)]


def staged_features() -> list[str]:
    sysfs = RealSysfs(ROOT)
    if sysfs.read(f"{KDAMONDS}/nr_kdamonds") != "0":
        raise SystemExit("there are kdamonds already, and writing nr_kdamonds would remove them")
    scheme = f"{KDAMONDS}/0/contexts/0/schemes/0"
    sysfs.write(f"{KDAMONDS}/nr_kdamonds", "1")
    sysfs.write(f"{KDAMONDS}/0/contexts/nr_contexts", "1")
    sysfs.write(f"{KDAMONDS}/0/contexts/0/schemes/nr_schemes", "1")
    found = probe_staged(sysfs, scheme).features
    sysfs.write(f"{KDAMONDS}/nr_kdamonds", "0")
    return sorted(found)


def types() -> dict[str, object]:
    """Return DAMON's names and structs, which are a hundredth of all types."""
    found = btf.Btf.parse((ROOT / btf.PATH).read_bytes())
    names = [name for name in found.names() if name.lower().startswith(("damon", "damos"))]
    structs = {name: sorted(members) for name in names if (members := found.members(name))}
    return {"names": sorted(set(names) - set(structs)), "structs": structs}


if __name__ == "__main__":
    main(*sys.argv[1:])
