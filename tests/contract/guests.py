"""The suite in a real kernel: boots one guest of a series and returns what was seen there."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.vm import built, guest
from tests.vm.errors import VmError
from tierd.sim import machine_model

MACHINE = "two-tier"

# The suite takes one to two minutes of an emulated guest on an idle machine.
SUITE_S_MAX = 600.0


@dataclass(frozen=True, slots=True)
class Seen:
    """What a kernel showed, by the ids of behaviours."""

    release: str
    lines: Mapping[str, tuple[Mapping[str, object], ...]] = field(default_factory=dict)


def workload() -> Path:
    """The program that holds memory sets in a guest."""
    return built.program("workload", ("-lm",))


def observe(series: str, only: str = "*", times: int = 1) -> Seen:
    """Boot a guest of a series and run the behaviours whose id matches."""
    argv = ("python3", "-B", "-m", "tests.contract.run", "--workload", "/job/workload")
    command = guest.Command(
        (*argv, "--only", only, "--times", str(times)), timeout_s=SUITE_S_MAX * times
    )
    files = {"workload": workload().read_bytes()}
    result = guest.run(series, machine_model.load(MACHINE), [command], files).results[0]
    if result.status != 0:
        last = (result.stdout.splitlines() or ["nothing"])[-1]
        raise VmError(
            f"the contract suite on {series} ended with {result.status} after {last}:\n"
            f"{result.stderr}"
        )
    return parse(result.stdout)


def parse(text: str) -> Seen:
    """What tests.contract.run printed."""
    first, *rest = (json.loads(line) for line in text.splitlines())
    return collected(first["release"], rest)


def collected(release: str, found: Iterable[Mapping[str, object]]) -> Seen:
    """Lines by the behaviour that they are of."""
    lines: dict[str, tuple[Mapping[str, object], ...]] = {}
    for line in found:
        name = str(line["id"])
        lines[name] = (*lines.get(name, ()), line)
    return Seen(release, lines)
