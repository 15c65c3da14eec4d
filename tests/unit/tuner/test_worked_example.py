"""The worked example of docs/control.md has the figures that the code computes.

The reading and the memory before it are from the simulated machine `two-tier` of Linux 7.3, 3.54 s
after the start of `tierd run --simulate` in virtual time.
"""

import pytest

from tests.fixtures.pages import PAGE_BYTES
from tests.test_tidy import ROOT
from tierd import feedback
from tierd.plans.damon import Metric
from tierd.plans.plan import Aim, Controller, Direction, Migration
from tierd.tuner.demand import ControllerState
from tierd.tuner.habit import Habit
from tierd.tuner.heat import Heat
from tierd.tuner.measurement import Limits, Measurement, NodeMeasurement, SchemeMeasurement
from tierd.tuner.node_state import NodeState
from tierd.tuner.throttle import Input

PAGE = (ROOT / "docs/control.md").read_text(encoding="utf-8")

UP, DOWN = "promote-1-0", "demote-0-1"
MB = 1_000_000

LIMITS = Limits(
    controller=Controller.demand,
    page_bytes=PAGE_BYTES,
    migrations=(
        Migration(
            id=DOWN,
            direction=Direction.demote,
            source_node=0,
            target_node=1,
            kdamond=0,
            scheme=0,
            window_us=100_000,
            reason="",
            rate_max_bytes_per_s=200 * MB,
            quota_bytes_max=80 * MB,
            aim=Aim(Metric.node_mem_free_bp, 0, 720),
        ),
        Migration(
            id=UP,
            direction=Direction.promote,
            source_node=1,
            target_node=0,
            kdamond=0,
            scheme=0,
            window_us=100_000,
            reason="",
            rate_max_bytes_per_s=200 * MB,
            quota_bytes_max=80 * MB,
            aim=Aim(Metric.node_mem_used_bp, 0, 9300),
        ),
    ),
    headroom_bp=50,
    charges_failures=False,
)

BEFORE = ControllerState(
    nodes={
        0: NodeState(
            used_bytes=449_314_816,
            all_heat_bytes=55_510_290.6,
            waiting_bytes=40_890_506.0,
            filled_bytes_per_s=18_787.6,
            allocation_bytes_per_s=30_006.8,
        )
    },
    habits={
        DOWN: Habit(window_s=0.10618284755748574, share_moved=0.7240387864056099),
        UP: Habit(window_s=0.09369683607966726, share_moved=0.7833919573035906),
    },
    heats={
        0: Heat(3_255_964, 65_117.0, 65_117.0, (866_932, 594_886)),
        1: Heat(40_717_841, 172_665.0, 949_358.7, (50_645_261, 41_000_588)),
    },
)

SEEN = Measurement(
    seconds=0.48750899999999975,
    nodes={
        0: NodeMeasurement(
            total_bytes=487_936_000,
            free_bytes=36_786_176,
            mark_bytes=34_627_584,
            cold_bytes=387_302_047,
            heat_bytes=7_177_785,
            faint_bytes=1_201_010,
        ),
        1: NodeMeasurement(
            total_bytes=1_056_788_480,
            free_bytes=763_187_200,
            mark_bytes=71_012_352,
            hot_bytes=132_240_353,
            heat_bytes=40_597_099,
            faint_bytes=375_946,
        ),
    },
    schemes={
        DOWN: SchemeMeasurement(11_616_256, 12_582_912, 2_853_305, 0.12072044398766694),
        UP: SchemeMeasurement(4_812_800, 14_417_920, 2_262_461, 0.1218555186405317),
    },
)


def test_the_worked_example_is_what_the_code_computes() -> None:
    memory, adjustment = feedback.adjust(BEFORE, SEEN, LIMITS)
    up, down = adjustment.wants[UP], adjustment.wants[DOWN]
    found = {
        "headroom": adjustment.headroom_bytes[0] / MB,
        "demotion": down.bytes_per_s / MB,
        "promotion": up.bytes_per_s / MB,
        "demotion's quota": down.quota_bytes / MB,
        "promotion's quota": up.quota_bytes / MB,
        "lasting heat": memory.heats[1].lasting_bytes / MB,
    }
    assert found == pytest.approx(
        {
            "headroom": 37.07,
            "demotion": 49.37,
            "promotion": 30.13,
            "demotion's quota": 6.68,
            "promotion's quota": 3.67,
            "lasting heat": 40.2,
        },
        rel=2e-3,
    )
    assert adjustment.inputs[UP] == Input(7270, 10_100, 2)
    assert adjustment.inputs[DOWN] == Input(4695, 10_100, 2)
    assert up.reason in PAGE.replace("\n", " ")


@pytest.mark.parametrize(
    "figure", ["37.07 MB", "49.37 MB", "30.13 MB/s", "6.68 MB", "3.67 MB", "**7270**", "**4695**"]
)
def test_the_page_has_the_figures(figure: str) -> None:
    assert figure in PAGE
