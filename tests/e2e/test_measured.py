"""`tierd doctor --measure` finds how slow the memory of a guest is."""

import json

import pytest

from tests.vm import guest, slow
from tests.vm.slow import Slowness
from tierd.sim import machine_model

TWO_TIER = machine_model.load("two-tier")

# Slow enough that the work of an emulated processor between two accesses does not count. The
# bandwidth is more than such a processor can use, so it is not judged here.
SLOWNESS = Slowness(stretch=40)

# The accepted error of the difference of two latencies, with the noise of a shared host.
TOLERANCE = 0.25


@pytest.mark.vm
@pytest.mark.rare
def test_the_latencies_are_those_of_the_memory() -> None:
    command = guest.Command(
        ("python3", "-B", "-m", "tierd", "doctor", "--measure", "--json"), timeout_s=600
    )
    result = guest.run("7.2", TWO_TIER, [command], slow=SLOWNESS).results[0]
    fast, below = json.loads(result.stdout)["measured"]
    told = f"{fast} {below}"
    assert fast["refused"] == below["refused"] == "", told
    assert (fast["firmware_latency_ns"], below["firmware_latency_ns"]) == (100, 300)
    assert min(fast["read_mbps"], below["read_mbps"]) > 0, told
    asked = {node.id: slow.latency_ps(node, SLOWNESS) / 1000 for node in TWO_TIER.nodes}
    more_ns = below["latency_ns"] - fast["latency_ns"]
    assert more_ns == pytest.approx(asked[1] - asked[0], rel=TOLERANCE), told
