"""The DaemonSet's pod under a real container runtime: it does its job, and may no more."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e import debian
from tests.e2e.boots import told
from tests.e2e.pod import ARRIVED_SHARE, HOT_BYTES, IMAGE
from tests.e2e.unit import PLACES
from tests.unit.shipped.test_deploy import FOLDER, built, with_damon_stat
from tests.vm.rootfs import NEWER_SUITE
from tierd.sim import machine_model

pytestmark = [pytest.mark.vm, pytest.mark.rare]

CONTAINERFILE = FOLDER.parent / "Containerfile"
# catatonit is the first process of a pod.
PODMAN = ("podman", "crun", "catatonit")


def manifest(folder: Path) -> bytes:
    """Return what kustomize renders, with our image, and a configuration that moves memory."""
    rendered = built(folder)
    rendered["ConfigMap"]["data"]["tierd.yaml"] = rendered["ConfigMap"]["data"][
        "tierd.yaml"
    ].replace("mode: observe", "mode: manage")
    (container,) = rendered["DaemonSet"]["spec"]["template"]["spec"]["containers"]
    assert f"localhost/{container['image']}" == IMAGE
    container["image"] = IMAGE
    documents = [rendered["ConfigMap"], rendered["DaemonSet"]]
    return yaml.safe_dump_all(documents).encode()


def changes() -> str:
    """Return the lines of the Containerfile that say what runs."""
    lines = CONTAINERFILE.read_text().splitlines()
    found = [line for line in lines if re.match(r"ENTRYPOINT|CMD", line)]
    assert len(found) == 2
    return json.dumps(found)


@pytest.mark.parametrize("kernel", ["6.12", "7.2"])
def test_the_pod_does_the_whole_job_and_stops_clean(kernel: str, tmp_path: Path) -> None:
    # A kernel of 6.12 has no damon_stat, and a mount of what is not there ends a pod.
    folder = FOLDER if kernel == "6.12" else with_damon_stat(tmp_path)
    files = {"tierd.deb": debian.package(), "pod.yaml": manifest(folder)}
    facts = told(
        kernel, machine_model.load("two-tier"), "pod", changes(),
        suite=NEWER_SUITE, files=files, programs=PODMAN,
    )  # fmt: skip
    assert facts["install"][0] == 0, facts["install"]
    assert facts["import"] == 0
    assert facts["play"][0] == 0, facts["play"]
    assert facts["arrived"] >= ARRIVED_SHARE * HOT_BYTES, facts["log"]
    assert facts["liveness"] == 0
    may_no_more(facts["probe"])
    assert (facts["stop"], facts["ended"], facts["down"]) == (0, "0", 0), facts["log"]
    assert facts["after"] == facts["before"]


def may_no_more(probe: dict[str, Any]) -> None:
    """What the unit may write, the pod may write. A file that is not there says nothing."""
    # The daemon listens on its port, so nobody else can.
    assert probe.pop("19100") is False
    assert {path: may for path, may in probe.items() if may is not None} == {
        path: may for path, may in PLACES.items() if probe[path] is not None
    }
