"""Debian packages from the machine's own mirror, with lists of our own.

The machine's sources are read for their URIs and keys, and copied with other suites into the
cache; apt then checks every signature as always, and the machine's own apt stays as it was.
"""

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.vm import cache
from tests.vm.errors import Endless, Missing, VmError

# The suites that the kernels and QEMU come from.
SUITES = ("trixie", "trixie-backports", "forky", "sid")

# Where there is no Debian source to copy (on Ubuntu, say), this variable may name a mirror.
MIRROR_VARIABLE = "TIERD_VM_MIRROR"

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"

SOURCES = (Path("/etc/apt/sources.list.d"), Path("/etc/apt/sources.list"))

# Lists older than this are fetched again, because mirrors drop the packages of old ones.
LISTS_AGE_S_MAX = 12 * 3600

# The largest package has 120 MB: ten minutes are a mirror at 200 kB/s.
COMMAND_S_MAX = 600


@dataclass(frozen=True, slots=True)
class Source:
    """Where the machine gets Debian from, and whose signatures it trusts."""

    uri: str
    signed_by: str


def parse_sources(text: str) -> list[Source]:
    """The stanzas of a deb822 file that are about a Debian archive with a main component."""
    found = []
    for stanza in re.split(r"\n\s*\n", text):
        lines = [line for line in stanza.splitlines() if not line.startswith("#")]
        fields = dict(re.findall(r"^([\w-]+):[ \t]*(.+)$", "\n".join(lines), re.MULTILINE))
        if "deb" not in fields.get("Types", "").split() or "main" not in fields.get(
            "Components", ""
        ):
            continue
        if fields.get("Enabled", "yes") == "no":
            continue
        signed_by = fields.get("Signed-By", KEYRING)
        found += [Source(uri, signed_by) for uri in fields.get("URIs", "").split()]
    return found


def parse_list(text: str, keyring: str) -> list[Source]:
    """The lines of a one-line-style sources.list."""
    found = []
    for line in text.splitlines():
        match = re.match(r"deb\s+(?:\[([^]]*)\]\s+)?(\S+)\s+\S+\s+.*\bmain\b", line)
        if match:
            signed = re.search(r"signed-by=(\S+)", match[1] or "")
            found.append(Source(match[2], signed[1] if signed else keyring))
    return found


def machine_source() -> Source:
    """The machine's Debian mirror: the source whose archive holds whole suites, not updates."""
    chosen = os.environ.get(MIRROR_VARIABLE)
    if chosen:
        return Source(chosen, KEYRING)
    texts = []
    for place in SOURCES:
        files = sorted(place.glob("*")) if place.is_dir() else [place]
        texts += [(file, file.read_text()) for file in files if file.is_file()]
    found: list[Source] = []
    for file, text in texts:
        found += parse_sources(text) if file.suffix == ".sources" else parse_list(text, KEYRING)
    found = [Source(_first_mirror(one.uri), one.signed_by) for one in found]
    ours = [one for one in found if re.search(r"/debian/?$", one.uri)]
    if not ours:
        raise Missing(
            "this machine's apt has no Debian source to get kernels from; "
            f"{MIRROR_VARIABLE} may name a mirror"
        )
    return ours[0]


def _first_mirror(uri: str) -> str:
    """Debian's images for clouds name a file of mirrors, which only apt would understand."""
    path = Path(uri.removeprefix("mirror+file:").replace("//", "/"))
    if not uri.startswith("mirror+file:") or not path.is_file():
        return uri
    words = [line.split()[0] for line in path.read_text().splitlines() if line.strip()]
    return next((word for word in words if not word.startswith("#")), uri)


# Read after the machine's own configuration, whose proxies and credentials stay in force. Its
# hooks do not: they tidy, and tell others of, lists that are not ours. Nothing counts as installed.
CONFIGURATION = """\
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
Dir::Etc::sourcelist "/dev/null";
Dir::Etc::sourceparts "{folder}/sources";
Dir::Etc::preferencesparts "/dev/null";
Dir::Etc::preferences "/dev/null";
Dir::State::lists "{folder}/lists";
Dir::State::status "{folder}/status";
Dir::Cache "{folder}/cache";
Dir::Cache::pkgcache "pkgcache.bin";
Dir::Cache::srcpkgcache "srcpkgcache.bin";
APT::Sandbox::User "root";
APT::Default-Release "";
APT::Get::List-Cleanup "false";
Acquire::Languages "none";
Acquire::GzipIndexes "true";
Acquire::Retries "2";
Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";
Acquire::IndexTargets::deb::CNF::DefaultEnabled "false";
"""


