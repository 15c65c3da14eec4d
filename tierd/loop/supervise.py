"""When to do the next step: restarts with back-off, ticks and refreshes by cost, bursts."""

from collections.abc import Mapping
from dataclasses import field

from tierd.frozen import dataclass, replace

# Seconds before a failed start is tried again. The wait doubles from the first value to the second:
# one failure costs a second, and a machine that always fails logs twelve lines an hour.
RETRY_S_MIN = 1.0
RETRY_S_MAX = 300.0

# Seconds after which a kdamond counts as healthy: twice the longest wait. Its next failure has the
# shortest wait again.
HEALTHY_S = 600.0

# Share of its time that the loop spends in updates of statistics. An update blocks until the next
# sample of the kdamond, which is up to 10 s on an idle machine, and all files of DAMON are busy.
REFRESH_SHARE_MAX = 0.1

# The same share for a tuner that needs statistics at every tick. Its sampling is never that slow.
# On 6.12 six or seven commands of 0.1 s then fit into a tick of a second.
STEERING_SHARE_MAX = 0.7

# Share of one processor that the loop may use. A tick takes some milliseconds, so on most machines
# it uses far less. Where Python is slow, as in an emulated machine, ticks and looks at free memory
# are further apart: the processors are for the programs.
LOOP_SHARE_MAX = 0.1

# What the loop did not use in the last seconds may be used soon, at first so much of a processor.
# Where Python is slow, nothing would move for half a minute after a start, and programs wait for
# that too.
SAVED_S = 30.0
SPENT_SHARE = 0.15

# They are at most so many times as far apart. Sweeps go on between two ticks.
SLOWER_MAX = 10.0

# And at most so many times as far apart as a tick before. The first ticks take longer than all
# others, because nothing is in the caches yet. A wait by their cost would be seconds long, in which
# quotas grow.
SLOWER_GROWTH = 2.0


@dataclass(frozen=True, slots=True)
class Retry:
    """How often something has failed, and when to try it again."""

    failures: int = 0
    not_before_s: float = 0.0
    started_s: float | None = None
    """When it last started. None if it has failed since."""

    def due(self, now_s: float) -> bool:
        return now_s >= self.not_before_s


def failed(retry: Retry, now_s: float) -> Retry:
    """Return the state after one more failure. The wait is twice as long as the last one."""
    healthy = retry.started_s is not None and now_s - retry.started_s >= HEALTHY_S
    failures = 1 if healthy else retry.failures + 1
    # The exponent has a bound, because 2**failures would grow without end.
    wait_s = min(RETRY_S_MAX, RETRY_S_MIN * 2 ** min(failures - 1, 16))
    return Retry(failures, now_s + wait_s)


def started(retry: Retry, now_s: float) -> Retry:
    """Return the state after a new start."""
    return Retry(retry.failures, retry.not_before_s, now_s)


@dataclass(frozen=True, slots=True)
class Refresh:
    """When the kernel's statistics were last updated, and what that cost."""

    at_s: float = float("-inf")
    cost_s: float = 0.0
    command_s: float = 0.0
    """The average time of one command."""
    quotas_s: Mapping[int, float] = field(default_factory=dict)
    """When each kdamond was asked for its quotas in force. They are of that moment."""

    def due(self, now_s: float, share_max: float = REFRESH_SHARE_MAX) -> bool:
        return now_s - self.at_s >= self.cost_s * (1 / share_max - 1)


@dataclass(frozen=True, slots=True)
class Pace:
    """How much further apart ticks are than usual, so that the loop uses LOOP_SHARE_MAX at most.

    That is an average over the last SAVED_S seconds.
    """

    slower: float = 1.0
    """The factor. 1 if the loop uses less than that anyway."""
    at_s: float | None = None
    used_s: float = 0.0
    """The processor time of the loop at the end of the last tick, which was at `at_s`."""
    tick_s: float = 0.0
    """How long the last tick took."""
    saved: float = 1.0
    """The part of what may be saved that is saved now. Nothing was used before the first tick."""

    def ticked(self, began_s: float, now_s: float, used_s: float) -> "Pace":
        """Return the pace after a tick. `used_s` is the loop's processor time since it began."""
        tick_s = now_s - began_s
        if self.at_s is None or now_s <= self.at_s:
            return replace(self, at_s=now_s, used_s=used_s, tick_s=tick_s)
        seconds, used = now_s - self.at_s, used_s - self.used_s
        more = (LOOP_SHARE_MAX * seconds - used) / (LOOP_SHARE_MAX * SAVED_S)
        saved = min(1.0, max(0.0, self.saved + more))
        share_max = LOOP_SHARE_MAX + SPENT_SHARE * saved
        slower = self.slower * min(SLOWER_GROWTH, used / seconds / share_max)
        return Pace(min(SLOWER_MAX, max(1.0, slower)), now_s, used_s, tick_s, saved)


@dataclass(frozen=True, slots=True)
class Debounce:
    """Joins a burst of events into one: after `quiet_s` without events, but within `late_s`."""

    first_s: float | None = None
    last_s: float = 0.0

    def heard(self, now_s: float) -> "Debounce":
        return Debounce(now_s if self.first_s is None else self.first_s, now_s)

    def due_s(self, quiet_s: float, late_s: float) -> float | None:
        """Return when to act, or None if there was no event."""
        if self.first_s is None:
            return None
        return min(self.last_s + quiet_s, self.first_s + late_s)
