"""damo reads our JSON, and writes the same files from it as we do.

damo runs in its own process, on a copy of the tree in a temporary directory. It never reads the
machine.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tierd import policy
from tierd.configuration.config import CgroupClass, CgroupMode, Config, Mode
from tierd.machine import discovery, features
from tierd.machine.cgroups import Cgroups
from tierd.machine.features import KDAMONDS
from tierd.plans import damo_format
from tierd.plans.changes import is_count
from tierd.plans.damon import scheme_dir
from tierd.plans.plan import Direction, Plan
from tierd.sim import machine_model
from tierd.sim.sim_kernel import SimKernel

SERIES = ("6.12", "6.16", "6.18", "7.2", "7.3")
MACHINES = ("two-tier", "three-tier", "two-socket")

# A wrong value for numbers, words and switches, which damo has to replace.
WRONG = "1"

WRITE = """
import json, sys
import _damon, _damon_sysfs
document = json.load(open(sys.argv[1]))
kdamonds = [_damon.Kdamond.from_kvpairs(one) for one in document["kdamonds"]]
error = _damon_sysfs.write_kdamonds_dir(sys.argv[2], kdamonds)
sys.exit(error)
"""

# What damo does not write: `state` is another step, and it does not change it here.
NOT_DAMOS = ("/state",)


def made(series: str, name: str, config: Config) -> tuple[SimKernel, Plan]:
    kernel = SimKernel(series, machine_model.load(name), block_pages=512)
    capabilities = features.probe(kernel)
    plan = policy.plan(
        discovery.survey(kernel, None),
        capabilities,
        config,
        cgroups=Cgroups({"/": 0, "/a": 0, "/b": 0}),
    )
    return kernel, plan


def damo_writes(kernel: SimKernel, plan: Plan, folder: Path) -> dict[str, str]:
    """Return our writes as damo leaves the files after `damo start` with our JSON."""
    listed = [write for write in plan.writes if not write.path.endswith(NOT_DAMOS)]
    for write in listed:
        kernel.write(write.path, write.value)
    for write in listed:
        if write.path.endswith("/allow") and write.value == "Y":
            kernel.write(write.path, "N")
    for path in kernel.files(KDAMONDS):
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        counts = is_count(f"/{path}") or path.endswith(("nr_probes", "nr_dests"))
        # damo relies on the default of a new filter's `allow`, and does not write counts that are
        # right.
        kept = counts or path.endswith("/allow")
        file.write_text(kernel.read(f"{KDAMONDS}/{path}") if kept else WRONG)
    asked = folder / "plan.json"
    asked.write_text(json.dumps(damo_format.document(plan)))
    done = subprocess.run(
        [sys.executable, "-c", WRITE, str(asked), str(folder)],
        env={**os.environ, "HOME": str(folder), "PYTHONPATH": str(damo_folder())},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return {
        write.path: (folder / write.path.removeprefix(KDAMONDS + "/")).read_text().strip()
        for write in listed
    }


def damo_folder() -> Path:
    found = pytest.importorskip("damo")
    return Path(found.__path__[0])


@pytest.mark.parametrize("series", SERIES)
@pytest.mark.parametrize("name", MACHINES)
def test_damo_writes_what_we_write(series: str, name: str, tmp_path: Path) -> None:
    kernel, plan = made(series, name, Config(cold_age_ms_min=500))
    places = [(one.kdamond, one.scheme) for one in plan.sensors]
    places += [
        (one.kdamond, one.scheme) for one in plan.of_regions if one.direction is Direction.evict
    ]
    aside = {f"{scheme_dir(*place)}/target_nid" for place in places}
    assert without(damo_writes(kernel, plan, tmp_path), aside) == without(listed(plan), aside)


def listed(plan: Plan) -> dict[str, str]:
    return {w.path: w.value for w in plan.writes if not w.path.endswith(NOT_DAMOS)}


def without(files: dict[str, str], aside: set[str]) -> dict[str, str]:
    """Return the files without the targets of schemes that have none: damo does not write them."""
    assert aside < set(files)
    return {path: value for path, value in files.items() if path not in aside}


def test_damo_knows_cgroups_and_observing(tmp_path: Path) -> None:
    classes = (CgroupClass("a", CgroupMode.include, ("/a", "/b")),)
    kernel, plan = made("7.3", "two-tier", Config(mode=Mode.observe, cgroups=classes))
    aside = {path for path in listed(plan) if path.endswith("/target_nid")}
    assert without(damo_writes(kernel, plan, tmp_path), aside) == without(listed(plan), aside)


def test_the_document_is_json_of_plain_values() -> None:
    _, plan = made("7.3", "three-tier", Config())
    document = damo_format.document(plan)
    assert json.loads(json.dumps(document)) == document
