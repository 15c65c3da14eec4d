"""The report of `tierd doctor --bundle`: what tierd sees of a machine, without private names.

Rules of this file: the report holds only files that the doctor and the plan read. It holds no name
of a program, a host or a cgroup. The files below `machine/` can be unpacked and given to `--root`.
"""

import io
import re
import tarfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tierd.configuration.config import Config
from tierd.doctor.facts import Facts, Unreadable
from tierd.frozen import replace
from tierd.machine import btf
from tierd.machine.cgroups import Cgroups
from tierd.machine.swap import IN_MEMORY
from tierd.planning import cgroup_tops
from tierd.plans.groups import bases as group_bases
from tierd.record.rundir import FileError
from tierd.sysfs import Sysfs
from tierd.views.visible import visible

README = """\
A report of `tierd doctor --bundle`.

doctor.txt, doctor.json  every check; programs are called program-1, program-2, ...
plan.txt                 what tierd would do, or why it would not
config.yaml              the configuration in force, without classes of cgroups
status.json              the status of the daemon, if it ran
machine/                 the kernel's files that tierd read: tierd plan --root machine
"""

# These files name programs, users and cgroups. The findings from them are in the report.
_PRIVATE = re.compile(
    r"proc/\d+/|proc/cmdline|proc/swaps|proc/sys/kernel/random/|etc/|run/|usr/|lib/|sys/fs/cgroup/"
    r"|.*/(memcg_)?path$"
)
# Folders whose existence is a fact: the memory blocks of a node, and its initiators.
_TELLING = re.compile(r"sys/devices/system/node/.*(memory|node)\d+$")
# The address of the kernel's code is secret (KASLR).
_KERNEL_ADDRESS = re.compile(r"^.* : Kernel .*\n?", re.MULTILINE)

# 3 characters: a shorter name also occurs inside other words.
_SECRET_LENGTH_MIN = 3


@dataclass(slots=True)
class Recorder:
    """A Sysfs that records everything that is read through it."""

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
    """Return the facts with numbers for the names of programs, cgroups and swap devices."""
    listed = facts.processes
    if not isinstance(listed, Unreadable):
        listed = tuple(
            replace(process, name=f"program-{rank}", pid=rank)
            for rank, process in enumerate(listed, 1)
        )
    swaps = facts.swaps
    if not isinstance(swaps, Unreadable):
        swaps = tuple(
            replace(one, name=f"{IN_MEMORY if one.in_memory else 'swap'}-{n}")
            for n, one in enumerate(swaps, 1)
        )
    config = facts.config
    if isinstance(config, Unreadable):
        config = Unreadable(config.why.splitlines()[0], config.hint)
    return replace(facts, processes=listed, swaps=swaps, config=config, cgroups=_unnamed(facts))


def _unnamed(facts: Facts) -> Cgroups | Unreadable:
    """Return the cgroups, with numbers for those that the configuration does not name."""
    if isinstance(facts.cgroups, Unreadable) or isinstance(facts.config, Unreadable):
        return facts.cgroups
    tops = cgroup_tops(facts.config)
    numbered = {
        path if path in tops else f"{top}/{number}": size
        for number, (path, size) in enumerate(sorted(facts.cgroups.own_bytes.items()), 1)
        for top in tops
        if path == top or path.startswith(f"{top}/")
    }
    return replace(facts.cgroups, own_bytes=numbered)


def secrets(config: Config | Unreadable, hostname: str) -> tuple[str, ...]:
    """Return the names that the report must not hold, longest first."""
    names = {hostname}
    if not isinstance(config, Unreadable):
        for one in config.cgroups:
            names |= {one.name, *one.paths}
        for group in config.shares:
            names |= {group.name, *group.paths, *group_bases((group,))}
    return tuple(sorted((n for n in names if len(n) >= _SECRET_LENGTH_MIN), key=lambda n: -len(n)))


def machine_files(recorder: Recorder) -> dict[str, bytes]:
    """Return the kernel's files that were read, without the private ones."""
    files = {
        path: (_KERNEL_ADDRESS.sub("", text) + "\n").encode("utf-8", "surrogateescape")
        for path, text in recorder.texts.items()
    }
    files |= {path: _small(path, blob) for path, blob in recorder.blobs.items()}
    return {f"machine/{p}": content for p, content in files.items() if not _PRIVATE.match(p)}


def machine_folders(recorder: Recorder) -> tuple[str, ...]:
    return tuple(f"machine/{path}" for path in sorted(recorder.folders) if _TELLING.match(path))


def scrubbed(text: str, names: Iterable[str]) -> bytes:
    """Return the text with every secret replaced, and without control characters."""
    for name in names:
        text = text.replace(name, "REDACTED")
    return visible(text).encode()


def write(path: Path, files: Mapping[str, bytes], folders: Iterable[str]) -> None:
    """Write the archive; it holds no user name and no time."""
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
    """Return the file as it is, but of the kernel's types (megabytes) only those of DAMON."""
    if path != btf.PATH:
        return blob
    types = btf.Btf.parse(blob)
    names = {name for name in types.names() if name.lower().startswith(("damon", "damos"))}
    structs = {name: sorted(found) for name in names if (found := types.members(name))}
    return btf.encode(sorted(names - set(structs)), structs)
