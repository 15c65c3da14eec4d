"""`tierd doctor --measure` finds how slow the memory of a guest is."""

import json
from dataclasses import replace

import pytest

from tests.vm import guest, slow
from tests.vm.slow import Slowness
from tierd.sim import machine_model

# An emulated processor reads 200 MB/s. With less bandwidth than that the memory is the limit.
NARROWER = 40
KNOWN = machine_model.load("two-tier")
TWO_TIER = replace(
    KNOWN,
    nodes=tuple(
        replace(node, bandwidth_mbps=(node.bandwidth_mbps or 0) // NARROWER) for node in KNOWN.nodes
    ),
)

SLOWNESS = Slowness()

# The accepted error of the difference of two latencies, and of the ratio of two bandwidths, with
# the noise of a shared host.
TOLERANCE = 0.25


@pytest.mark.vm
@pytest.mark.rare
def test_the_figures_are_those_of_the_memory() -> None:
    command = guest.Command(
        ("python3", "-B", "-m", "tierd", "doctor", "--measure", "--json"), timeout_s=600
    )
    result = guest.run("7.2", TWO_TIER, [command], slow=SLOWNESS).results[0]
    fast, below = json.loads(result.stdout)["measured"]
    told = f"{fast} {below}"
    assert fast["refused"] == below["refused"] == "", told
    assert (fast["firmware_latency_ns"], below["firmware_latency_ns"]) == (100, 300)
    asked = {node.id: slow.latency_ps(node, SLOWNESS) / 1000 for node in TWO_TIER.nodes}
    more_ns = below["latency_ns"] - fast["latency_ns"]
    assert more_ns == pytest.approx(asked[1] - asked[0], rel=TOLERANCE), told
    lines = {node.id: slow.line_ps(node, SLOWNESS) for node in TWO_TIER.nodes}
    narrower = fast["read_mbps"] / below["read_mbps"]
    assert narrower == pytest.approx(lines[1] / lines[0], rel=TOLERANCE), told
