"""Checks a short run of the benchmark: `demand` works, and better than the other tuner. Pure."""

from collections.abc import Mapping

from bench import phase
from bench.figures import Figures

# On an idle machine 95 % of a hot set arrives within a quarter of a phase. On a machine that is
# several times slower half of it must arrive.
ARRIVED_MIN = 0.5

# The benchmark's bar is 1.15, for a median. This is for one trial on a busy machine.
PROMOTED_PER_HOT_BYTE_MAX = 2.0

# The benchmark's bar is the cap, in each direction. On a busy machine the length of windows varies,
# and so does what moves in one second. A window without a limit would move the whole set at once.
FIRST_SECOND_PER_CAP_MAX = 1.5


def problems(own: Mapping[str, Figures], native: Figures, hot_bytes: int, cap: int) -> list[str]:
    """Return a sentence for each thing that is wrong. An absent figure counts as wrong."""
    found = []
    if own["static"].residency_mean <= native.residency_mean:
        found.append("static: not ahead of the kernel's law")
    first = own["static"].first_second_bytes
    if first is None or first > 2 * FIRST_SECOND_PER_CAP_MAX * cap:
        found.append(f"static: {first} bytes in the first second")
    for name in ("static", *phase.trials(phase.BY_NAME["shift"])):
        if own[name].residency_end < max(ARRIVED_MIN, native.residency_end):
            found.append(
                f"{name}: {own[name].residency_end:.0%} of the accesses are fast at the end"
            )
        if own[name].promoted_bytes < ARRIVED_MIN * hot_bytes:
            found.append(f"{name}: only {own[name].promoted_bytes} bytes arrived")
        if own[name].promoted_bytes > PROMOTED_PER_HOT_BYTE_MAX * hot_bytes:
            found.append(f"{name}: {own[name].promoted_bytes} bytes for a set of {hot_bytes}")
    return found
