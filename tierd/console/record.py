"""The command `tierd record`: makes a profile of how hot the memory of a machine is."""

import argparse
import logging
import os
import sys
import time
from pathlib import Path
from random import Random

from tierd.console import foreground
from tierd.console.directories import run_dir
from tierd.errors import ExitCode
from tierd.frozen import dataclass
from tierd.kdamonds.kernel import Kernel
from tierd.loop import journal, recorder, service, stat_recorder
from tierd.loop.recorder import Around, Recorded
from tierd.loop.service import Advancing, Stage
from tierd.loop.store import FileStore
from tierd.machine import discovery, features
from tierd.record import rundir
from tierd.record.rundir import FileError, RunDir
from tierd.serving.inbox import Event, SystemInbox
from tierd.sysfs import Patience, PatientSysfs
from tierd.views.visible import Say


@dataclass(frozen=True, slots=True)
class HurryingInbox:
    """An inbox of a simulated machine: virtual time passes as fast as it can."""

    inner: SystemInbox
    kernel: Advancing

    def wait(self, seconds: float) -> tuple[Event, ...]:
        events = self.inner.wait(0.0)
        if not events:
            self.kernel.advance(seconds)
        return events


@dataclass(slots=True)
class ProfileFile:
    """The file of a profile. Each line is on disk when it is written, and after a kill."""

    path: Path
    _fd: int = -1

    def open(self) -> None:
        """Create the file. A file that exists is not replaced: it may be hours of recording."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND
        try:
            self._fd = rundir.open_regular(self.path, flags, 0o644)
        except FileExistsError as error:
            raise FileError(
                f"{self.path} exists, and a recording is not written over", "name another file"
            ) from error
        except OSError as error:
            raise FileError(f"cannot create {self.path}: {error.strerror}") from error

    def write(self, line: str) -> None:
        try:
            os.write(self._fd, f"{line}\n".encode())
        except OSError as error:
            raise FileError(f"cannot write to {self.path}: {error.strerror}") from error

    def close(self) -> None:
        """Close the file. If nothing was written, remove it: its name can be used again."""
        is_empty = os.fstat(self._fd).st_size == 0
        os.close(self._fd)
        if is_empty:
            self.path.unlink(missing_ok=True)


def default_path(now_s: float) -> Path:
    """Return the name of a file in the current directory that says when it was begun."""
    return Path(time.strftime("tierd-profile-%Y%m%d-%H%M.jsonl", time.localtime(now_s)))


def command(arguments: argparse.Namespace, say: Say) -> ExitCode:
    """Record this machine, or a simulated one."""
    simulated = arguments.simulate
    path = arguments.file or default_path(time.time())
    for_s = None if arguments.for_ms is None else arguments.for_ms / 1000
    if arguments.damon_stat:
        return read_only(service.real_stage(arguments.root), path, for_s, say)
    if simulated is None:
        stage = service.real_stage(arguments.root)
    else:
        stage, _ = foreground.simulated_stage(simulated)
        say(f"on the SIMULATED machine {stage.name}: this machine is not touched.")
    folder = run_dir(arguments, simulated=simulated is not None)
    return run(stage, folder, path, for_s, say, stage.advancing)


def run(
    stage: Stage,
    folder: RunDir,
    path: Path,
    for_s: float | None,
    say: Say,
    hurried: Advancing | None = None,
) -> ExitCode:
    """Record into the file. `hurried` is a simulated kernel, whose time need not be waited for."""
    logger = logging.getLogger("tierd")
    logger.handlers[:] = [journal.handler()]
    folder.make()
    lock = folder.lock()
    inbox, file = SystemInbox(), ProfileFile(path)
    try:
        inbox.catch_signals()
        patience = Patience.by(stage.clock)
        patient = PatientSysfs(stage.sysfs, patience)
        kernel = Kernel(patient, stage.clock, patience, stage.kdamond_started)
        topology = discovery.survey(kernel.sysfs, None)
        capabilities = features.probe(kernel.sysfs)
        file.open()
        around = Around(
            kernel=kernel,
            inbox=stage.inbox_over(inbox) if hurried is None else HurryingInbox(inbox, hurried),
            store=FileStore(folder, stage.boot_id),
            wall_s=time.time,
            write=file.write,
            ticks_per_s=os.sysconf("SC_CLK_TCK"),
        )
        try:
            if sys.stdout.isatty():
                say(f"recording to {path}; Ctrl-C ends it and restores everything")
            code, found = recorder.run(around, topology, capabilities, Random(), for_s)
        finally:
            file.close()
    finally:
        inbox.close()
        os.close(lock)
    say(sentence(found, path))
    return code


def read_only(stage: Stage, path: Path, for_s: float | None, say: Say) -> ExitCode:
    """Record what damon_stat exports. Nothing is changed, so this needs no lock."""
    topology = discovery.survey(stage.sysfs, None)
    stat_recorder.require(stage.sysfs)
    inbox, file = SystemInbox(), ProfileFile(path)
    try:
        inbox.catch_signals()
        file.open()
        around = stat_recorder.Around(
            stage.sysfs, stage.inbox_over(inbox), stage.clock, time.time, file.write
        )
        try:
            minutes = stat_recorder.run(around, topology, for_s)
        finally:
            file.close()
    finally:
        inbox.close()
    say(f"{path}: {minutes} minutes of damon_stat. Next: `tierd simulate {path}`")
    return ExitCode.ok


def sentence(found: Recorded, path: Path) -> str:
    """Return what a recording came to."""
    missed = f" ({found.missed} were missed)" if found.missed else ""
    return (
        f"{path}: {found.minutes} minutes{missed} of {found.pages} pages at a time, for "
        f"{found.cpu_share:.1%} of one processor. Next: `tierd simulate {path}`"
    )
