"""In a guest with podman: the DaemonSet as kustomize renders it, in a container of its own image.

The image is the guest's own root, a minimal Debian with the package and what it needs. The guest
has no network, so the pod has none but its own loopback.
"""

import json
import os
import sys
import time
from pathlib import Path
from subprocess import CompletedProcess, run
from typing import Any

from tests.contract.sets import PAGE, WorkloadSets
from tests.e2e import inside
from tests.e2e.inside import note, wait_for
from tests.e2e.unit import PLACES, PROBE

MANIFEST = Path("/job/pod.yaml")
PACKAGE = "/job/tierd.deb"
IMAGE = "localhost/tierd:0.1.0"
# A pod and its container have the name of the DaemonSet, and podman adds the container's.
POD = "tierd-pod"
CONTAINER = "tierd-pod-tierd"

# The guest has no module for overlays, no systemd to start probes, and no other user.
PODMAN = ("podman", "--storage-driver", "vfs", "--cgroup-manager", "cgroupfs")
ENVIRONMENT = {"DISABLE_HC_SYSTEMD": "true", "TMPDIR": "/var/tmp"}

# What an image needs of the guest, and what it does not need of that.
PARTS = ("bin", "sbin", "lib", "lib64", "usr", "etc", "root", "var/lib/dpkg")
LEFT_OUT = (
    "usr/bin/podman",
    "usr/lib/podman",
    "usr/libexec/podman",
    "usr/share/doc",
    "usr/share/locale",
    "usr/share/perl",
    "usr/lib/x86_64-linux-gnu/perl-base",
    "var/lib/dpkg/info",
)

HOT = "hot"
SLOW = 1
HOT_BYTES = 64 << 20
HOT_HZ = 8.0
ARRIVED_SHARE = 0.9
MOVES_S_MAX = 240.0
# A start of Python takes half a minute beside podman.
READY_S_MAX = 300.0
# To import the image is the longest. It takes a minute or two.
PODMAN_S_MAX = 400.0


def podman(*words: str) -> "CompletedProcess[str]":
    environment = {**os.environ, **ENVIRONMENT}
    done = run([*PODMAN, *words], capture_output=True, text=True, env=environment, check=False,
               timeout=PODMAN_S_MAX)  # fmt: skip
    told = f"{done.stdout[-500:]}{done.stderr[-1500:]}"
    note(f"podman {' '.join(words[:3])}: {done.returncode} {told}")
    return done


def build(facts: dict[str, Any]) -> None:
    """Install the package, and make an image with what deploy/Containerfile says at its end."""
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    done = run(["apt-get", "-q", "-y", "install", PACKAGE], capture_output=True, env=environment,
               check=False)  # fmt: skip
    facts["install"] = [done.returncode, done.stderr.decode()[-500:]]
    changes = [word for one in json.loads(sys.argv[-1]) for word in ("--change", one)]
    out = [f"--exclude={one}" for one in LEFT_OUT]
    tar = f"tar -C / -c {' '.join(out)} {' '.join(PARTS)}"
    archive = Path("/var/tmp/image.tar")
    with archive.open("wb") as file:
        run(tar.split(), stdout=file, check=True)
    note(f"image of {archive.stat().st_size >> 20} MiB")
    facts["import"] = podman("import", *changes, str(archive), IMAGE).returncode
    archive.unlink()


def ready() -> bool:
    return podman("exec", CONTAINER, "/usr/bin/tierd", "status").returncode == 0


def arrived(sets: WorkloadSets) -> int:
    """Return how many bytes of the hot set have left the slow node."""
    return HOT_BYTES - sets.where(HOT).get(SLOW, 0) * PAGE


def probe() -> dict[str, Any]:
    """Return which files a program in the container could write."""
    done = podman(
        "exec", CONTAINER, "python3", "-c", PROBE, json.dumps(sorted(PLACES)), json.dumps([19100])
    )
    if done.returncode:
        return {"failed": done.stderr}
    found: dict[str, Any] = json.loads(Path("/run/tierd/found").read_text())
    return found


def main() -> int:
    facts: dict[str, Any] = {}
    sets = inside.begin()
    facts["before"] = inside.neighbourhood()
    build(facts)
    sets.place(HOT, SLOW, HOT_BYTES, only=False)
    sets.heat(HOT, HOT_HZ)
    played = podman("kube", "play", "--network", "none", "--log-driver", "k8s-file", str(MANIFEST))
    facts["play"] = [played.returncode, played.stdout[-500:], played.stderr[-1500:]]
    if played.returncode == 0:
        lives(facts, sets)
    facts["after"] = inside.neighbourhood()
    inside.tell(facts)
    return 0


def lives(facts: dict[str, Any], sets: WorkloadSets) -> None:
    try:
        wait_for("the pod to be ready", ready, READY_S_MAX)
        inside.within(lambda: arrived(sets) >= ARRIVED_SHARE * HOT_BYTES, MOVES_S_MAX)
        facts["arrived"] = arrived(sets)
        facts["migrated"] = inside.migrated_bytes()
        facts["liveness"] = podman("healthcheck", "run", CONTAINER).returncode
        facts["probe"] = probe()
        began_s = time.monotonic()
        facts["stop"] = podman("pod", "stop", "-t", "60", POD).returncode
        facts["stopped_s"] = time.monotonic() - began_s
        shown = podman("inspect", "--format", "{{.State.ExitCode}}", CONTAINER)
        facts["ended"] = shown.stdout.strip()
    finally:
        facts["log"] = podman("logs", CONTAINER).stderr[-4000:]
        facts["down"] = podman("kube", "down", str(MANIFEST)).returncode


if __name__ == "__main__":
    sys.exit(main())