@dataclass(frozen=True, slots=True)
class Apt:
    """apt with lists of its own, below `folder`."""

    folder: Path

    @property
    def options(self) -> tuple[str, ...]:
        return ("-c", str(self.folder / "apt.conf"))

    def versions(self, pattern: str) -> list[tuple[str, str]]:
        """Package and version of every package whose name matches the expression, newest last."""
        names = run(["apt-cache", *self.options, "search", "--names-only", pattern]).split("\n")
        packages = [line.split(" - ")[0] for line in names if line]
        if not packages:
            return []
        text = run(["apt-cache", *self.options, "madison", *packages])
        rows = [[cell.strip() for cell in line.split("|")] for line in text.splitlines()]
        return [(row[0], row[1]) for row in rows if len(row) > 1]

    def download(self, package: str, version: str, into: Path) -> Path:
        """The .deb, its signature chain checked by apt."""
        run(["apt-get", *self.options, "download", f"{package}={version}"], cwd=into)
        return next(into.glob(f"{package}_*.deb"))


def ready(*, refresh: bool = False) -> Apt:
    """apt with lists that are fresh enough, or fetched just now."""
    if shutil.which("apt-get") is None:
        raise Missing("no apt-get: Debian's kernels are fetched with it")
    folder = cache.folder() / "apt"
    apt = Apt(folder)
    stamp = folder / "stamp"
    with cache.lock("apt"):
        try:
            _prepare(folder)
        except OSError as error:
            raise VmError(f"cannot write {folder}: {error.strerror}") from error
        if not refresh and stamp.exists() and _age_s(stamp) < LISTS_AGE_S_MAX:
            return apt
        # apt's update does not end on a full disk, other than its download.
        cache.require_room()
        if _update(apt, machine_source()):
            stamp.touch()
    return apt


def _prepare(folder: Path) -> None:
    for part in ("sources", "lists/partial", "cache/archives/partial"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    (folder / "apt.conf").write_text(CONFIGURATION.format(folder=folder))
    (folder / "status").touch()


def _update(apt: Apt, source: Source) -> bool:
    """Fetch the lists of the suites that there are; whether those were all."""
    update = ["apt-get", *apt.options, "update", "--error-on=any"]
    parts = {suite: apt.folder / f"sources/{suite}.sources" for suite in SUITES}
    for part in (apt.folder / "sources").iterdir():
        part.unlink()
    for suite, part in parts.items():
        part.write_text(
            f"Types: deb\nURIs: {source.uri}\nSuites: {suite}\nComponents: main\n"
            f"Architectures: amd64\nSigned-By: {source.signed_by}\n"
        )
    try:
        run(update)
        return True
    except (Missing, Endless):
        raise
    except VmError as error:
        kept = [suite for suite in SUITES if _updates(update, parts[suite])]
        if not kept:
            raise Missing(f"no package lists from {source.uri}: {error}") from error
        for suite in set(SUITES) - set(kept):
            parts[suite].unlink()
        return False


def _updates(update: Sequence[str], part: Path) -> bool:
    """Whether a suite's lists can be fetched, by themselves."""
    alone = ("-o", f"Dir::Etc::sourcelist={part}", "-o", "Dir::Etc::sourceparts=/dev/null")
    try:
        run([*update, *alone])
    except VmError:
        return False
    return True


def _age_s(path: Path) -> float:
    return time.time() - path.stat().st_mtime


def run(argv: Sequence[str], cwd: Path | None = None) -> str:
    """A command's output; its failure is a sentence with its last words."""
    try:
        process = subprocess.Popen(
            argv,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env={**os.environ, "LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"},
            # A group of its own: debootstrap has children, which must not outlive it.
            start_new_session=True,
        )
    except FileNotFoundError as error:
        raise Missing(f"{argv[0]} is not installed") from error
    try:
        stdout, stderr = process.communicate(timeout=COMMAND_S_MAX)
    except subprocess.TimeoutExpired as error:
        raise Endless(f"{argv[0]} did not end within {COMMAND_S_MAX} s") from error
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    if process.returncode:
        last = " / ".join((stderr or stdout).strip().splitlines()[-3:])
        raise VmError(f"`{argv[0]} … {argv[-1]}` failed ({process.returncode}): {last}")
    return stdout
