"""Join minutes that are alike into one line, so that a day of a steady machine is small. Pure."""

from collections.abc import Sequence

from tierd.frozen import replace
from tierd.profile.panel import Kept
from tierd.profile.profile import Line

# At most so many minutes are one line: nobody wants to wait longer for a line on disk.
JOINED_MAX = 10

# Minutes are alike if they differ in less than this share of the memory of each tier, and of the
# time under pressure. A panel of a thousand pages differs by half of that by chance.
ALIKE_SHARE = 0.03


def are_alike(left: Line, right: Line) -> bool:
    """Return whether two lines say the same about a machine."""
    tiers = zip(left.heat, right.heat, strict=True)
    moved = max(
        sum(abs(a - b) for a, b in zip(one, other, strict=True)) / 2 for one, other in tiers
    )
    used = max(abs(a - b) for a, b in zip(left.used, right.used, strict=True))
    return max(moved, used, abs(left.pressure - right.pressure)) < ALIKE_SHARE


def added(pending: Line | None, minute: Line) -> tuple[Line | None, Line]:
    """Return the line that is finished, if any, and the one that goes on."""
    if pending is None:
        return None, minute
    if pending.minutes < JOINED_MAX and are_alike(pending, minute):
        return None, joined((pending, minute))
    return pending, minute


def joined(lines: Sequence[Line]) -> Line:
    """Return several lines as one: means of what is measured, sums of what is counted."""
    total = sum(line.minutes for line in lines)
    weights = [line.minutes / total for line in lines]

    def mean(values: Sequence[float]) -> float:
        return sum(weight * value for weight, value in zip(weights, values, strict=True))

    def kept(values: Sequence[Kept]) -> Kept:
        return Kept(sum(one.before for one in values), sum(one.now for one in values))

    def last(values: Sequence[float | None]) -> float | None:
        return next((one for one in reversed(values) if one is not None), None)

    return replace(
        lines[0],
        minutes=total,
        heat=tuple(
            tuple(mean(shares) for shares in zip(*tier, strict=True))
            for tier in zip(*(line.heat for line in lines), strict=True)
        ),
        used=tuple(mean(one) for one in zip(*(line.used for line in lines), strict=True)),
        idle=tuple(last(one) for one in zip(*(line.idle for line in lines), strict=True)),
        lasting=tuple(kept(one) for one in zip(*(line.lasting for line in lines), strict=True)),
        hot=kept([line.hot for line in lines]),
        close=tuple(map(sum, zip(*(line.close for line in lines if line.close), strict=True))),
        near=tuple(kept(one) for one in zip(*(line.near for line in lines), strict=True)),
        alloc_bytes_per_s=round(mean([line.alloc_bytes_per_s for line in lines])),
        pressure=mean([line.pressure for line in lines]),
        major_faults_per_s=mean([line.major_faults_per_s for line in lines]),
    )
