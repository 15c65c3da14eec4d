"""Each program of the benchmark with its driver, small, in one guest with slow memory."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from bench import machines, program, turns
from tests.vm import apt, built, guest, rootfs
from tests.vm.errors import VmError
from tests.vm.slow import Slowness
from tierd.sim import machine_model

BEFORE, AFTER = 2, 3
# Small, because only the driver is tested. masim and pgbench have no smaller unit.
ITEMS = {"redis": 2000, "memcached": 2000, "hnswlib": 500, "sqlite": 500}

# The sizes of the cold memory beside redis differ by a number only, so one of them is enough.
BESIDE = program.BY_NAME["redis-beside-86"]
TESTED = tuple(one for one in program.PROGRAMS if not one.hog_share or one is BESIDE)


def items(chosen: program.Program) -> int:
    return ITEMS.get(chosen.name.partition("-beside-")[0], 1)


def served(chosen: program.Program) -> guest.Command:
    lengths = (
        "--before",
        str(BEFORE),
        "--after",
        str(AFTER),
        "--items",
        str(items(chosen)),
    )
    words = ("--program", chosen.name, "--turns", "none,all-fast", *lengths)
    return guest.Command(("python3", "-B", "-m", "bench.serving", *words), timeout_s=600)


@pytest.mark.vm
@pytest.mark.rare
@pytest.mark.timeout(1800)
def test_programs_are_filled_and_asked() -> None:
    machine = machine_model.load("two-tier")
    verdict = guest.run(
        "7.2", machine, [served(one) for one in TESTED], machines.drivers(),
        append=machines.DROPS_TRANSLATIONS, suite=rootfs.NEWER_SUITE, slow=Slowness(),
        programs=program.PACKAGES,
    )  # fmt: skip
    for chosen, result in zip(TESTED, verdict.results, strict=True):
        assert result.status == 0, f"{chosen.name}: {result.stderr}"
        told = json.loads(result.stdout)
        found = dict(turns.split(told, (), [node.id for node in machine.nodes]))
        assert list(found) == ["none", "all-fast"]
        for seen in found.values():
            asked = seen["served"]
            assert len(asked["operations"]) >= BEFORE + AFTER - 2, chosen.name
            assert min(asked["operations"]) > 0
            assert all(
                p50 <= p99 for p50, p99 in zip(asked["p50_us"], asked["p99_us"], strict=True)
            )
            assert sum(seen["pages"]["first"].values()) > 0, "its data was found"
    # Each driver marks when it begins, and the end of each of its seconds. The counters only grow.
    assert sum(mark.line == 0 for mark in verdict.marks) >= len(TESTED)
    sums = [sum(mark.misses) for mark in verdict.marks]
    assert sums == sorted(sums)


Read = Callable[[str], str]

# The reader of masim's configurations, on this machine. It makes no accesses here.


@pytest.fixture
def read(tmp_path: Path) -> Read:
    if shutil.which("gcc") is None:
        pytest.skip("there is no gcc to build tests/vm/masim.c")
    path = tmp_path / "a.cfg"

    def run(text: str) -> str:
        path.write_text(text)
        return apt.run([str(built.program("masim")), str(path)]).replace(f"{path}:", "")

    return run


CONFIG = """\
# regions
a, 100000000
b, 4096

# phases
set up
10000
a, 0, 4096, 1
b, 0, 4096, 1

reads and updates
500
a, 0, 4096, 50, ro
b, 1, 8, 5, rw
"""


def test_a_configuration_of_masim_is_read(read: Read) -> None:
    assert read(CONFIG).splitlines() == [
        "region a 100000000",
        "region b 4096",
        "phase 10000 set up",
        "pattern a in order 4096 1 w",
        "pattern b in order 4096 1 w",
        "phase 500 reads and updates",
        "pattern a in order 4096 50 r",
        "pattern b random 8 5 rw",
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a, many\n", "1: 'a, many', expected NAME, BYTES"),
        ("a, 4096\n\nlow\nsoon\n", "4: 'soon', expected milliseconds"),
        ("a, 4096\n\nlow\n10\nb, 0, 64, 1\n", "5: 'b', expected the name of a region"),
        ("a, 4096\n\nlow\n10\na, 2, 64, 1\n", "5: 'a, 2, 64, 1', expected REGION, 0 or 1"),
        ("a, 4096\n\nlow\n10\na, 0, 64, 1, xo\n", "expected REGION, 0 or 1"),
        ("a, 4096\n\nlow\n10\n\n", "'low', expected a phase with a pattern"),
        ("a, 4096\n", "expected a phase"),
    ],
)
def test_a_wrong_configuration_is_told_with_its_line(read: Read, text: str, told: str) -> None:
    with pytest.raises(VmError) as error:
        read(text)
    assert told in str(error.value)


@pytest.mark.parametrize("path", sorted(Path("bench/masim").glob("*.cfg")), ids=lambda p: p.stem)
def test_our_own_configurations_are_as_large_as_they_say(read: Read, path: Path) -> None:
    lines = [line.split() for line in read(path.read_text()).splitlines()]
    assert sum(int(line[2]) for line in lines if line[0] == "region") == 200_000_000
