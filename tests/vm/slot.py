"""How many guests run at a time: one, machine-wide, because an emulated one wants all of it."""

import fcntl
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.vm.cache import lock_file
from tests.vm.errors import Missing, VmError

# On a machine with processors to spare it may be more.
COUNT_VARIABLE = "TIERD_VM_COUNT"

# Somebody else's longest guest takes ten minutes; two of them may be before us. Less than the
# bound of a test, so that what a test says then is this file's sentence.
WAIT_S_MAX = 1500.0

FOLDER = Path("/tmp")


@contextmanager
def held() -> Iterator[None]:
    """Hold one of this user's slots for guests, whatever the cache; wait for it, within a bound."""
    fds = [lock_file(path) for path in paths()]
    try:
        _take_one(fds)
        yield
    finally:
        for fd in fds:
            os.close(fd)


def paths() -> list[Path]:
    """A file per slot."""
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
    # Asleep in the kernel, and not looking in now and then: who looks in comes last.
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
