"""`tierd doctor --bundle`: what tierd sees of a machine, for a bug report, without private names.

Rules of this file: only what the doctor and the plan read gets in; no name of a program, a host or
a cgroup does. Files below `machine/` can be laid out again and given to `--root`.
"""

import io
import re
import tarfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from tierd.configuration.config import Config
from tierd.doctor.facts import Facts, Hidden
from tierd.machine import btf
from tierd.record.rundir import FileError
from tierd.sysfs import Sysfs

README = """\
A report of `tierd doctor --bundle`.

doctor.txt, doctor.json  every check, with programs as program-1, program-2, ...
plan.txt                 what tierd would do, or why it would not
config.yaml              the configuration in force, without cgroup classes
status.json              what the daemon said, if it ran
machine/                 the kernel's files that tierd read: tierd plan --root machine
"""

# Of these the doctor tells what it concluded, but the files name programs, users and cgroups.
_PRIVATE = re.compile(
    r"proc/\d+/|proc/cmdline|proc/swaps|proc/sys/kernel/random/|etc/|run/|usr/|lib/|sys/fs/cgroup/"
    r"|.*/(memcg_)?path$"
)
# Folders that stand for a fact by being there: memory blocks of a node, initiators of access.
_TELLING = re.compile(r"sys/devices/system/node/.*(memory|node)\d+$")
# Where the kernel's code lies is a secret of this boot (KASLR).
_KERNEL_ADDRESS = re.compile(r"^.* : Kernel .*\n?", re.MULTILINE)

# A name this short would be found within other words.
_SECRET_LENGTH_MIN = 3


@dataclass(slots=True)
class Recorder:
    """A Sysfs that keeps what was read through it."""

    inner: Sysfs
    texts: dict[str, str] = field(default_factory=dict)
    blobs: dict[str, bytes] = field(default_factory=dict)
    folders: set[str] = field(default_factory=set)

    def read(self, path: str) -> str:
        self.texts[path] = self.inner.read(path)
        return self.texts[path]

    def reread(self, path: str) -> str:
        self.texts[path] = self.inner.reread(path)
        return self.texts[path]

    def read_bytes(self, path: str) -> bytes:
        self.blobs[path] = self.inner.read_bytes(path)
        return self.blobs[path]

    def write(self, path: str, value: str) -> None:
        raise AssertionError(f"a report is about to write {value!r} to {path}")

    def exists(self, path: str) -> bool:
        return self.inner.exists(path)

    def listdir(self, path: str) -> tuple[str, ...]:
        names = self.inner.listdir(path)
        self.folders.update(f"{path}/{name}" for name in names)
        return names


def without_names(facts: Facts) -> Facts:
    """The facts with programs and swap devices numbered, and no text of the configuration."""
    listed = facts.processes
    if not isinstance(listed, Hidden):
        listed = tuple(
            replace(process, name=f"program-{rank}", pid=rank)
            for rank, process in enumerate(listed, 1)
        )
    swaps = facts.swaps
    if isinstance(swaps, str):
        lines = swaps.splitlines()
        swaps = "\n".join([*lines[:1], *(f"swap-{n}" for n, _ in enumerate(lines[1:], 1))])
    config = facts.config
    if isinstance(config, Hidden):
        config = Hidden(config.why.splitlines()[0], config.hint)
    return replace(facts, processes=listed, swaps=swaps, config=config)


def secrets(config: Config | Hidden, hostname: str) -> tuple[str, ...]:
    """Names that no text of the report may hold, longest first."""
    classes = () if isinstance(config, Hidden) else config.cgroups
    names = {hostname, *(one.name for one in classes), *(p for one in classes for p in one.paths)}
    return tuple(sorted((n for n in names if len(n) >= _SECRET_LENGTH_MIN), key=lambda n: -len(n)))


def machine_files(recorder: Recorder) -> dict[str, bytes]:
    """What was read of the kernel's files, without what is private."""
    files = {
        path: (_KERNEL_ADDRESS.sub("", text) + "\n").encode("utf-8", "surrogateescape")
        for path, text in recorder.texts.items()
    }
    files |= {path: _small(path, blob) for path, blob in recorder.blobs.items()}
    return {f"machine/{p}": content for p, content in files.items() if not _PRIVATE.match(p)}


def machine_folders(recorder: Recorder) -> tuple[str, ...]:
    return tuple(f"machine/{path}" for path in sorted(recorder.folders) if _TELLING.match(path))


def scrubbed(text: str, names: Iterable[str]) -> bytes:
    """The text as the report has it: every secret is replaced."""
    for name in names:
        text = text.replace(name, "REDACTED")
    return text.encode()


def write(path: Path, files: Mapping[str, bytes], folders: Iterable[str]) -> None:
    """Write the report; nobody's name and no time gets into it from the archive itself."""
    try:
        with path.open("xb") as out, tarfile.open(fileobj=out, mode="w:gz") as archive:
            for folder in folders:
                entry = tarfile.TarInfo(folder)
                entry.type, entry.mode = tarfile.DIRTYPE, 0o755
                archive.addfile(entry)
            for name, content in sorted(files.items()):
                entry = tarfile.TarInfo(name)
                entry.size, entry.mode = len(content), 0o644
                archive.addfile(entry, io.BytesIO(content))
    except FileExistsError as error:
        raise FileError(f"{path} exists already", "name another file") from error
    except OSError as error:
        raise FileError(f"cannot write {path}: {error.strerror}", "name another file") from error


def _small(path: str, blob: bytes) -> bytes:
    """The kernel's types are megabytes, of which only DAMON's matter."""
    if path != btf.PATH:
        return blob
    types = btf.Btf.parse(blob)
    names = {name for name in types.names() if name.lower().startswith(("damon", "damos"))}
    structs = {name: sorted(found) for name in names if (found := types.members(name))}
    return btf.encode(sorted(names - set(structs)), structs)
