"""Bring hot pages of a node down whose bandwidth is the limit. Pure.

While a fast node answers later than slower memory (`latencies`), pages that are read from slower
memory are read sooner, and those that stay are too. So a part of them goes down, by one sweep in
the order of the addresses, until both nodes answer alike. Each part goes by fresh readings.
"""

from tierd.frozen import dataclass, replace
from tierd.plans.plan import Visit
from tierd.tuner.gate import CLOSED, YIELD_FIRST, Gate, Room, Seen, until, yield_share
from tierd.tuner.latencies import READINGS
from tierd.units import format_size

# Of the memory in use, this part of the excess goes down at first, and twice as much each time that
# it was not enough, up to a half. How much is needed differs by far: next to nothing where waiting
# grows steeply, about half of the excess where it grows evenly with what is read. So no more goes
# down than about twice what is needed.
PART_FIRST = 1 / 16
PART_MAX = 1 / 2

# A part is down when this share of it is left. Few pages that are in use are found at a time, and
# to wait for the last ones would take as long again.
LEFT_SHARE = 1 / 4

# The next part waits until most readings of a median have seen the last one.
NEW_READINGS = READINGS // 2 + 1


@dataclass(frozen=True, slots=True)
class Relief:
    """The relief of one node."""

    left_bytes: float = 0.0
    """What of the present part must still go down."""
    least_bytes: float = 0.0
    """The part is down when so much is left."""
    part: float = PART_FIRST
    """How much of the excess the next part is."""
    read: int = 0
    """How many readings of latencies there were when the last part was down."""
    rounds: int = 0
    visited_bytes: int = 0
    """The memory that was visited in this round."""
    yield_share: float = YIELD_FIRST
    """The share of visited memory that went down lately: the part of the node that is in use."""

    @property
    def is_open(self) -> bool:
        return self.left_bytes > 0


def step(
    before: Relief, seen: Seen, room: Room, *, held: bool, passes_cheaply: bool = True
) -> tuple[Relief, Gate]:
    """Return a relief after a tick, and whether its sweep is open.

    If it `passes_cheaply`, its speed is that of what moves, and else that of what it visits.
    """
    now = _followed(before, seen)
    excess, read = room.answers.excess, room.answers.read
    if before.is_open:
        # What moved is seen only in readings that are still to come.
        now = replace(now, read=read)
    if not excess:
        part = now.part if room.answers.is_late else PART_FIRST
        return replace(now, left_bytes=0.0, part=part), CLOSED
    if not now.is_open and read >= now.read + NEW_READINGS:
        left_bytes = now.part * excess * now.yield_share * seen.round_bytes
        now = replace(
            now,
            left_bytes=left_bytes,
            least_bytes=LEFT_SHARE * left_bytes,
            part=min(PART_MAX, 2 * now.part),
        )
    if held or not now.is_open:
        return now, CLOSED
    share = 1.0 if passes_cheaply else now.yield_share
    return now, until(min(now.left_bytes, room.fits_bytes), share, seen)


def _followed(before: Relief, seen: Seen) -> Relief:
    visited = before.visited_bytes + seen.visited_bytes.get(Visit.relieve, 0)
    left_bytes = before.left_bytes - seen.moved_bytes.get(Visit.relieve, 0)
    is_round = visited >= seen.round_bytes
    return replace(
        before,
        left_bytes=left_bytes if left_bytes > before.least_bytes else 0.0,
        visited_bytes=0 if is_round else visited,
        rounds=before.rounds + is_round,
        yield_share=yield_share(before.yield_share, seen, Visit.relieve),
    )


def reason(now: Relief, room: Room, gate: Gate) -> str:
    """Return what relief does now, in words."""
    if gate.is_open:
        return f"visits pages: {format_size(round(now.left_bytes))} go down because {room.stopped}"
    if now.is_open:
        return f"waits: {format_size(round(now.left_bytes))} should go down because {room.stopped}"
    if room.answers.excess:
        return f"waits for {NEW_READINGS} new readings of how late node {room.node} answers"
    return f"closed: node {room.node} is not known to answer later than slower memory"
