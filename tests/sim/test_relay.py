"""How a decision is passed on: three calls from the loop to it, and one place that writes it."""

import re
import traceback

import pytest

from tests.sim.loop import cold, hot, loop
from tierd.configuration.config import Config, Tuner
from tierd.sim.sim_kernel import SimKernel
from tierd.tuner import demand

CONFIG = Config(tuner=Tuner.demand)
# What a decision changes while a plan runs: the current value of goals, and the marks that open
# sweeps on kernels before 7.1.
STEERING = "loop/steering.py"
STEERED = re.compile(r"kdamonds/.*/(goals/\d+/current_value|watermarks/\w+)$")


def test_three_calls_lead_from_the_loop_to_a_decision(monkeypatch: pytest.MonkeyPatch) -> None:
    decide, seen = demand.decide, set()

    def traced(*arguments: object) -> object:
        stack = traceback.extract_stack()[:-1]
        first = next(at for at, one in enumerate(stack) if one.filename.endswith(STEERING))
        seen.add(tuple(one.name for one in stack[first:]))
        return decide(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(demand, "decide", traced)
    loop("7.2", "two-tier", hot("hot", 1, 64), config=CONFIG).run(5)
    assert seen == {("step", "step", "adjust")}


@pytest.mark.parametrize("series", ["6.12", "7.2"])
def test_one_function_writes_what_was_decided(series: str, monkeypatch: pytest.MonkeyPatch) -> None:
    write, writers = SimKernel.write, set()

    def traced(kernel: SimKernel, path: str, value: str) -> None:
        if STEERED.search(path):
            own = (one for one in traceback.extract_stack() if one.filename.endswith(STEERING))
            # The first of them to be called is the loop's; the last one writes.
            writers.add(tuple(one.name for one in own)[-1:])
        write(kernel, path, value)

    monkeypatch.setattr(SimKernel, "write", traced)
    made = loop(series, "two-tier", hot("hot", 1, 64), cold("cold", 0, 400), config=CONFIG)
    made.run(10)
    # A plan that starts is written as a whole, and not by the steering.
    assert writers == {(), ("_write",)}
