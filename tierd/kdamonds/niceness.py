"""The niceness of kdamonds: programs come first where they want all processors.

A kernel thread begins with the weight of any program, and one that wakes up for a sample takes the
processor from it. The number of a thread lives as long as the thread, so nothing is to be restored.
"""

import os
from contextlib import suppress

from tierd.sysfs import Sysfs, optional

# With this weight a kdamond gets a tenth of a processor that a program wants, which is more than
# its budget, and it does not hold up one that wakes up. Not more: a program that touches a page on
# its way waits until the kdamond has moved it.
NICENESS = 10

# The kernel's name of each kdamond, with a number after it (kdamond_fn's thread, mm/damon/core.c).
NAME = "kdamond."


def let_programs_first(sysfs: Sysfs, pid: int) -> None:
    """Set the niceness of a kdamond of this machine."""
    # In a container this is the number of another process, or of none: DAMON tells the machine's.
    name = optional(sysfs, f"proc/{pid}/comm")
    if name is None or not name.startswith(NAME):
        return
    # A sandbox may forbid the call. The kdamond may end meanwhile.
    with suppress(PermissionError, ProcessLookupError):
        os.setpriority(os.PRIO_PROCESS, pid, NICENESS)
