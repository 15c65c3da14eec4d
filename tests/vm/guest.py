"""Boots a real kernel on a machine of our choice, and runs commands in it.

A guest is a function: kernel, machine and commands in, results out. Its disks are a read-only
root file system and a tar with the project; its verdict comes over a port of its own.
"""

import io
import json
import logging
import os
import shutil
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.vm import cache, emulator, kernels, rootfs, slot
from tests.vm.errors import LostGuest, Panicked
from tests.vm.guard import MARK
from tierd.sim.machine import Machine

log = logging.getLogger(__name__)

PROJECT = Path(__file__).parent.parent.parent
PROJECT_PARTS = (
    "tierd",
    "tests",
    "tools",
    "bench",
    "configs",
    "systemd",
    "monitoring",
    "pyproject.toml",
)

# A guest boots in 5 s on an idle machine and says hello; 20 times that is a machine under load.
BOOT_S_MAX = 120.0

# Lost guests (an emulator killed, a machine that stalled) are rare and not the kernel's doing.
TRIES = 2

CONSOLE_LINES_SHOWN = 15

# Of guests that were lost or panicked; each has some 50 KB.
CONSOLES_KEPT = 20

# No emulator outlives who started it, however that one ends.
ENDING_TOGETHER = ("setpriv", "--pdeathsig", "KILL")


@dataclass(frozen=True, slots=True)
class Command:
    """A program and its arguments, run in the project's folder as root."""

    argv: tuple[str, ...]
    timeout_s: float = 120.0


@dataclass(frozen=True, slots=True)
class Result:
    """How a command ended; `status` None means that it ran out of time and was killed."""

    status: int | None
    stdout: str
    stderr: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a guest told: its kernel, a result per command, and the files it left."""

    release: str
    results: tuple[Result, ...]
    files: Mapping[str, bytes] = field(default_factory=dict)
    tries: int = 1


def run(
    series: str,
    machine: Machine,
    commands: Sequence[Command],
    files: Mapping[str, bytes] | None = None,
    append: str = "",
    suite: str = rootfs.SUITE,
) -> Verdict:
    """Boot, run the commands one after the other, and return what they said.

    `files` lie in /job beside the project; what a command writes to $TIERD_VM_OUT comes back.
    """
    for tries in range(1, TRIES + 1):
        try:
            seen = _once(series, machine, commands, files or {}, append, suite)
            return replace(seen, tries=tries)
        except LostGuest as error:
            log.warning("%s on %s, try %d of %d: %s", series, machine.name, tries, TRIES, error)
            if tries == TRIES:
                raise LostGuest(f"lost {tries} times; at last: {error}") from error
    raise AssertionError("a guest is tried at least once")


def shell(series: str, machine: Machine) -> int:
    """A root shell in such a guest, on this terminal.

    It takes no lock: a shell left open over lunch would keep every test waiting.
    """
    with tempfile.TemporaryDirectory(prefix="tierd-vm.") as scratch:
        columns, rows = shutil.get_terminal_size()
        job = _pack(Path(scratch), {"shell": True, "columns": columns, "rows": rows}, {})
        argv = [*_argv(series, machine, job, None), "-serial", "mon:stdio"]
        return subprocess.run(argv, env=_environment(), check=False).returncode


def _once(
    series: str,
    machine: Machine,
    commands: Sequence[Command],
    files: Mapping[str, bytes],
    append: str,
    suite: str,
) -> Verdict:
    listed = [{"argv": command.argv, "timeout_s": command.timeout_s} for command in commands]
    with tempfile.TemporaryDirectory(prefix="tierd-vm.") as scratch:
        folder = Path(scratch)
        job = _pack(folder, {"shell": False, "commands": listed}, files)
        port, console = folder / "port", folder / "console"
        argv = [*_argv(series, machine, job, port, append, suite), "-serial", f"file:{console}"]
        work_s = sum(command.timeout_s + 10 for command in commands)
        with slot.held():
            ended = _wait(argv, port, work_s)
        said = console.read_text(errors="replace") if console.exists() else ""
        raw = port.read_bytes() if port.exists() else b""
        try:
            return verdict(raw, said, len(commands), ended)
        except (LostGuest, Panicked) as error:
            kept = _keep(console, f"{series}-{machine.name}")
            raise type(error)(f"{error}\nall of its console: {kept}") from error


def _keep(console: Path, name: str) -> Path:
    """The console's file, at a place where it stays; beside it the last few others."""
    folder = cache.folder() / "consoles"
    folder.mkdir(exist_ok=True)
    began = time.strftime("%Y%m%d-%H%M%S")
    kept = folder / f"{began}-{name}-{console.parent.name}.log"
    console.touch()
    shutil.copyfile(console, kept)
    for old in sorted(folder.iterdir())[:-CONSOLES_KEPT]:
        old.unlink(missing_ok=True)
    return kept


