"""Fetches Debian packages from the machine's own mirror, with package lists of our own.

The URIs and keys of the machine's sources are copied into the cache, with other suites. apt then
checks all signatures as always, and the machine's own apt stays as it was.
"""

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from tests.vm import cache
from tests.vm.errors import Endless, Missing, VmError

T = TypeVar("T")

# Packages are of this architecture if no other one is named.
ARCHITECTURE = "amd64"

# The suites that the kernels and QEMU come from.
SUITES = ("trixie", "trixie-backports", "forky", "sid")

# This variable may name a mirror, for machines without a Debian source to copy (such as Ubuntu).
MIRROR_VARIABLE = "TIERD_VM_MIRROR"

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"

SOURCES = (Path("/etc/apt/sources.list.d"), Path("/etc/apt/sources.list"))

# Lists older than this are fetched again, because mirrors drop the packages of old ones.
LISTS_AGE_S_MAX = 12 * 3600

# The largest package has 120 MB. Ten minutes are enough for it at 200 kB/s.
COMMAND_S_MAX = 600


@dataclass(frozen=True, slots=True)
class Source:
    """Where the machine gets Debian from, and the keys that it trusts."""

    uri: str
    signed_by: str


def parse_sources(text: str) -> list[Source]:
    """Return the sources of a deb822 file that have the component main."""
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
    """Return the sources of a one-line-style sources.list that have the component main."""
    found = []
    for line in text.splitlines():
        match = re.match(r"deb\s+(?:\[([^]]*)\]\s+)?(\S+)\s+\S+\s+.*\bmain\b", line)
        if match:
            signed = re.search(r"signed-by=(\S+)", match[1] or "")
            found.append(Source(match[2], signed[1] if signed else keyring))
    return found


def machine_source() -> Source:
    """Return the machine's Debian mirror: the source that has whole suites, not only updates."""
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
    """Return the first mirror if the URI names a file of mirrors, else the URI.

    Debian's cloud images name such a file. Only apt understands its URI.
    """
    path = Path(uri.removeprefix("mirror+file:").replace("//", "/"))
    if not uri.startswith("mirror+file:") or not path.is_file():
        return uri
    words = [line.split()[0] for line in path.read_text().splitlines() if line.strip()]
    return next((word for word in words if not word.startswith("#")), uri)


# This replaces the machine's own configuration, which may have hooks, or turn off checks of
# signatures or dates. Only the settings for the way to a mirror are kept (`way()`). No package
# counts as installed. Credentials are in a separate file, auth.conf, which apt reads as always.
CONFIGURATION = """\
Dir::Etc::parts "/dev/null";
Dir::Etc::main "/dev/null";
Dir::Etc::sourcelist "/dev/null";
Dir::Etc::sourceparts "{folder}/sources";
Dir::Etc::preferencesparts "/dev/null";
Dir::Etc::preferences "/dev/null";
Dir::State::lists "{folder}/lists";
Dir::State::status "{folder}/status";
Dir::Cache "{folder}/cache";
Dir::Cache::pkgcache "pkgcache.bin";
Dir::Cache::srcpkgcache "srcpkgcache.bin";
APT::Architecture "{architecture}";
APT::Architectures "{architecture}";
APT::Sandbox::User "root";
APT::Default-Release "";
APT::Get::List-Cleanup "false";
Acquire::Languages "none";
Acquire::GzipIndexes "true";
Acquire::Retries "2";
"""

# The settings that a machine may need to reach a mirror: proxies for all hosts or for one host, and
# certificates for https.
WAY = re.compile(
    r"Acquire::https?::(?:[^:\s]+::)?(?:Proxy(?:::\S+)?|Proxy-Auto-Detect|CA-?(?:Info|Path)"
    r"|SslCert|SslKey) ",
    re.IGNORECASE,
)


def way(dump: str) -> str:
    """Return the lines of `apt-config dump` that may be needed to reach a mirror."""
    return "".join(f"{line}\n" for line in dump.splitlines() if WAY.match(line))


