"""What `tierd doctor` does: reads the facts, runs the checks, and writes the report."""

import json
import os
import socket
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from tierd.clock import Clock
from tierd.configuration import configtext
from tierd.configuration.config import Config
from tierd.doctor import bundle, doctor, facts, measure, speeds
from tierd.doctor.bundle import Recorder
from tierd.doctor.facts import Facts, Unreadable
from tierd.doctor.findings import Finding
from tierd.doctor.speeds import Speed
from tierd.errors import ExitCode, TierdError
from tierd.frozen import dataclass, replace
from tierd.kdamonds.kernel import Kernel
from tierd.kdamonds.restore import saved_in
from tierd.planning import plan_here
from tierd.record.rundir import SOCKET, RunDir
from tierd.serving import client
from tierd.sysfs import TERMINAL_WAITS_MAX, Sysfs
from tierd.views import planned, render

# Characters per line in a report, which is read in windows of unknown width.
COLUMNS = 100

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Checkup:
    """What the doctor read from a machine, at one time."""

    recorder: Recorder
    kernel: Kernel
    facts: Facts

    @property
    def findings(self) -> tuple[Finding, ...]:
        return doctor.examine(self.facts)


def look(
    sysfs: Sysfs,
    clock: Clock,
    folder: RunDir,
    read_config: Callable[[], Config],
    *,
    is_root: bool,
) -> Checkup:
    """Read everything that the checks need."""
    recorder = Recorder(sysfs)
    kernel = Kernel.patient(recorder, clock, TERMINAL_WAITS_MAX)
    found = facts.read(kernel, read_config, lambda: saved_in(folder), is_root=is_root)
    return Checkup(recorder, kernel, found)


class ElsewhereError(TierdError):
    """Only this machine can be measured."""

    exit_code = ExitCode.usage


def measured(checkup: Checkup, *, here: bool) -> tuple[Speed, ...]:
    """Measure how fast the memory of each node is. `here` says whether this is the machine."""
    if not here:
        raise ElsewhereError(
            "--measure measures the memory of this machine, and this is another one",
            "leave out --root and --simulate, and stop a simulated tierd",
        )
    topology, marks = _known(checkup.facts.topology), _known(checkup.facts.watermarks)
    allowed = frozenset(os.sched_getaffinity(0))
    return measure.measure(checkup.kernel.sysfs, topology, marks, allowed)


def measured_text(checkup: Checkup, found: tuple[Speed, ...], columns: int) -> str:
    """Return the table of what was measured, and what the figures mean."""
    topology = _known(checkup.facts.topology)
    lines = ["", "measured:", *render.table(speeds.as_rows(found, topology))]
    for said in speeds.remarks(found, topology):
        lines += textwrap.wrap(said, columns, subsequent_indent="  ")
    return "\n".join(lines)


def document(checkup: Checkup, found: tuple[Speed, ...] | None) -> doctor.Document:
    """Return the document that `tierd doctor --json` prints."""
    if found is None:
        return doctor.as_document(checkup.findings)
    told = speeds.as_documents(found, _known(checkup.facts.topology))
    return doctor.as_document(checkup.findings, told)


def _known(fact: T | Unreadable) -> T:
    if isinstance(fact, Unreadable):
        raise TierdError(fact.why, fact.hint)
    return fact


def write_bundle(checkup: Checkup, folder: RunDir, path: Path) -> None:
    """Write the report of `tierd doctor --bundle`."""
    config = checkup.facts.config
    names = bundle.secrets(config, socket.gethostname())
    findings = doctor.examine(bundle.without_names(checkup.facts))
    texts = {
        "README.txt": bundle.README,
        "doctor.txt": doctor.as_text(findings) + "\n",
        "doctor.json": json.dumps(doctor.as_document(findings), indent=2) + "\n",
        "plan.txt": _plan(checkup, config) + "\n",
    }
    if not isinstance(checkup.facts.topology, Unreadable):
        texts["tiers.txt"] = render.tiers_text(checkup.facts.topology)
    if not isinstance(config, Unreadable):
        texts["config.yaml"] = configtext.effective(replace(config, cgroups=(), shares=()))
    status = _status(folder)
    if status is not None:
        texts["status.json"] = json.dumps(status, indent=2) + "\n"
    files = {name: bundle.scrubbed(text, names) for name, text in texts.items()}
    files |= bundle.machine_files(checkup.recorder)
    bundle.write(path, files, bundle.machine_folders(checkup.recorder))


def _plan(checkup: Checkup, config: Config | Unreadable) -> str:
    if isinstance(config, Unreadable):
        return "no plan: the configuration has errors"
    try:
        plan = plan_here(checkup.kernel.sysfs, config)
        # The names of cgroups are private.
        return planned.as_text(replace(plan, cgroups=()), COLUMNS)
    except TierdError as error:
        return f"no plan: {error}\n{error.hint}"


def _status(folder: RunDir) -> dict[str, Any] | None:
    """Return the status of the daemon; None if there is no answer."""
    try:
        return client.get(folder.run / SOCKET, "/v1/status")
    except TierdError:
        return None
