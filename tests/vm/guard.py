"""Refuses to change a kernel, except in a guest that our own runner has booted.

It does so in two ways. Suites that write to kernel files call `require_guest` first. And each test
process is watched, so that a write to this machine's kernel files by mistake fails.
"""

import os
import sys
from pathlib import Path

# The runner puts this on the kernel command line of each guest. Nothing else does.
MARK = "tierd.vm=1"

CMDLINE = Path("/proc/cmdline")

# Files of the whole machine, not of one process. A write there affects all programs.
KERNEL_TREES = ("/sys", "/proc/sys", "/proc/sysrq-trigger")

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

# The audit events of Python for changes to a file system, and which of their arguments are paths.
# The event `open` is not here, because it depends on the flags if an open file can change.
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
    """True if the mark is a word of the kernel command line."""
    return MARK in cmdline.split()


def require_guest() -> None:
    """Raise NotAGuest unless this is a guest. Call it before the first write to a kernel file."""
    if not in_guest(CMDLINE.read_text()):
        raise NotAGuest(
            f"{CMDLINE} does not bear {MARK}: this is no guest of ours, and its kernel is not "
            "ours to change; run this through `python -m tests.vm`"
        )


def changed_paths(event: str, arguments: tuple[object, ...]) -> list[str]:
    """Return the paths that an audit event is about to change."""
    if event == "open":
        path, _, flags = arguments
        places = [path] if isinstance(flags, int) and flags & WRITING else []
    else:
        places = [arguments[index] for index in CHANGES.get(event, ())]
    return [os.fsdecode(place) for place in places if isinstance(place, str | bytes | os.PathLike)]


def is_kernel_file(path: str) -> bool:
    """True if a path leads to a file of this machine's kernel, also through links."""
    real = Path(os.path.realpath(path))
    return any(real.is_relative_to(tree) for tree in KERNEL_TREES)


def watch() -> None:
    """Stop this process from changing this machine's kernel from now on, unless it is a guest."""
    if in_guest(CMDLINE.read_text()):
        return

    def refuse(event: str, arguments: tuple[object, ...]) -> None:
        if event != "open" and event not in CHANGES:
            return
        for path in changed_paths(event, arguments):
            if is_kernel_file(path):
                raise NotAGuest(f"{event} would change {path}, a file of this machine's kernel")

    sys.addaudithook(refuse)
