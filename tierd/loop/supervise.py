"""When to try again what failed: restarts that back off, and a refresh that minds its cost."""

from collections.abc import Mapping
from dataclasses import dataclass, field

# A kdamond that dies at once would otherwise be started every tick. It doubles from a second, so
# that one death costs a second of monitoring, up to five minutes, so that a machine which cannot
# run it logs twelve lines an hour.
RETRY_S_MIN = 1.0
RETRY_S_MAX = 300.0

# A kdamond that ran this long was healthy: its next death starts again at the shortest wait.
HEALTHY_S = 600.0

# An update of the statistics blocks until the kdamond's next sample. The kernel's interval tuning
# stretches that to 10 s on an idle machine, and meanwhile all of DAMON's files say EBUSY. So the
# loop spends at most a tenth of its time in updates.
REFRESH_SHARE_MAX = 0.1

# A tuner needs them at every tick, and lets nobody sample that slowly. On 6.12 each command takes
# 100 ms of waiting: with four of them, and those that steer, there is a tick in 0.9 s.
STEERING_SHARE_MAX = 0.7


@dataclass(frozen=True, slots=True)
class Retry:
    """The memory of a thing that fails now and then."""

    failures: int = 0
    not_before_s: float = 0.0
    started_s: float = 0.0

    def due(self, now_s: float) -> bool:
        return now_s >= self.not_before_s


def failed(retry: Retry, now_s: float) -> Retry:
    """The memory after one more failure: wait twice as long as the last time."""
    healthy = retry.failures > 0 and now_s - retry.started_s >= HEALTHY_S
    failures = 1 if healthy else retry.failures + 1
    # The exponent is bounded too: 2**failures would grow without end on a broken machine.
    wait_s = min(RETRY_S_MAX, RETRY_S_MIN * 2 ** min(failures - 1, 16))
    return Retry(failures, now_s + wait_s, retry.started_s)


def started(retry: Retry, now_s: float) -> Retry:
    """The memory after it was started again."""
    return Retry(retry.failures, retry.not_before_s, now_s)


@dataclass(frozen=True, slots=True)
class Refresh:
    """When the kernel's statistics were last updated, and what that cost."""

    at_s: float = float("-inf")
    cost_s: float = 0.0
    command_s: float = 0.0
    """How long one of the commands for it took, on average."""
    quotas_s: Mapping[int, float] = field(default_factory=dict)
    """By kdamond, when it was asked for its quotas in force, which it tells as of then."""

    def due(self, now_s: float, share_max: float = REFRESH_SHARE_MAX) -> bool:
        return now_s - self.at_s >= self.cost_s * (1 / share_max - 1)


@dataclass(frozen=True, slots=True)
class Debounce:
    """Gathers a burst of events into one: quiet for `quiet_s`, but never later than `late_s`."""

    first_s: float | None = None
    last_s: float = 0.0

    def heard(self, now_s: float) -> "Debounce":
        return Debounce(now_s if self.first_s is None else self.first_s, now_s)

    def due_s(self, quiet_s: float, late_s: float) -> float | None:
        """When to act, or None if nothing was heard."""
        if self.first_s is None:
            return None
        return min(self.last_s + quiet_s, self.first_s + late_s)
