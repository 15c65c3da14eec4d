"""How far the sweep that promotes is behind the one that clears, and how it gets there. Pure.

Where the input of a goal opens a sweep, the second one opens a lag after the first. Where a commit
opens it, that is too late for a short lag: two commits are 0.2 s and more apart. So one commit
opens both where they are. If they are a little too far apart or too near, it also makes one of them
slower, by a smaller quota. The next commits correct what is left.
"""

from tierd.frozen import replace
from tierd.plans.plan import Visit
from tierd.tuner.gate import CLOSED, Gate, Gates, Seen

# The sweep that promotes is close to the other one if it is behind by so many seconds at most. If a
# command takes a tenth of a second, it cannot be closer.
CLOSE_S = 0.4

# A drain ends so many windows before the place where the other sweep has stopped, because it may be
# closed late. Pages beyond that place were not cleared in this round, so all of them would look
# young. The pages that a drain leaves out look young when it goes on, if they were touched since
# they were cleared.
SHORT_WINDOWS = 1

# If the sweep that promotes is behind by more than so many times the lag, it comes closer first.
FAR = 2.0

# The distance is right if it differs from the lag by this share of it, or by a window.
NEAR_SHARE = 0.25

# Until the next tick so much of the difference is corrected. A commit takes effect up to a tick
# late, so the last correction may still go on. With four fifths the distance swings.
CORRECTED_SHARE = 0.4

# A sweep becomes slower by this share at most. Else it would lag far behind if a tick is late.
SLOWER_MAX = 0.5


def lag_bytes(lag_s: float, seen: Seen) -> float:
    """Return how far behind the sweep that promotes should be. A lag is a window at least."""
    return max(seen.window_s, lag_s) * seen.bytes_per_s


def is_close(seen: Seen) -> bool:
    """Return whether the sweep that promotes is behind by no more than a few windows."""
    return seen.behind_bytes <= CLOSE_S * seen.bytes_per_s


def stop_together(seen: Seen) -> bool:
    """Return whether both sweeps stop at once, so that one commit opens them again.

    They keep their distance. What lies between them is little, so none of it has to be drained.
    """
    return seen.can_slow and is_close(seen)


def start_together(lag_s: float, seen: Seen) -> bool:
    """Return whether one commit may open both sweeps where they are.

    The sweep that promotes must be behind by a window. Else it would visit what is not cleared.
    """
    follows = seen.behind_bytes >= seen.window_bytes
    return is_close(seen) and follows and steers(_lacks_s(lag_s, seen), seen)


def _lacks_s(lag_s: float, seen: Seen) -> float:
    """Return by how much the distance is shorter than the lag. Negative if it is longer."""
    return (lag_bytes(lag_s, seen) - seen.behind_bytes) / seen.bytes_per_s


def steers(lacks_s: float, seen: Seen) -> bool:
    """Return whether speeds change the distance by so much. A gate is exact enough for more."""
    return seen.can_slow and abs(lacks_s) <= CLOSE_S


def drain_s(seen: Seen) -> float:
    """Return for how long the sweep that promotes may go on after the other one has stopped."""
    return max(0.0, seen.behind_bytes / seen.bytes_per_s - SHORT_WINDOWS * seen.window_s)


def opened(lag_s: float, seen: Seen, gate: Gate) -> Gates:
    """Return gates that open both sweeps by `gate`; the one that clears later, if it is too far."""
    far_s = (seen.behind_bytes - FAR * lag_bytes(lag_s, seen)) / seen.bytes_per_s
    if steers(far_s, seen):
        return kept(lag_s, seen, promote=gate, clear=gate)
    later = Gate(is_open=False, then_open=True, after_s=far_s) if gate.then_open else CLOSED
    return {Visit.clear: later if far_s > 0 else gate, Visit.promote: gate}


def kept(lag_s: float, seen: Seen, *, promote: Gate, clear: Gate) -> Gates:
    """Return these gates with the speeds that bring the distance to the lag, if speeds can be set.

    The distance changes by the difference of both speeds. So it matters little when a commit takes
    effect.
    """
    lacks_s = _lacks_s(lag_s, seen)
    if steers(lacks_s, seen) and abs(lacks_s) > max(seen.window_s, NEAR_SHARE * lag_s):
        slower = min(SLOWER_MAX, CORRECTED_SHARE * abs(lacks_s) / seen.seconds)
        if lacks_s > 0:
            promote = replace(promote, slower=slower)
        else:
            clear = replace(clear, slower=slower)
    return {Visit.promote: promote, Visit.clear: clear}
