"""What the kdamonds cost: the processor time of kernel threads, as totals that never go back."""

from dataclasses import dataclass

from tierd.errors import TierdError
from tierd.sysfs import Sysfs, optional

# utime and stime are the 14th and 15th fields of /proc/PID/stat; the second field is a name in
# parentheses that may hold anything, so fields are counted from its end.
UTIME_AFTER_NAME = 11


@dataclass(frozen=True, slots=True)
class CpuTotal:
    """A thread that may be replaced by another: the sum over all of them."""

    total_s: float = 0.0
    pid: int = 0
    seen_s: float = 0.0


def parse(text: str, ticks_per_s: int) -> float:
    """Seconds on a processor, from the text of /proc/PID/stat."""
    fields = text.rpartition(")")[2].split()
    if len(fields) <= UTIME_AFTER_NAME + 1:
        raise TierdError(f"/proc/PID/stat: expected 52 fields, found {text!r}")
    return (int(fields[UTIME_AFTER_NAME]) + int(fields[UTIME_AFTER_NAME + 1])) / ticks_per_s


def read(sysfs: Sysfs, pid: int, ticks_per_s: int) -> float | None:
    """Seconds on a processor of a thread, or None if it is gone."""
    text = optional(sysfs, f"proc/{pid}/stat") if pid > 0 else None
    return None if text is None else parse(text, ticks_per_s)


def advance(before: CpuTotal, pid: int, seconds: float) -> CpuTotal:
    """The total after thread `pid` has used `seconds` in its life."""
    same = before.pid == pid and seconds >= before.seen_s
    growth = seconds - before.seen_s if same else seconds
    return CpuTotal(before.total_s + growth, pid, seconds)