def _wait(argv: list[str], port: Path, work_s: float) -> str:
    """Let the guest run to its end, or to its bound; how it ended, in words."""
    with subprocess.Popen(
        argv,
        env=_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        began_s = time.monotonic()
        try:
            while process.poll() is None:
                booted = port.exists() and port.stat().st_size > 0
                if time.monotonic() - began_s > (BOOT_S_MAX + (work_s if booted else 0)):
                    return "it ran out of time" if booted else "it never said hello"
                time.sleep(0.1)
            assert process.stderr is not None
            return f"the emulator ended with {process.returncode}: {process.stderr.read()[-300:]}"
        finally:
            process.kill()


def verdict(raw: bytes, console: str, commands: int, ended: str) -> Verdict:
    """What came over the port, if it is whole; else which kind of failure it was."""
    members = _members(raw)
    if "done" not in members:
        lines = console.splitlines()
        last = "\n".join(lines[-CONSOLE_LINES_SHOWN:])
        for number, line in enumerate(lines):
            if "Kernel panic" in line or "Oops:" in line:
                # What it died of comes first; the trace may be longer than what is shown.
                told = "\n".join(lines[number : number + CONSOLE_LINES_SHOWN])
                raise Panicked(f"the guest's kernel panicked:\n{told}")
        raise LostGuest(f"the guest was lost ({ended}); its console ends with:\n{last}")
    results = tuple(
        Result(
            status=json.loads(members[f"{number}/status"]),
            stdout=members[f"{number}/stdout"].decode(errors="replace"),
            stderr=members[f"{number}/stderr"].decode(errors="replace"),
        )
        for number in range(commands)
    )
    kept = {
        name.removeprefix("files/"): content
        for name, content in members.items()
        if name.startswith("files/")
    }
    return Verdict(members["hello"].decode(), results, kept)


def _members(raw: bytes) -> dict[str, bytes]:
    """The whole members of a tar stream that may have been cut off."""
    found: dict[str, bytes] = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(raw), mode="r|") as stream:
            for entry in stream:
                file = stream.extractfile(entry)
                assert file is not None
                found[entry.name] = file.read()
    except (tarfile.TarError, EOFError):
        return found
    return found


def _pack(folder: Path, job: Mapping[str, object], files: Mapping[str, bytes]) -> Path:
    """The job disk: the project as it is in the checkout, the job, and the files beside it."""
    path = folder / "job.tar"
    with tarfile.open(path, "w") as disk:
        for part in PROJECT_PARTS:
            if (PROJECT / part).exists():
                disk.add(PROJECT / part, f"project/{part}", filter=_wanted)
        for name, content in {**files, "job.json": json.dumps(job).encode()}.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            entry.mode = 0o755
            disk.addfile(entry, io.BytesIO(content))
    return path


def _wanted(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if Path(entry.name).name == "__pycache__" else entry


def _environment() -> dict[str, str]:
    return {**os.environ, **dict(emulator.get().environment)}


def _argv(
    series: str,
    machine: Machine,
    job: Path,
    port: Path | None,
    append: str = "",
    suite: str = rootfs.SUITE,
) -> list[str]:
    kernel = kernels.get(series)
    words = [
        *ENDING_TOGETHER,
        *emulator.get().argv,
        *("-accel", "tcg,thread=multi", "-cpu", "max"),
        *("-nodefaults", "-display", "none", "-no-reboot"),
        *("-kernel", str(kernel.image), "-initrd", str(kernel.initramfs)),
        *("-append", f"console=ttyS0 panic=-1 oops=panic quiet {MARK} {append}".strip()),
        *("-drive", f"file={rootfs.get(suite)},if=virtio,format=raw,snapshot=on"),
        *("-drive", f"file={job},if=virtio,format=raw,readonly=on"),
        *hardware(machine),
    ]
    if port is not None:
        words += ["-device", "virtio-serial", "-chardev", f"file,id=port,path={port}"]
        words += ["-device", "virtserialport,chardev=port,name=tierd"]
    return words


def hardware(machine: Machine) -> list[str]:
    """The options that make QEMU such a machine; HMAT alone makes the kernel build the tiers."""
    described = [node for node in machine.nodes if node.latency_ns and node.bandwidth_mbps]
    cpus = sum(len(node.cpus) for node in machine.nodes)
    sockets = sum(1 for node in machine.nodes if node.cpus)
    memory_mib = sum(node.size_mib for node in machine.nodes if not node.plugged)
    plugged_mib = sum(node.size_mib for node in machine.nodes if node.plugged)
    slots = sum(node.plugged for node in machine.nodes)
    room = f",slots={slots},maxmem={memory_mib + plugged_mib}M" if slots else ""
    hmat = ",hmat=on" if described else ""
    words = ["-machine", f"q35{hmat}", "-m", f"{memory_mib}M{room}"]
    words += ["-smp", f"{cpus},sockets={sockets},cores={cpus // sockets},threads=1"]
    for node in machine.nodes:
        words += ["-object", f"memory-backend-ram,id=m{node.id},size={node.size_mib}M"]
        # QEMU takes initiators only together with HMAT.
        initiator = f",initiator={node.initiator}" if described else ""
        memory = "" if node.plugged else f",memdev=m{node.id}"
        words += ["-numa", f"node,nodeid={node.id}{memory}{initiator}"]
        if node.plugged:
            words += ["-device", f"pc-dimm,id=d{node.id},memdev=m{node.id},node={node.id}"]
    socket = 0
    for node in machine.nodes:
        per_socket = cpus // sockets
        for core, _ in enumerate(node.cpus):
            place = f"socket-id={socket + core // per_socket},core-id={core % per_socket}"
            words += ["-numa", f"cpu,node-id={node.id},{place},thread-id=0"]
        socket += bool(node.cpus)
    for source, row in enumerate(machine.distances):
        for target, distance in enumerate(row):
            if source < target:
                words += ["-numa", f"dist,src={source},dst={target},val={distance}"]
    for node in described:
        lb = f"hmat-lb,initiator={node.initiator},target={node.id},hierarchy=memory"
        words += ["-numa", f"{lb},data-type=access-latency,latency={node.latency_ns}"]
        words += ["-numa", f"{lb},data-type=access-bandwidth,bandwidth={node.bandwidth_mbps}M"]
    return words
