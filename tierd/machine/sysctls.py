"""Finds what sets a sysctl on this machine: the kernel's command line, sysctl.d or a tuned profile.

Only reads. If none of these places sets the current value, it was set by hand.
"""

import configparser
import re
from collections.abc import Iterator

from tierd.frozen import dataclass
from tierd.sysfs import Sysfs, SysfsError

CMDLINE = "proc/cmdline"
TUNED_ACTIVE = "etc/tuned/active_profile"

# A file in an earlier directory replaces one of the same name in a later one (sysctl.d(5)).
SYSCTL_FOLDERS = (
    "etc/sysctl.d",
    "run/sysctl.d",
    "usr/local/lib/sysctl.d",
    "usr/lib/sysctl.d",
    "lib/sysctl.d",
)
SYSCTL_CONF = "etc/sysctl.conf"
TUNED_FOLDERS = ("etc/tuned/profiles", "etc/tuned", "usr/lib/tuned/profiles", "usr/lib/tuned")

# 20 profiles: tuned's own profiles include at most three others. Each is read once.
PROFILES_MAX = 20
# The name of a profile is the name of a folder.
_PROFILE = re.compile(r"\w[\w.+-]*")

_ASSIGNMENT = re.compile(r"^\s*-?\s*([\w./-]+)\s*=\s*(\S+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Claim:
    """A place that sets a sysctl, and the value that it sets."""

    where: str
    value: str


def claims(sysfs: Sysfs, key: str) -> tuple[Claim, ...]:
    """Return every place that sets `key`, in the order in which they take effect."""
    return (*_from_cmdline(sysfs, key), *_from_sysctl_d(sysfs, key), *_from_tuned(sysfs, key))


def owner(claimed: tuple[Claim, ...], value: str) -> Claim | None:
    """Return the last claim that sets the current value; None if none does."""
    return next((claim for claim in reversed(claimed) if claim.value == value), None)


def _from_cmdline(sysfs: Sysfs, key: str) -> Iterator[Claim]:
    # setup_numabalancing() knows two words, and ignores all others.
    words = {"enable": "1", "disable": "0"}
    name = key.removeprefix("kernel.")
    for word in (_text(sysfs, CMDLINE) or "").split():
        option, _, said = word.partition("=")
        if option == name and said in words:
            yield Claim("the kernel's command line", words[said])


def _from_sysctl_d(sysfs: Sysfs, key: str) -> Iterator[Claim]:
    files: dict[str, str] = {}
    for folder in SYSCTL_FOLDERS:
        for name in _names(sysfs, folder):
            if name.endswith(".conf"):
                files.setdefault(name, f"{folder}/{name}")
    for path in (*(files[name] for name in sorted(files)), SYSCTL_CONF):
        for found, value in _ASSIGNMENT.findall(_text(sysfs, path) or ""):
            if found.replace("/", ".") == key:
                yield Claim(f"/{path}", value)


def _from_tuned(sysfs: Sysfs, key: str) -> Iterator[Claim]:
    seen: set[str] = set()
    for profile in (_text(sysfs, TUNED_ACTIVE) or "").split():
        value = _tuned_value(sysfs, profile, key, seen)
        if value is not None:
            yield Claim(f"the tuned profile {profile}", value)


def _tuned_value(sysfs: Sysfs, profile: str, key: str, seen: set[str]) -> str | None:
    """Return the value that a profile sets, or else one of the profiles that it includes."""
    if profile in seen or len(seen) >= PROFILES_MAX or not _PROFILE.fullmatch(profile):
        return None
    seen.add(profile)
    parsed = _tuned_profile(sysfs, profile)
    if parsed is None:
        return None
    own = parsed.get("sysctl", key, fallback=None)
    if own is not None:
        return own.lstrip(">= ").strip()
    value = None
    includes = parsed.get("main", "include", fallback=None) or ""
    for included in includes.replace(",", " ").split():
        value = _tuned_value(sysfs, included, key, seen) or value
    return value


def _tuned_profile(sysfs: Sysfs, profile: str) -> configparser.RawConfigParser | None:
    for folder in TUNED_FOLDERS:
        text = _text(sysfs, f"{folder}/{profile}/tuned.conf")
        if text is not None:
            parser = configparser.RawConfigParser(strict=False, allow_no_value=True)
            try:
                parser.read_string(text)
            except (configparser.Error, AttributeError):
                # A file that tuned itself cannot read sets nothing. AttributeError: Python 3.11
                # fails if a key without a value continues on the next line.
                return None
            return parser
    return None


def _names(sysfs: Sysfs, folder: str) -> tuple[str, ...]:
    try:
        return sysfs.listdir(folder)
    except SysfsError:
        return ()


def _text(sysfs: Sysfs, path: str) -> str | None:
    """Return a file's text; None if it is absent or cannot be read, as it then sets nothing."""
    try:
        return sysfs.read(path)
    except SysfsError:
        return None
