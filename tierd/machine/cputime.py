"""The CPU time of kernel threads such as kdamonds, as totals that never become less, and their
niceness.
"""

from tierd import figures
from tierd.frozen import dataclass
from tierd.sysfs import Sysfs, optional

# utime and stime are fields 14 and 15 of /proc/PID/stat. Field 2 is a name in parentheses, which
# may contain spaces, so the fields are counted from its end.
UTIME_AFTER_NAME = 11
# The niceness is field 19.
NICE_AFTER_NAME = 16


@dataclass(frozen=True, slots=True)
class CpuTotal:
    """The CPU time of a thread and of all threads that it replaced."""

    total_s: float = 0.0
    pid: int = 0
    seen_s: float = 0.0


def parse(path: str, text: str, ticks_per_s: int) -> float:
    """Return the CPU time in seconds, from the text of /proc/PID/stat."""
    times = _after_name(path, text)[UTIME_AFTER_NAME : UTIME_AFTER_NAME + 2]
    return sum(figures.number(path, ticks) for ticks in times) / ticks_per_s


def niceness(sysfs: Sysfs, pid: int) -> int | None:
    """Return the niceness of a thread; None if it is gone, or not seen from here."""
    path = f"proc/{pid}/stat"
    text = optional(sysfs, path) if pid > 0 else None
    if text is None:
        return None
    return figures.number(path, _after_name(path, text)[NICE_AFTER_NAME], -20, 19)


def _after_name(path: str, text: str) -> list[str]:
    """Return the fields after the name."""
    fields = text.rpartition(")")[2].split()
    if len(fields) <= NICE_AFTER_NAME:
        raise figures.Garbled(path, "52 fields", text)
    return fields


def read(sysfs: Sysfs, pid: int, ticks_per_s: int) -> float | None:
    """Return the CPU time of a thread in seconds; None if it is gone."""
    path = f"proc/{pid}/stat"
    text = optional(sysfs, path, often=True) if pid > 0 else None
    return None if text is None else parse(path, text, ticks_per_s)


def advance(before: CpuTotal, pid: int, seconds: float) -> CpuTotal:
    """Return the new total, when thread `pid` has used `seconds` since it started."""
    same = before.pid == pid and seconds >= before.seen_s
    growth = seconds - before.seen_s if same else seconds
    return CpuTotal(before.total_s + growth, pid, seconds)