@dataclass(frozen=True, slots=True)
class Apt:
    """apt with lists of its own, below `folder`."""

    folder: Path
    architecture: str = ARCHITECTURE

    def run(self, *argv: str, cwd: Path | None = None) -> str:
        """Run one of apt's programs with our configuration, which apt reads before any other."""
        return run(argv, cwd, {"APT_CONFIG": str(self.folder / "apt.conf")})

    def versions(self, pattern: str) -> list[tuple[str, str]]:
        """Return name and version of each package whose name matches, the newest last."""
        names = self.run("apt-cache", "search", "--names-only", pattern).split("\n")
        packages = [line.split(" - ")[0] for line in names if line]
        if not packages:
            return []
        text = self.run("apt-cache", "madison", *packages)
        rows = [[cell.strip() for cell in line.split("|")] for line in text.splitlines()]
        return [(row[0], row[1]) for row in rows if len(row) > 1]

    def download(self, package: str, version: str, into: Path) -> Path:
        """Download a .deb, and return its path. apt checks the chain of signatures."""
        self.run("apt-get", "download", f"{package}={version}", cwd=into)
        return next(into.glob(f"{package}_*.deb"))


def ready(*, refresh: bool = False, architecture: str = ARCHITECTURE) -> Apt:
    """Return an apt whose package lists are new enough. Fetch them if they are not."""
    if shutil.which("apt-get") is None:
        raise Missing("no apt-get: Debian's kernels are fetched with it")
    name = "apt" if architecture == ARCHITECTURE else f"apt-{architecture}"
    folder = cache.folder() / name
    apt = Apt(folder, architecture)
    stamp = folder / "stamp"
    with cache.lock(name):
        try:
            _prepare(apt)
        except OSError as error:
            raise VmError(f"cannot write {folder}: {error.strerror}") from error
        if not refresh and stamp.exists() and _age_s(stamp) < LISTS_AGE_S_MAX:
            return apt
        # On a full disk `apt-get update` never ends. A download does end.
        cache.require_room()
        if _update(apt, machine_source()):
            stamp.touch()
    return apt


def tried(work: Callable[[Apt], T], architecture: str = ARCHITECTURE) -> T:
    """Return what was made with packages. If that fails, fetch the lists and try once more.

    A mirror drops a package when a newer one comes. Our lists may be older than that.
    """
    source = ready(architecture=architecture)
    try:
        return work(source)
    except Missing:
        raise
    except VmError:
        return work(ready(refresh=True, architecture=architecture))


def _prepare(apt: Apt) -> None:
    folder = apt.folder
    for part in ("sources", "lists/partial", "cache/archives/partial"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    machine = run(["apt-config", "dump"])
    configuration = CONFIGURATION.format(folder=folder, architecture=apt.architecture)
    (folder / "apt.conf").write_text(configuration + way(machine))
    (folder / "status").touch()


def _update(apt: Apt, source: Source) -> bool:
    """Fetch the lists of all suites that the mirror has. True if it has all of them."""
    update = ("apt-get", "update", "--error-on=any")
    parts = {suite: apt.folder / f"sources/{suite}.sources" for suite in SUITES}
    for part in (apt.folder / "sources").iterdir():
        part.unlink()
    for suite, part in parts.items():
        part.write_text(
            f"Types: deb\nURIs: {source.uri}\nSuites: {suite}\nComponents: main\n"
            f"Architectures: {apt.architecture}\nSigned-By: {source.signed_by}\n"
        )
    try:
        apt.run(*update)
        return True
    except (Missing, Endless):
        raise
    except VmError as error:
        kept = [suite for suite in SUITES if _updates(apt, update, parts[suite])]
        if not kept:
            raise Missing(f"no package lists from {source.uri}: {error}") from error
        for suite in set(SUITES) - set(kept):
            parts[suite].unlink()
        return False


def _updates(apt: Apt, update: Sequence[str], part: Path) -> bool:
    """True if the lists of one suite alone can be fetched."""
    alone = ("-o", f"Dir::Etc::sourcelist={part}", "-o", "Dir::Etc::sourceparts=/dev/null")
    try:
        apt.run(*update, *alone)
    except VmError:
        return False
    return True


def _age_s(path: Path) -> float:
    return time.time() - path.stat().st_mtime


def run(
    argv: Sequence[str], cwd: Path | None = None, environ: Mapping[str, str] | None = None
) -> str:
    """Run a command and return its output. If it fails, the error has its last words."""
    try:
        process = subprocess.Popen(
            argv,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env={
                **os.environ,
                "LC_ALL": "C",
                "DEBIAN_FRONTEND": "noninteractive",
                **(environ or {}),
            },
            # A process group of its own, so that debootstrap's children can be killed with it.
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
