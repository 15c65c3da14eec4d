"""The benchmark of sizes: its machines and its table, and a few of its cells in short."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from bench import heats, scale
from bench.heats import GIB, HEATS, SIZES, Heat, Size
from bench.scale import Cell, Look, Park
from tierd.configuration.config import Config
from tierd.sim.page_groups import GroupMemory
from tierd.sim.sim_kernel import SimKernel
from tierd.sim.workload import Workload

SMALL = SIZES[0]
HUGE = SIZES[-2]
BY_NAME = {heat.name: heat for heat in HEATS}


def kernel(size: Size, heat: Heat) -> SimKernel:
    made = SimKernel(
        scale.SERIES,
        heats.machine(size),
        workload=Workload(list(heat.events(size)), seed=1),
        cell_pages=heats.cell_pages(size, heat),
    )
    made.advance(0.001)
    heats.lay(made.memory, size, heat, 1)
    return made


@pytest.mark.parametrize("size", SIZES, ids=lambda size: size.name)
def test_a_machine_has_its_sizes_and_tiers(size: Size) -> None:
    made = heats.machine(size)
    assert [node.size_mib * (1 << 20) for node in made.nodes] == [
        *(gib * GIB for gib in size.above_gib),
        size.slow_bytes,
    ]
    tiers = [size.fast_nodes, size.middle_nodes, (size.slow_node,)]
    assert [nodes for _, nodes in made.tiers] == [one for one in tiers if one]


@pytest.mark.parametrize("heat", HEATS, ids=lambda heat: heat.name)
def test_heat_lies_where_it_should_and_fast_nodes_are_full(heat: Heat) -> None:
    memory = kernel(SMALL, heat).memory
    used = memory.managed_pages(0) - memory.free_pages(0)
    assert used >= 0.96 * memory.managed_pages(0)
    if not heat.moves_in_vain and heat.name != "zipf":
        assert memory.pages_of_set(heats.HOT, 0) == 0
        assert memory.pages_of_set(heats.HOT, SMALL.slow_node) > 0


def test_names_say_the_sizes() -> None:
    names = "4+12", "16+16", "32+96", "64+512", "512+1024", "2x512+1024", "512+512+1024"
    assert tuple(size.name for size in SIZES) == names


def test_half_of_the_cold_memory_can_be_pages_that_no_scheme_moves() -> None:
    plain, huge = (kernel(SMALL, BY_NAME[name]).memory for name in ("contiguous", "hugetlb"))
    share = huge.pages_of_set(heats.COLD, 0) / plain.pages_of_set(heats.COLD, 0)
    assert share == pytest.approx(0.5, abs=0.01)
    assert huge.free_pages(0) == plain.free_pages(0)


def test_tasks_wait_where_the_heat_says_so() -> None:
    found = played(SMALL, "pressure", 0.5)
    assert found.looks[-1].arrived >= 0.9, "nobody waits for memory of the fast node"


def test_chunks_are_scattered_and_whole() -> None:
    memory = kernel(SMALL, BY_NAME["chunks-8M"]).memory
    assert isinstance(memory, GroupMemory)
    cells = {cell for cell, _, _ in memory.groups(memory.set_index(heats.HOT))}
    first = [one for one in cells if one - 1 not in cells]
    assert len(cells) * memory.cell_bytes == pytest.approx(0.1 * SMALL.slow_bytes, rel=0.02)
    assert len(first) > 50, "pieces"


def cell(seed: int, arrived: float, *parks: Park) -> Cell:
    looks = tuple(
        Look(at_s, arrived if at_s else 0.0, arrived, int(at_s) * 10**6, 0)
        for at_s in (0.0, 60.0, 120.0, 180.0, 240.0)
    )
    return Cell("4+12", "contiguous", seed, 120 * 10**6, 1e7, 0.0, looks, parks)


def test_a_row_has_medians_and_the_worst() -> None:
    parked = cell(3, 0.2, Park(54.2, 0, "as much waits as before", 0.21))
    row = scale.table([cell(1, 1.0), cell(2, 0.9), parked]).splitlines()[-1]
    assert "| 3 | 90% 90% 90% 90% (20%) |" in row
    assert "| 2.0 (2.0) | 10.0% (10.0%) | 10.0% (10.0%) | 0.06 GB |" in row
    assert "54 s at 21%" in row


def test_what_moved_early_is_not_what_moved_late() -> None:
    looks = tuple(
        Look(at_s, 1.0, 1.0, moved, 0) for at_s, moved in ((0, 0), (120, 900), (220, 1000))
    )
    one = replace(cell(1, 1.0), looks=looks)
    assert one.late_bytes_per_s == 1.0
    assert replace(one, looks=looks[:2]).late_bytes_per_s is None


def test_cells_are_kept_in_a_file(tmp_path: Path) -> None:
    cells = [cell(1, 1.0, Park(1.0, 0, "why", 0.5))]
    scale.save(tmp_path / "cells.json", cells)
    assert scale.load(tmp_path / "cells.json") == cells
    assert scale.load(tmp_path / "none.json") == []


def test_a_cell_that_is_known_is_not_run_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "cells.json"
    scale.save(path, [replace(cell(1, 1.0), machine=SMALL.name)])
    before = json.loads(path.read_text())
    arguments = ["--machines", SMALL.name, "--heats", "contiguous", "--save", str(path)]
    assert scale.main(arguments) == 0
    assert json.loads(path.read_text()) == before
    assert "contiguous" in capsys.readouterr().out


def test_a_heat_that_does_not_exist_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        scale.main(["--heats", "warm"])
    assert "'warm' is none of contiguous, small" in capsys.readouterr().err


def played(size: Size, heat: str, minutes: float) -> Cell:
    return scale.run(size, BY_NAME[heat], 1, minutes, Config(regions=(50, 1_000), cost_bp=0))


def test_a_hot_set_in_one_piece_comes_up_without_a_stop() -> None:
    found = played(SMALL, "contiguous", 0.5)
    assert found.parks == ()
    assert found.looks[-1].arrived >= 0.97
    assert found.moved_bytes <= 3 * found.hot_bytes


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("heat", "parks"), [("uniform", 1), ("periodic", 2)])
def test_what_moves_in_vain_ends_within_two_minutes(heat: str, parks: int) -> None:
    """The first check of periodic heat is short, so another one follows a minute later."""
    found = played(SMALL, heat, 3.0)
    assert len(found.parks) == parks
    assert found.settled_bytes_per_s <= 0.01 * found.rate_max_bytes_per_s


def test_the_only_hot_memory_of_a_huge_machine_comes_up_however_little_it_is() -> None:
    found = played(HUGE, "small", 0.5)
    assert found.hot_bytes < 0.001 * HUGE.fast_bytes
    assert found.looks[-1].arrived >= 0.9


def test_scattered_heat_on_a_large_machine_comes_up() -> None:
    size = next(one for one in SIZES if one.name == "512+1024")
    found = scale.run(size, BY_NAME["zipf"], 1, 1.5, Config(regions=(50, 1_000)), look_ns=200)
    assert found.looks[-1].served >= found.served_by_nothing + 0.015
