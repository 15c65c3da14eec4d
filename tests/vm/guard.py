"""Refuses to change a kernel anywhere but in a guest that our own runner has booted.

Two ways: suites that mean to write call `require_guest` first, and every test process is watched,
so that one that writes to this machine's kernel files by mistake fails before it has.
"""

import os
import sys
from pathlib import Path

# The runner puts this on the command line of every guest, and nobody else has a reason to.
MARK = "tierd.vm=1"

CMDLINE = Path("/proc/cmdline")

# Files that are the machine's, not a process's own: writing there changes it for everybody.
KERNEL_TREES = ("/sys", "/proc/sys", "/proc/sysrq-trigger")

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

# What Python tells its audit hooks before it changes a file system, and which of the arguments
# are paths. `open` stands for itself: only some ways to open a file change it.
CHANGES = {
    "os.chmod": (0,),
    "os.chown": (0,),
    "os.link": (0, 1),
    "os.mkdir": (0,),
    "os.remove": (0,),
    "os.rename": (0, 1),
    "os.rmdir": (0,),
    "os.symlink": (1,),
    "os.truncate": (0,),
}


class NotAGuest(AssertionError):
    """A test tried to change the machine that it runs on."""


def in_guest(cmdline: str) -> bool:
    """Whether a kernel command line bears the mark, as a word of its own."""
    return MARK in cmdline.split()


def require_guest() -> None:
    """To be called before the first write to a kernel file."""
    if not in_guest(CMDLINE.read_text()):
        raise NotAGuest(
            f"{CMDLINE} does not bear {MARK}: this is no guest of ours, and its kernel is not "
            "ours to change; run this through `python -m tests.vm`"
        )


def changed_paths(event: str, arguments: tuple[object, ...]) -> list[str]:
    """The paths that an audit event is about to change."""
    if event == "open":
        path, _, flags = arguments
        places = [path] if isinstance(flags, int) and flags & WRITING else []
    else:
        places = [arguments[index] for index in CHANGES.get(event, ())]
    return [os.fsdecode(place) for place in places if isinstance(place, str | bytes | os.PathLike)]


def is_kernel_file(path: str) -> bool:
    """Whether a path leads, through whatever links, to a file of this machine's kernel."""
    real = Path(os.path.realpath(path))
    return any(real.is_relative_to(tree) for tree in KERNEL_TREES)


def watch() -> None:
    """From now on this process cannot change this machine's kernel, unless that is a guest."""
    if in_guest(CMDLINE.read_text()):
        return

    def refuse(event: str, arguments: tuple[object, ...]) -> None:
        if event != "open" and event not in CHANGES:
            return
        for path in changed_paths(event, arguments):
            if is_kernel_file(path):
                raise NotAGuest(f"{event} would change {path}, a file of this machine's kernel")

    sys.addaudithook(refuse)
