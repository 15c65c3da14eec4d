"""The files for Kubernetes are valid, and agree with the unit and with tierd.

They are tested as they are, and as kustomize renders them. kustomize is Debian 13's, unpacked into
the cache.
"""

import json
import shutil
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
from tierd.errors import ExitCode

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "deploy/kubernetes"

# Kustomize and the Prometheus operator have their own schemas.
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
    "path", [path for path in sorted(FOLDER.glob("*.yaml")) if path.stem not in FOREIGN],
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
def test_a_wrong_pod_monitor_is_refused(wrong: dict[str, Any]) -> None:
    monitor = load("podmonitor")
    assert not MONITOR.is_valid(monitor | {"spec": monitor["spec"] | wrong})


def validate(path: Path) -> None:
    argv = [str(Path(sys.executable).parent / "kubernetes-validate"), "--strict", str(path)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def kustomize() -> tuple[str, ...] | str:
    """Return the command of kustomize, or why there is none."""
    try:
        tree = cache.made("kustomize", lambda into: unpacked.fetch("kustomize", "trixie", into))
    except VmError as error:
        return f"no kustomize: {error}"
    return unpacked.argv(tree, "usr/bin/kustomize")


@pytest.mark.thorough
def test_what_kustomize_renders_is_valid_and_whole(tmp_path: Path) -> None:
    """All is in one namespace, with the image of this version, and without a warning."""
    rendered = built(FOLDER)
    assert set(rendered) == {"Namespace", "ConfigMap", "DaemonSet", "NetworkPolicy", "PodMonitor"}
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
    assert "/sys/module" not in str(made)


def built(folder: Path) -> dict[str, Any]:
    """Return what kustomize renders from a folder, by kind. A warning is a failure."""
    argv = [*needed(kustomize()), "build", str(folder)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return {one["kind"]: one for one in yaml.safe_load_all(done.stdout)}


def with_damon_stat(scratch: Path) -> Path:
    """Return a copy of the folder with the lines uncommented, as the file says."""
    copy = scratch / "kubernetes"
    shutil.copytree(FOLDER, copy)
    path = copy / "kustomization.yaml"
    before = path.read_text()
    path.write_text(before.replace("# components:\n#   - damon", "components:\n  - damon"))
    assert path.read_text() != before
    return copy


@pytest.mark.thorough
def test_where_there_is_damon_stat_its_switch_alone_is_mounted(tmp_path: Path) -> None:
    rendered = built(with_damon_stat(tmp_path))["DaemonSet"]
    (made,) = rendered["spec"]["template"]["spec"]["containers"]
    mounts = [one["mountPath"] for one in made["volumeMounts"] if "module" in one["mountPath"]]
    assert mounts == ["/sys/module/damon_stat/parameters"]
    path = tmp_path / "DaemonSet.yaml"
    path.write_text(yaml.safe_dump(rendered))
    validate(path)


def test_kustomize_takes_every_file_and_this_version() -> None:
    taken = load("kustomization")
    files = {path.name for path in FOLDER.glob("*.yaml")} - {"kustomization.yaml"}
    assert set(taken["resources"]) == files
    assert taken["images"] == [{"name": container()["image"], "newTag": __version__}]


def test_the_configuration_is_valid_and_moves_nothing() -> None:
    (text,) = load("configmap")["data"].values()
    config = configfile.parse([("tierd.yaml", text)]).config
    assert config.mode == "observe"
    (port,) = container()["ports"]
    assert config.metrics_address == f"0.0.0.0:{port['containerPort']}"


def test_it_may_write_where_the_unit_may_and_nowhere_else() -> None:
    """These are paths of the machine. damon_stat is not on every kernel, so a component adds it."""
    writable = {
        mount["mountPath"] for mount in container()["volumeMounts"] if "readOnly" not in mount
    }
    component = yaml.safe_load((FOLDER / "damon-stat/kustomization.yaml").read_text())
    added = [one["value"] for one in yaml.safe_load(component["patches"][0]["patch"])]
    writable |= {one["mountPath"] for one in added if "mountPath" in one}
    wanted = {
        word.removeprefix("-")
        for name, value in unit()
        if name == "ReadWritePaths"
        for word in value.split()
        if "/sys/" in word
    }
    assert wanted
    assert writable == {*wanted, "/run/tierd", "/var/lib/tierd"}
    assert not pod()["hostPID"]


@pytest.mark.parametrize(
    ("code", "alive"),
    [(ExitCode.ok, True), (ExitCode.degraded, True), (ExitCode.unknown, False),
     (ExitCode.not_running, False)],
)  # fmt: skip
def test_it_is_alive_while_its_loop_is(tmp_path: Path, code: ExitCode, alive: bool) -> None:
    """The probe asks `tierd status` about the loop. A thread that serves metrics is not enough."""
    tierd = tmp_path / "tierd"
    tierd.write_text(f"#!/bin/sh\n[ $1 = status ] && exit {int(code)}\n")
    tierd.chmod(0o755)
    *shell, script = container()["livenessProbe"]["exec"]["command"]
    assert "/usr/bin/tierd status" in script
    done = subprocess.run([*shell, script.replace("/usr/bin/tierd", str(tierd))], check=False)
    assert (done.returncode == 0) is alive


def test_only_prometheus_may_connect() -> None:
    policy = load("networkpolicy")["spec"]
    labels = load("daemonset")["spec"]["template"]["metadata"]["labels"]
    assert policy["podSelector"]["matchLabels"].items() <= labels.items()
    assert (policy["policyTypes"], policy["egress"]) == (["Ingress", "Egress"], [])
    (rule,) = policy["ingress"]
    assert rule["from"]
    assert [one["port"] for one in rule["ports"]] == [container()["ports"][0]["name"]]


def test_every_volume_is_mounted_and_limits_are_those_of_the_unit() -> None:
    assert {one["name"] for one in pod()["volumes"]} == {
        one["name"] for one in container()["volumeMounts"]
    }
    settings = dict(unit())
    assert container()["resources"]["limits"]["memory"] == f"{settings['MemoryMax']}i"
    assert f"{pod()['terminationGracePeriodSeconds']}s" == settings["TimeoutStopSec"]
    (variable,) = container()["env"]
    assert settings["Environment"] == f"{variable['name']}={variable['value']}"


def test_prometheus_finds_it_under_the_name_that_alerts_look_for() -> None:
    monitor = load("podmonitor")["spec"]
    labels = load("daemonset")["spec"]["template"]["metadata"]["labels"]
    assert labels[monitor["jobLabel"]] == "tierd"
    assert monitor["selector"]["matchLabels"].items() <= labels.items()
    assert monitor["podMetricsEndpoints"][0]["port"] == container()["ports"][0]["name"]
