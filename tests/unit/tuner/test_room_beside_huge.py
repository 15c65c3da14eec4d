"""Room for what comes up by page, where most pages of the fast node are huge."""

from dataclasses import replace

from tests.fixtures.readings import DOWN, LIMITS, MIB, N, decide, rates, reading
from tests.unit.tuner.test_pages import TWO, sweeps_of
from tierd.tuner import gate
from tierd.tuner.climb import Climb
from tierd.tuner.demand import ControllerState
from tierd.tuner.measurement import SchemeMeasurement
from tierd.tuner.pages import PagesState

SWEEPS = sweeps_of(TWO)
BY_PAGE = replace(LIMITS, sweeps=SWEEPS)


def demoted(huge_bytes: int, climb: Climb, cold: int = 400 * MIB) -> float:
    """Return how fast regions go down if all room is used, and nothing is hot below."""
    still = {one.id: SchemeMeasurement(0, 0, one.quota_bytes, 0.1) for one in SWEEPS}
    seen = replace(reading(cold=cold), sweeps=still)
    nodes = {**seen.nodes, 0: replace(seen.nodes[0], huge_bytes=huge_bytes)}
    state = ControllerState(pages=PagesState(climbs={1: climb}))
    return rates(decide(replace(seen, nodes=nodes), state, BY_PAGE))[1]


def test_regions_make_the_room_only_where_visits_cannot() -> None:
    assert demoted(0, Climb()) == 0
    made = demoted(N, Climb())
    assert made == min(gate.ahead_bytes(N, float("inf")) / 1.0, DOWN.rate_max_bytes_per_s)


def test_they_make_none_that_no_climb_wants() -> None:
    assert demoted(N, Climb(fills=True)) == 0
    few = demoted(N, Climb(expects_bytes=0.0))
    assert 0 < few < demoted(N, Climb())


def test_hot_memory_makes_no_room() -> None:
    assert demoted(N, Climb(), cold=0) == 0
