"""The verb `tierd doctor`: reads the facts, has them judged, and packs the report."""

import json
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tierd.clock import Clock
from tierd.configuration import configtext
from tierd.configuration.config import Config
from tierd.doctor import bundle, doctor, facts
from tierd.doctor.bundle import Recorder
from tierd.doctor.facts import Facts, Hidden
from tierd.doctor.findings import Finding
from tierd.errors import TierdError
from tierd.kdamonds.kernel import Kernel
from tierd.kdamonds.restore import saved_in
from tierd.planning import plan_here
from tierd.record.rundir import SOCKET, RunDir
from tierd.serving import client
from tierd.sysfs import Sysfs
from tierd.views import planned, render

# Of the texts in a report, which is read in any window.
COLUMNS = 100


@dataclass(frozen=True, slots=True)
class Checkup:
    """A machine as it was looked at once."""

    recorder: Recorder
    kernel: Kernel
    facts: Facts

    @property
    def findings(self) -> tuple[Finding, ...]:
        return doctor.examine(self.facts)


def look(sysfs: Sysfs, clock: Clock, folder: RunDir, read_config: Callable[[], Config]) -> Checkup:
    """Read everything that the doctor judges."""
    recorder = Recorder(sysfs)
    kernel = Kernel.patient(recorder, clock)
    found = facts.read(kernel, read_config, lambda: saved_in(folder), is_root=os.geteuid() == 0)
    return Checkup(recorder, kernel, found)


def write_bundle(checkup: Checkup, folder: RunDir, path: Path) -> None:
    """Pack the report."""
    config = checkup.facts.config
    names = bundle.secrets(config, socket.gethostname())
    findings = doctor.examine(bundle.without_names(checkup.facts))
    texts = {
        "README.txt": bundle.README,
        "doctor.txt": doctor.as_text(findings) + "\n",
        "doctor.json": json.dumps(doctor.as_document(findings), indent=2) + "\n",
        "plan.txt": _plan(checkup, config) + "\n",
    }
    if not isinstance(checkup.facts.topology, Hidden):
        texts["tiers.txt"] = render.tiers_text(checkup.facts.topology)
    if not isinstance(config, Hidden):
        texts["config.yaml"] = configtext.effective(replace(config, cgroups=()))
    status = _status(folder)
    if status is not None:
        texts["status.json"] = json.dumps(status, indent=2) + "\n"
    files = {name: bundle.scrubbed(text, names) for name, text in texts.items()}
    files |= bundle.machine_files(checkup.recorder)
    bundle.write(path, files, bundle.machine_folders(checkup.recorder))


def _plan(checkup: Checkup, config: Config | Hidden) -> str:
    if isinstance(config, Hidden):
        return "no plan: the configuration has errors"
    try:
        return planned.as_text(plan_here(checkup.kernel.sysfs, config), COLUMNS)
    except TierdError as error:
        return f"no plan: {error}\n{error.hint}"


def _status(folder: RunDir) -> dict[str, Any] | None:
    """What the daemon says, if there is one that talks to us."""
    try:
        return client.get(folder.run / SOCKET, "/v1/status")
    except TierdError:
        return None
