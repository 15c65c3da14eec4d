"""Promotion stops where the fast node answers no sooner than the slow one, and goes on after it."""

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest

from tests.sim.loop import Loop, cold, hot, loop
from tierd.configuration.config import Config, Mode
from tierd.machine.sample import Latency
from tierd.topology import Topology
from tierd.tuner.latencies import KNOWN_READINGS, READINGS

HOT_MIB = 160
IDLE_NS, SLOW_NS = 100.0, 250.0


@dataclass
class Memory:
    """Latencies of a machine: the more of the hot set a node has, the later it answers."""

    made: Loop
    load: float = 1.0
    asked: int = 0

    def read(
        self, _topology: Topology, asked: Mapping[int, tuple[int, ...]]
    ) -> tuple[Latency, ...]:
        self.asked += bool(asked)
        busy = self.load * self.made.share("hot", 0)
        # With half of the hot set the fast node answers as late as the slow one.
        fast_ns = IDLE_NS + 2 * (SLOW_NS - IDLE_NS) * busy
        found = {(0, 0): fast_ns, (0, 1): SLOW_NS}
        return tuple(
            Latency(near, node, found[near, node])
            for near, slower in asked.items()
            for node in (near, *slower)
        )


def machine(series: str, **changes: Any) -> tuple[Loop, Memory]:
    config = replace(Config(rate_max_bytes_per_s=4_000_000), **changes)
    sets = cold("cold", 0, 300), hot("hot", 1, HOT_MIB)
    made = loop(series, "two-tier", *sets, config=config)
    memory = Memory(made)
    made.latencies = memory.read
    return made, memory


@pytest.mark.parametrize("series", ["6.12", "7.2"])
def test_a_fast_node_that_is_saturated_gets_no_more(series: str) -> None:
    made, memory = machine(series)
    memory.load = 0.2
    made.do(16, lambda: setattr(memory, "load", 1.0))
    shares: list[float] = []
    for second in (45, 59):
        made.do(second, lambda: shares.append(made.share("hot", 0)))
    made.do(60, lambda: setattr(memory, "load", 0.1))
    made.run(120)
    # It is late with half of the set. Then come three readings, and what is on its way. What was
    # too much goes down again, from 7.2 on.
    assert shares[0] == pytest.approx(shares[1], abs=0.06 if series == "7.2" else 0.01)
    assert 0.45 <= shares[1] < 0.65
    why = {one.scheme: one.reason for one in made.before(59).schemes}["promote-1-0"]
    assert why.startswith("parked: node 0 answers in ")
    assert "slower memory in 250 ns" in why
    # When programs read less, the rest comes up.
    assert made.share("hot", 0) > 0.9


@pytest.mark.parametrize("series", ["7.2", "7.3"])
def test_hot_pages_go_down_where_programs_begin_to_read_too_much(series: str) -> None:
    made, memory = machine(series)
    memory.load = 0.2
    # Nothing comes up any more when the load rises.
    made.do(130, lambda: setattr(memory, "load", 1.0))
    shares: list[float] = []
    for second in (129, 330, 389):
        made.do(second, lambda: shares.append(made.share("hot", 0)))
    made.do(390, lambda: setattr(memory, "load", 0.1))
    made.run(480)
    assert shares[0] > 0.9
    # With half of the set both nodes answer alike. It comes to an end there, and nothing goes up
    # and down for ever.
    assert 0.35 < shares[1] < 0.56
    assert shares[2] == pytest.approx(shares[1], abs=0.02)
    reasons = {
        one.reason
        for snapshot in made.snapshots
        for one in snapshot.schemes
        if one.scheme == "relieve-pages-0-1"
    }
    assert any("go down because node 0 answers in" in one for one in reasons), reasons
    assert made.share("hot", 0) > 0.9


@pytest.mark.parametrize(
    "changes", [{"measures_latency": False}, {"mode": Mode.observe}], ids=["off", "observing"]
)
def test_nothing_is_measured_if_it_is_off(changes: dict[str, Any]) -> None:
    made, memory = machine("7.2", **changes)
    made.run(20)
    assert not memory.asked


def test_little_is_measured_while_nothing_comes_up() -> None:
    made = loop("7.2", "two-tier", cold("cold", 1, 300), hot("hot", 0, HOT_MIB))
    memory = Memory(made, load=0.0)
    made.latencies = memory.read
    counts: list[int] = []
    for second in (59, 299, 599):
        made.do(second, lambda: counts.append(memory.asked))
    made.run(600)
    # At the start it learns whether the nodes differ. Then it looks once a minute.
    assert 0 < counts[0] <= KNOWN_READINGS + READINGS
    assert counts[2] - counts[1] == pytest.approx(5 * READINGS, abs=READINGS)


def test_a_daemon_that_is_never_asked_loads_nothing_for_it() -> None:
    code = (
        "import sys; from pathlib import Path; from tierd.loop import service;"
        "read = service.real_stage(Path('/')).latencies; assert read(None, {}) == ();"
        "sys.exit('ctypes' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
