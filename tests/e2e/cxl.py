"""In a guest with a CXL type 3 device: its memory becomes a node, and tierd uses it.

Three steps of one guest, each a command: `appear` loads the drivers, makes a region as `cxl
create-region` does, and brings the memory online; `moves` runs tierd; `zone` brings the memory
online for the kernel, which is wrong. The doctor is asked wherever a setting is wrong.
"""

import ctypes
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.contract.sets import PAGE
from tests.e2e import inside
from tests.e2e.inside import MIB, note
from tests.vm.guard import require_guest

DRAM, DEVICE = 0, 1

# The names of the modules in the order in which they can be loaded, and the modules themselves.
MODULES = ("cxl_acpi", "cxl_pci", "cxl_mem", "device_dax", "dax_cxl", "kmem")
ORDER = Path("/job/modules")

CXL = Path("/sys/bus/cxl/devices")
BIND = Path("/sys/bus/cxl/drivers/cxl_region/bind")
DAX = Path("/sys/bus/dax/devices")
MEMORY = Path("/sys/devices/system/memory")
AUTO_ONLINE = MEMORY / "auto_online_blocks"
NODE = Path(f"/sys/devices/system/node/node{DEVICE}")

# So many bytes of addresses go to a device, and then so many to the next one. Here is only one.
GRANULARITY = "256"

# Each access to the device is emulated by a function of QEMU, so the set is small.
HOT_BYTES = 16 * MIB
HOT_HZ = 40.0
ARRIVED_SHARE = 0.9
ARRIVAL_S_MAX = 300.0

# finit_module on x86-64.
FINIT_MODULE = 313


def load(path: Path) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    fd = os.open(path, os.O_RDONLY)
    failed = libc.syscall(FINIT_MODULE, fd, b"", 0)
    os.close(fd)
    assert not failed, f"{path.name}: {os.strerror(ctypes.get_errno())}"


def one(pattern: str, wanted: Callable[[Path], bool]) -> Path:
    """Return the first object of the CXL bus of this kind, when it is there."""
    found: list[Path] = []

    def there() -> bool:
        found[:] = [path for path in sorted(CXL.glob(pattern)) if wanted(path)]
        return bool(found)

    inside.wait_for(f"{pattern} of the CXL bus", there)
    return found[0]


def region() -> dict[str, str]:
    """Make a region of all of the device's memory. Return the names of what it consists of."""
    root = one("decoder*", lambda path: (path / "create_ram_region").exists())
    endpoint = one("decoder*", lambda path: (path / "dpa_size").exists())
    device = one("mem*", lambda path: (path / "ram/size").exists())
    size = (device / "ram/size").read_text().strip()
    name = (root / "create_ram_region").read_text().strip()
    (root / "create_ram_region").write_text(name)
    made = CXL / name
    for path, value in (
        (endpoint / "mode", "ram"),
        (endpoint / "dpa_size", size),
        (made / "interleave_ways", "1"),
        (made / "interleave_granularity", GRANULARITY),
        (made / "size", size),
        (made / "target0", endpoint.name),
        (made / "commit", "1"),
    ):
        note(f"{path}: {value}")
        path.write_text(value)
    BIND.write_text(name)
    inside.wait_for("a dax device", lambda: any(DAX.glob("dax*")))
    dax = next(DAX.glob("dax*"))
    inside.wait_for("the driver kmem", lambda: (dax / "driver").exists())
    driver = (dax / "driver").resolve().name
    return {"root": root.name, "region": name, "dax": dax.name, "driver": driver}


def blocks() -> list[Path]:
    return sorted(NODE.glob("memory[0-9]*"), key=lambda path: int(path.name[6:]))


def switch(state: str) -> list[str]:
    """Bring all blocks of the device's node into a state. Return those that refused."""
    refused = []
    for block in blocks():
        try:
            (block / "state").write_text(state)
        except OSError as error:
            refused.append(f"{block.name}: {error}")
    return refused


def doctor() -> dict[str, str]:
    """Return what the doctor says of hotplug (TD021)."""
    checks = json.loads(inside.verb("doctor", "--json").stdout)["checks"]
    return next(check for check in checks if check["id"] == "TD021")


def appear() -> dict[str, Any]:
    for name in ORDER.read_text().split():
        load(Path(f"/job/{name}.ko"))
    facts: dict[str, Any] = {"objects": region()}
    note(f"{facts}")
    inside.wait_for("memory blocks", lambda: bool(blocks()))
    facts["blocks"] = len(blocks())
    facts["states"] = sorted({(block / "state").read_text().strip() for block in blocks()})
    facts["offline"] = doctor()
    refused = inside.verb("run")
    facts["run_while_offline"] = [refused.returncode, refused.stderr]
    AUTO_ONLINE.write_text("online")
    facts["refused"] = switch("online_movable")
    facts["auto_online"] = doctor()
    AUTO_ONLINE.write_text("online_movable")
    facts["movable"] = doctor()
    facts["tiers"] = inside.verb("tiers").stdout
    note(facts["tiers"])
    return facts


def moves() -> dict[str, Any]:
    sets = inside.begin()
    before = inside.neighbourhood()
    sets.place("hot", DEVICE, HOT_BYTES, only=True)
    facts: dict[str, Any] = {"placed": sets.where("hot")}
    sets.heat("hot", HOT_HZ)
    daemon = inside.started()
    began_s = time.monotonic()
    wanted = ARRIVED_SHARE * HOT_BYTES / PAGE
    inside.within(lambda: sets.where("hot").get(DRAM, 0) >= wanted, ARRIVAL_S_MAX)
    facts["arrived"] = sets.where("hot")
    note(f"{facts['arrived']} after {time.monotonic() - began_s:.0f} s")
    facts["status"] = inside.status()
    facts["exit"] = daemon.stop()
    sets.close()
    facts["unchanged"] = inside.neighbourhood() == before
    return facts


def zone() -> dict[str, Any]:
    refused = switch("offline")
    return {"refused": refused + switch("online_kernel"), "doctor": doctor()}


STEPS = {"appear": appear, "moves": moves, "zone": zone}


def main() -> int:
    require_guest()
    facts = STEPS[sys.argv[-1]]()
    inside.tell(facts)
    return 0


if __name__ == "__main__":
    sys.exit(main())
