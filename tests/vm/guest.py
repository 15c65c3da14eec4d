"""Boots a real kernel on a machine of our choice, and runs commands in it.

A guest works like a function: kernel, machine and commands go in, results come out. Its disks are a
read-only root file system and a tar with the project. Its verdict comes over a separate port.
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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.vm import built, cache, emulator, kernels, rootfs, slot
from tests.vm.errors import LostGuest, Panicked
from tests.vm.guard import MARK
from tests.vm.slow import Mark, Slowness, arguments, parse_marks
from tierd.sim.machine_model import MachineModel, MachineNode

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

# A guest boots and says hello in 5 s on an idle machine. A busy machine may take 20 times as long.
BOOT_S_MAX = 120.0

# With slow memory the plugin looks at each access. If a processor has fast string instructions,
# programs and the kernel copy one byte at a time, which would be very slow. So it says it has none.
CPU = "max"
CPU_OF_SLOW = "max,-erms,-fsrm"

# The kernel makes no region of a CXL device if it knows that it runs in a virtual machine: there it
# does not trust the instruction that empties the caches (cpu_cache_has_invalidate_memregion()).
CPU_WITH_CXL = "max,-hypervisor"

# A guest may be lost, because the emulator was killed or the machine stalled. That is rare, and not
# the kernel's fault, so it is tried again.
TRIES = 2

CONSOLE_LINES_SHOWN = 15

# The consoles of guests that were lost or panicked. Each has some 50 KB.
CONSOLES_KEPT = 20

# The emulator is killed when the process that started it ends.
ENDING_TOGETHER = ("setpriv", "--pdeathsig", "KILL")


@dataclass(frozen=True, slots=True)
class Command:
    """A program and its arguments, run in the project's folder as root."""

    argv: tuple[str, ...]
    timeout_s: float = 120.0


