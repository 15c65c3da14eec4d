"""A short benchmark on real kernels: a hot set below a full fast node, then another hot set.

The test judges shares and bytes of one run, and which of two configurations is better. Times are
on the page that `python -m bench report` makes.
"""

import pytest

from bench import machines, phase
from bench.configuration import CAP_BYTES_PER_S
from bench.figures import Figures, figures
from tests.e2e import ahead

pytestmark = pytest.mark.vm

# What runs the kernel's law on a series: the kernel's goals, or tierd if the kernel has no goals.
NATIVE = {"6.12": "emulated", "7.2": "damo"}


def measured(series: str, configuration: str, *names: str) -> tuple[dict[str, Figures], int]:
    """Run phases in a guest. Return the figures of each, and the size of a hot set."""
    phases = tuple(phase.BY_NAME[name] for name in names)
    told = machines.in_guest(series, configuration, phases, CAP_BYTES_PER_S)
    shared = {name: value for name, value in told.items() if name != "phases"}
    found = {
        name: figures({"first": name == names[0], **seen, **shared})
        for name, seen in told["phases"].items()
    }
    return found, told["hot_bytes"]


@pytest.mark.parametrize("series", [pytest.param("6.12", marks=pytest.mark.rare), "7.2"])
def test_demand_brings_hot_sets_up_where_native_goals_stand_still(series: str) -> None:
    own, hot_bytes = measured(series, "demand", "static", "shift")
    native, _ = measured(series, NATIVE[series], "static")
    assert not ahead.problems(own, native["static"], hot_bytes, CAP_BYTES_PER_S)
