"""The files for Kubernetes: by its own schemas, and in agreement with the unit and with tierd.

As they lie, and as kustomize renders them: Debian 13's, which is unpacked into the cache.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from tests.needed import needed
from tests.vm import cache, unpacked
from tests.vm.errors import VmError
from tierd import __version__
from tierd.configuration import configfile

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "deploy/kubernetes"

# Kustomize and the Prometheus operator bring schemas of their own.
FOREIGN = ("kustomization", "podmonitor")
MONITOR = jsonschema.Draft202012Validator(
    json.loads((ROOT / "tests/unit/shipped/podmonitor.schema.json").read_text())
)


def load(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((FOLDER / f"{name}.yaml").read_text())
    return found


def pod() -> dict[str, Any]:
    spec: dict[str, Any] = load("daemonset")["spec"]["template"]["spec"]
    return spec


def container() -> dict[str, Any]:
    (found,) = pod()["containers"]
    assert isinstance(found, dict)
    return found


def unit() -> list[tuple[str, str]]:
    lines = (ROOT / "systemd/tierd.service").read_text().splitlines()
    pairs = (line.partition("=") for line in lines if not line.startswith("#"))
    return [(name, value) for name, _, value in pairs]


@pytest.mark.parametrize(
    "path", [path for path in sorted(FOLDER.iterdir()) if path.stem not in FOREIGN],
    ids=lambda path: path.stem,
)  # fmt: skip
def test_kubernetes_knows_every_field(path: Path) -> None:
    validate(path)


def test_the_prometheus_operator_knows_every_field() -> None:
    MONITOR.validate(load("podmonitor"))


@pytest.mark.parametrize(
    "wrong",
    [{"jobLabels": "x"}, {"podMetricsEndpoints": [{"port": 9100}]}, {"selector": {"app": "tierd"}}],
    ids=lambda wrong: next(iter(wrong)),
)
def test_and_refuses_what_it_does_not(wrong: dict[str, Any]) -> None:
    monitor = load("podmonitor")
    assert not MONITOR.is_valid(monitor | {"spec": monitor["spec"] | wrong})


def validate(path: Path) -> None:
    argv = [str(Path(sys.executable).parent / "kubernetes-validate"), "--strict", str(path)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def kustomize() -> tuple[str, ...] | str:
    """How to call it, or why it is not there."""
    try:
        tree = cache.made("kustomize", lambda into: unpacked.fetch("kustomize", "trixie", into))
    except VmError as error:
        return f"no kustomize: {error}"
    return unpacked.argv(tree, "usr/bin/kustomize")


@pytest.mark.thorough
def test_what_kustomize_renders_is_valid_and_whole(tmp_path: Path) -> None:
    """Everything in one namespace, the image with this version's tag, and no warning."""
    argv = [*needed(kustomize()), "build", str(FOLDER)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    rendered = {one["kind"]: one for one in yaml.safe_load_all(done.stdout)}
    assert set(rendered) == {"Namespace", "ConfigMap", "DaemonSet", "PodMonitor"}
    for kind, one in rendered.items():
        if kind != "Namespace":
            assert one["metadata"]["namespace"] == rendered["Namespace"]["metadata"]["name"]
        if kind == "PodMonitor":
            MONITOR.validate(one)
            continue
        path = tmp_path / f"{kind}.yaml"
        path.write_text(yaml.safe_dump(one))
        validate(path)
    (made,) = rendered["DaemonSet"]["spec"]["template"]["spec"]["containers"]
    assert made["image"] == f"tierd:{__version__}"


def test_kustomize_takes_every_file_and_this_version() -> None:
    taken = load("kustomization")
    files = {path.name for path in FOLDER.iterdir()} - {"kustomization.yaml"}
    assert set(taken["resources"]) == files
    assert taken["images"] == [{"name": container()["image"], "newTag": __version__}]


def test_the_configuration_is_valid_and_moves_nothing() -> None:
    (text,) = load("configmap")["data"].values()
    config = configfile.parse([("tierd.yaml", text)]).config
    assert config.mode == "observe"
    (port,) = container()["ports"]
    assert config.metrics_address == f"0.0.0.0:{port['containerPort']}"


def test_it_may_write_where_the_unit_may() -> None:
    """A folder above will do: one that is not on every kernel cannot be mounted."""
    writable = {
        mount["mountPath"] for mount in container()["volumeMounts"] if "readOnly" not in mount
    }
    wanted = [
        word.removeprefix("-")
        for name, value in unit()
        if name == "ReadWritePaths"
        for word in value.split()
        if "/sys/" in word
    ]
    assert wanted
    for path in [*wanted, "/run/tierd", "/var/lib/tierd"]:
        assert {path, *map(str, Path(path).parents)} & writable, path


def test_every_volume_is_mounted_and_limits_are_those_of_the_unit() -> None:
    assert {one["name"] for one in pod()["volumes"]} == {
        one["name"] for one in container()["volumeMounts"]
    }
    settings = dict(unit())
    assert container()["resources"]["limits"]["memory"] == f"{settings['MemoryMax']}i"
    assert f"{pod()['terminationGracePeriodSeconds']}s" == settings["TimeoutStopSec"]


def test_prometheus_finds_it_under_the_name_that_alerts_look_for() -> None:
    monitor = load("podmonitor")["spec"]
    labels = load("daemonset")["spec"]["template"]["metadata"]["labels"]
    assert labels[monitor["jobLabel"]] == "tierd"
    assert monitor["selector"]["matchLabels"].items() <= labels.items()
    assert monitor["podMetricsEndpoints"][0]["port"] == container()["ports"][0]["name"]