@dataclass(frozen=True, slots=True)
class Result:
    """How a command ended. A `status` of None means that it ran out of time and was killed."""

    status: int | None
    stdout: str
    stderr: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a guest sent: its kernel, a result per command, and the files that commands wrote.

    With slow memory also the counters for each moment that a program has marked (`slow.c`).
    """

    release: str
    results: tuple[Result, ...]
    files: Mapping[str, bytes] = field(default_factory=dict)
    tries: int = 1
    marks: tuple[Mark, ...] = ()


def run(
    series: str,
    machine: MachineModel,
    commands: Sequence[Command],
    files: Mapping[str, bytes] | None = None,
    append: str = "",
    suite: str = rootfs.SUITE,
    slow: Slowness | None = None,
    programs: Sequence[str] = (),
) -> Verdict:
    """Boot, run the commands one after the other, and return what they said.

    `files` are put into /job beside the project. What a command writes to $TIERD_VM_OUT comes back.
    With `slow` memory is as slow for user code as the machine's figures say. `programs` are
    additional Debian packages in the guest.
    """
    # A kernel is the smallest download. So a missing network or apt is told at once.
    kernel = kernels.get(series)
    root = rootfs.get(suite, programs)

    def argv(job: Path, port: Path, counts: Path) -> list[str]:
        words = _argv(kernel, machine, job, port, root, append)
        return [*words, *slowness(machine, slow, counts)]

    name = f"{series} on {machine.name}"
    return tried(name, lambda: once(name, machine, commands, files or {}, argv, _environment()))


def tried(name: str, attempt: Callable[[], Verdict]) -> Verdict:
    """Return the verdict of a guest. A guest that is lost is booted once more."""
    for tries in range(1, TRIES + 1):
        try:
            return replace(attempt(), tries=tries)
        except LostGuest as error:
            log.warning("%s, try %d of %d: %s", name, tries, TRIES, error)
            if tries == TRIES:
                raise LostGuest(f"lost {tries} times; at last: {error}") from error
    raise AssertionError("a guest is tried at least once")


def shell(series: str, machine: MachineModel, slow: Slowness | None = None) -> int:
    """Run a root shell in such a guest, on this terminal.

    It takes no slot, because tests would have to wait while a shell is open.
    """
    with tempfile.TemporaryDirectory(prefix="tierd-vm.") as scratch:
        columns, rows = shutil.get_terminal_size()
        kernel = kernels.get(series)
        job = _pack(Path(scratch), {"shell": True, "columns": columns, "rows": rows}, {})
        argv = [*_argv(kernel, machine, job, None, rootfs.get()), *slowness(machine, slow)]
        argv += ["-serial", "mon:stdio"]
        return subprocess.run(argv, env=_environment(), check=False).returncode


def once(
    name: str,
    machine: MachineModel,
    commands: Sequence[Command],
    files: Mapping[str, bytes],
    argv_of: Callable[[Path, Path, Path], list[str]],
    environment: Mapping[str, str],
) -> Verdict:
    """Boot a guest once. `argv_of` makes the words from the job, the port and a file of counters.

    The words leave out the console.
    """
    listed = [{"argv": command.argv, "timeout_s": command.timeout_s} for command in commands]
    with tempfile.TemporaryDirectory(prefix="tierd-vm.") as scratch:
        folder = Path(scratch)
        job = _pack(folder, {"shell": False, "commands": listed}, files)
        port, console, counts = folder / "port", folder / "console", folder / "counts"
        argv = [*argv_of(job, port, counts), "-serial", f"file:{console}"]
        work_s = sum(command.timeout_s + 10 for command in commands)
        with slot.held():
            ended = _wait(argv, port, work_s, environment)
        said = console.read_text(errors="replace") if console.exists() else ""
        raw = port.read_bytes() if port.exists() else b""
        marked = counts.read_text() if counts.exists() else ""
        try:
            seen = verdict(raw, said, len(commands), ended)
            return replace(seen, marks=parse_marks(marked, machine))
        except (LostGuest, Panicked) as error:
            kept = _keep(console, name.replace(" on ", "-"))
            raise type(error)(f"{error}\nall of its console: {kept}") from error


def _keep(console: Path, name: str) -> Path:
    """Copy the file of the console to a place where the last few consoles are kept."""
    folder = cache.folder() / "consoles"
    folder.mkdir(exist_ok=True)
    began = time.strftime("%Y%m%d-%H%M%S")
    kept = folder / f"{began}-{name}-{console.parent.name}.log"
    console.touch()
    shutil.copyfile(console, kept)
    for old in sorted(folder.iterdir())[:-CONSOLES_KEPT]:
        old.unlink(missing_ok=True)
    return kept


def _wait(argv: list[str], port: Path, work_s: float, environment: Mapping[str, str]) -> str:
    """Let the guest run to its end, or to its bound. Return how it ended, in words."""
    with subprocess.Popen(
        argv,
        env=environment,
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
    """Return what came over the port if it is whole. Else raise the kind of failure."""
    members = _members(raw)
    if "done" not in members:
        lines = console.splitlines()
        last = "\n".join(lines[-CONSOLE_LINES_SHOWN:])
        for number, line in enumerate(lines):
            if "Kernel panic" in line or "Oops:" in line:
                # The cause comes first, because the trace may be longer than what is shown.
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
    """Return the complete members of a tar stream that may have been cut off."""
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
    """Make the job disk: the project as it is in the checkout, the job, and the files."""
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
    kernel: kernels.Kernel,
    machine: MachineModel,
    job: Path,
    port: Path | None,
    root: Path,
    append: str = "",
) -> list[str]:
    words = [
        *ENDING_TOGETHER,
        *emulator.get().argv,
        *("-accel", "tcg,thread=multi"),
        *("-nodefaults", "-display", "none", "-no-reboot"),
        *("-kernel", str(kernel.image), "-initrd", str(kernel.initramfs)),
        *("-append", f"console=ttyS0 panic=-1 oops=panic quiet {MARK} {append}".strip()),
        *hardware(machine),
        *_disk("root", f"file={root},format=raw,snapshot=on"),
        *_disk("job", f"file={job},format=raw,readonly=on"),
    ]
    return words if port is None else [*words, *answer_port(port)]


def _disk(name: str, what: str) -> list[str]:
    """Return the options of a disk. A machine may have several buses, so the bus is named."""
    drive = ["-drive", f"{what},if=none,id={name}"]
    return [*drive, "-device", f"virtio-blk-pci,drive={name},bus=pcie.0"]


def answer_port(port: Path) -> list[str]:
    """Return the options of the port that the agent writes to, and where it ends."""
    words = ["-device", "virtio-serial-pci,id=serial,bus=pcie.0"]
    words += ["-chardev", f"file,id=port,path={port}"]
    return [*words, "-device", "virtserialport,bus=serial.0,chardev=port,name=tierd"]


def slowness(machine: MachineModel, slow: Slowness | None, counts: Path | None = None) -> list[str]:
    """Return the options for the processors. They may make memory slow, and count into a file."""
    if slow is None:
        return ["-cpu", CPU_WITH_CXL if any(node.cxl for node in machine.nodes) else CPU]
    words = [str(built.plugin("slow")), *arguments(machine, slow)]
    if counts is not None:
        # A comma in an option's value is written twice.
        words.append(f"counts={str(counts).replace(',', ',,')}")
    return ["-cpu", CPU_OF_SLOW, "-plugin", ",".join(words)]


def hardware(machine: MachineModel, board: str = "q35") -> list[str]:
    """Return the options that make QEMU such a machine. The kernel builds the tiers from HMAT."""
    described = [node for node in machine.nodes if node.latency_ns and node.bandwidth_mbps]
    # The kernel makes the node of a CXL device, when it finds the window for its addresses.
    listed = [node for node in machine.nodes if not node.cxl]
    devices = [node for node in machine.nodes if node.cxl]
    cpus = sum(len(node.cpus) for node in machine.nodes)
    sockets = sum(1 for node in machine.nodes if node.cpus)
    memory_mib = sum(node.size_mib for node in listed if not node.plugged)
    plugged_mib = sum(node.size_mib for node in machine.nodes if node.plugged)
    slots = sum(node.plugged for node in machine.nodes)
    room = f",slots={slots},maxmem={memory_mib + plugged_mib}M" if slots else ""
    hmat = ",hmat=on" if described else ""
    cxl = ",cxl=on" if devices else ""
    words = ["-machine", f"{board}{hmat}{cxl}", "-m", f"{memory_mib}M{room}"]
    words += ["-smp", f"{cpus},sockets={sockets},cores={cpus // sockets},threads=1"]
    for node in listed:
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
    for source, row in enumerate(machine.distances[: len(listed)]):
        for target, distance in enumerate(row[: len(listed)]):
            if source < target:
                words += ["-numa", f"dist,src={source},dst={target},val={distance}"]
    for node in described:
        lb = f"hmat-lb,initiator={node.initiator},target={node.id},hierarchy=memory"
        words += ["-numa", f"{lb},data-type=access-latency,latency={node.latency_ns}"]
        words += ["-numa", f"{lb},data-type=access-bandwidth,bandwidth={node.bandwidth_mbps}M"]
    return [*words, *(word for node in devices for word in _cxl_device(node))]


def _cxl_device(node: MachineNode) -> list[str]:
    """Return the options of a CXL type 3 device with its host bridge, root port and window."""
    bridge, size = f"cxl.{node.id}", f"{node.size_mib}M"
    window = f"cxl-fmw.0.targets.0={bridge},cxl-fmw.0.size={size}"
    return [
        *("-object", f"memory-backend-ram,id=c{node.id},size={size}"),
        *("-device", f"pxb-cxl,bus_nr=12,bus=pcie.0,id={bridge}"),
        *("-device", f"cxl-rp,port=0,bus={bridge},id=rp{node.id},chassis=0,slot=2"),
        *("-device", f"cxl-type3,bus=rp{node.id},volatile-memdev=c{node.id},id=device{node.id}"),
        *("-machine", window),
    ]
