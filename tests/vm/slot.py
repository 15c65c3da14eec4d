"""Limits how many guests run at a time: one per machine, because it uses all processors."""

import fcntl
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.vm.cache import lock_file
from tests.vm.errors import Missing, VmError

# This variable may allow more of them, on a machine with enough processors.
COUNT_VARIABLE = "TIERD_VM_COUNT"

# The longest guest of another process takes ten minutes, and two of them may be before us. This is
# less than the bound of a test, so that the test fails with the message of this file.
WAIT_S_MAX = 1500.0

FOLDER = Path("/tmp")


@contextmanager
def held() -> Iterator[None]:
    """Hold one of this user's slots for guests. Wait for it, within a bound.

    The slots do not depend on the cache.
    """
    fds = [lock_file(path) for path in paths()]
    try:
        _take_one(fds)
        yield
    finally:
        for fd in fds:
            os.close(fd)


def paths() -> list[Path]:
    """Return the files to lock, one per slot."""
    text = os.environ.get(COUNT_VARIABLE, "1")
    if not text.isdecimal() or int(text) < 1:
        raise Missing(
            f"{COUNT_VARIABLE} is {text!r}, and should be how many guests may run: 1 or more"
        )
    return [
        FOLDER / f"tierd-{os.getuid()}.vm{f'-{number}' if number else ''}.lock"
        for number in range(int(text))
    ]


def _take_one(fds: list[int]) -> None:
    if any(_taken(fd) for fd in fds):
        return
    # This waits in the kernel. A process that polled would come after all that wait there.
    fd = fds[os.getpid() % len(fds)]
    argv = ["flock", "--timeout", f"{WAIT_S_MAX:g}", str(fd)]
    if subprocess.run(argv, pass_fds=[fd], check=False).returncode:
        raise VmError(
            f"other virtual machines have run for {WAIT_S_MAX / 60:g} minutes, and so many may at "
            f"a time: {len(fds)}; {COUNT_VARIABLE} can be set to more"
        )


def _taken(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
