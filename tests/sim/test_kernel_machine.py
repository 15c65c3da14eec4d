"""The files around DAMON (modules, nodes, zones, memory blocks, settings), failures and time."""

from errno import EIO

import pytest

from tests.sim.staged_kernel import SERIES, answer, build, command, stage, state
from tierd.machine.discovery import survey
from tierd.machine.neighbours import neighbours
from tierd.machine.sample_reader import read_sample
from tierd.machine.zoneinfo import parse_zones
from tierd.sim.machine_model import load, names
from tierd.sim.memory import PageSet
from tierd.sim.sim_kernel import DAMON, InjectedFailure, SimClock, SimKernel
from tierd.sim.workload import Place, Workload
from tierd.sysfs import Patience, PatientSysfs, SysfsError

BLOCKS = "sys/devices/system/memory"
NODES = "sys/devices/system/node"
MIB = 2**20


def enabled(module: str) -> str:
    return f"sys/module/{module}/parameters/enabled"


@pytest.mark.parametrize(
    ("series", "on"), [("6.12", None), ("6.16", None), ("6.18", "Y"), ("7.2", "Y"), ("7.3", "Y")]
)
def test_damon_stat_is_on_at_boot_where_debian_builds_it(series: str, on: str | None) -> None:
    kernel = SimKernel(series, load("two-tier"))
    assert kernel.exists(enabled("damon_stat")) == (on is not None)
    if on is not None:
        assert kernel.read(enabled("damon_stat")) == on


@pytest.mark.parametrize("series", SERIES)
@pytest.mark.parametrize("module", ["damon_reclaim", "damon_lru_sort"])
def test_a_module_and_sysfs_exclude_each_other(series: str, module: str) -> None:
    kernel = build(series)
    stage(kernel)
    kernel.write(enabled(module), "Y")
    assert (command(kernel, "on"), state(kernel)) == ("EBUSY", "off")
    kernel.write(enabled(module), "N")
    assert command(kernel, "on") == "ok"
    assert (answer(kernel, enabled(module), "Y"), kernel.read(enabled(module))) == ("EBUSY", "N")


@pytest.mark.parametrize("series", SERIES)
@pytest.mark.parametrize("machine", names())
def test_tierd_understands_every_machine(series: str, machine: str) -> None:
    kernel = SimKernel(series, load(machine), block_pages=64)
    topology = survey(kernel, None)
    assert [(tier.name, tier.nodes) for tier in topology.tiers] == list(load(machine).tiers)
    for node in topology.nodes:
        size = sum(part.end - part.start for part in node.ranges)
        assert node.size_bytes <= size
    seen = read_sample(kernel, topology, {}, 0.0)
    assert all(known.free_bytes <= known.total_bytes for known in seen.nodes)
    assert neighbours(kernel).demotion_enabled is False


def test_zoneinfo_adds_up_to_meminfo() -> None:
    kernel = build("7.3")
    zones = parse_zones(kernel.read("proc/zoneinfo"))
    for node in survey(kernel, None).nodes:
        mine = [zone for zone in zones if zone.node == node.id]
        assert sum(zone.managed_pages for zone in mine) * 4096 == node.size_bytes


def test_min_free_kbytes_moves_the_watermarks() -> None:
    kernel = build("7.3")
    before = sum(zone.min_pages for zone in parse_zones(kernel.read("proc/zoneinfo")))
    wanted = 2 * int(kernel.read("proc/sys/vm/min_free_kbytes"))
    kernel.write("proc/sys/vm/min_free_kbytes", str(wanted))
    after = sum(zone.min_pages for zone in parse_zones(kernel.read("proc/zoneinfo")))
    assert after == pytest.approx(2 * before, rel=0.01)


@pytest.mark.parametrize(
    ("path", "value", "wanted", "text"),
    [
        ("proc/sys/kernel/numa_balancing", "2", "ok", "2"),
        ("proc/sys/kernel/numa_balancing", "5", "EINVAL", "1"),
        ("proc/sys/vm/zone_reclaim_mode", "0x7", "ok", "7"),
        ("proc/sys/vm/swappiness", "201", "EINVAL", "60"),
        ("sys/kernel/mm/numa/demotion_enabled", "1", "ok", "true"),
        ("sys/kernel/mm/numa/demotion_enabled", "2", "EINVAL", "false"),
        ("sys/kernel/mm/lru_gen/enabled", "n", "ok", "0x0000"),
        ("sys/kernel/mm/lru_gen/enabled", "201", "ok", "0x0001"),
        ("proc/vmstat", "1", "EIO", None),
        ("sys/devices/system/node/has_memory", "1", "EACCES", "0-1"),
    ],
)
def test_settings(path: str, value: str, wanted: str, text: str | None) -> None:
    kernel = build("7.3")
    assert answer(kernel, path, value) == wanted
    if text is not None:
        assert kernel.read(path) == text


def test_demotion_enabled_is_the_memory_s() -> None:
    kernel = build("7.3")
    kernel.write("sys/kernel/mm/numa/demotion_enabled", "true")
    assert kernel.memory.demotion_enabled


def test_a_block_goes_offline_and_comes_back() -> None:
    kernel = build("7.3")
    block = f"{BLOCKS}/memory9"
    before = survey(kernel, None).nodes[1]
    kernel.write(f"{block}/state", "offline")
    assert (kernel.read(f"{block}/state"), kernel.read(f"{block}/online")) == ("offline", "0")
    gone = survey(kernel, None).nodes[1]
    assert before.size_bytes - gone.size_bytes == 128 * MIB
    assert answer(kernel, f"{block}/state", "offline") == "EINVAL"
    kernel.write(f"{block}/state", "online")
    assert survey(kernel, None).nodes[1] == before


def test_what_a_block_holds_moves_elsewhere() -> None:
    place = Place(PageSet("data", 1.0), 700 * MIB, (1,))
    kernel = SimKernel("7.3", load("two-tier"), block_pages=64, workload=Workload([place], seed=0))
    kernel.advance(0.01)
    before = sum(kernel.memory.pages_of_set("data", nid) for nid in (0, 1))
    assert answer(kernel, f"{BLOCKS}/memory5/state", "offline") == "ok"
    assert sum(kernel.memory.pages_of_set("data", nid) for nid in (0, 1)) == before


def test_a_full_machine_keeps_its_blocks() -> None:
    places = [
        Place(PageSet(f"data{nid}"), size * MIB, (nid,)) for nid, size in ((0, 440), (1, 950))
    ]
    kernel = SimKernel("7.3", load("two-tier"), block_pages=64, workload=Workload(places, seed=0))
    kernel.advance(0.01)
    before = survey(kernel, None)
    assert answer(kernel, f"{BLOCKS}/memory5/state", "offline") == "EBUSY"
    assert survey(kernel, None) == before


def test_a_block_with_kernel_memory_or_holes_stays() -> None:
    kernel = build("7.3")
    # memory0 has two zones, memory11 what the firmware keeps below 4 GiB, and memory4 what the
    # kernel took when it booted.
    for block, wanted in ((0, "EINVAL"), (11, "EINVAL"), (4, "EBUSY")):
        assert answer(kernel, f"{BLOCKS}/memory{block}/state", "offline") == wanted


def test_nodes_count_what_their_sets_hold() -> None:
    place = Place(PageSet("data", 1.0), 64 * MIB, (1,))
    kernel = SimKernel("7.3", load("two-tier"), block_pages=64, workload=Workload([place], seed=0))
    kernel.advance(0.01)
    lines = dict(line.split() for line in kernel.read(f"{NODES}/node1/vmstat").split("\n"))
    assert int(lines["nr_active_anon"]) == 64 * MIB // 4096
    meminfo = kernel.read(f"{NODES}/node1/meminfo")
    assert f"Node 1 AnonPages:      {64 * 1024:>8} kB" in meminfo.split("\n")


def test_a_kdamond_is_a_process() -> None:
    kernel = build("7.3")
    stage(kernel)
    command(kernel, "on")
    pid = kernel.read(f"{DAMON}/0/pid")
    assert kernel.read(f"proc/{pid}/comm") == "kdamond.0"
    assert pid in kernel.listdir("proc")
    kernel.advance(100)
    ticks = int(kernel.read(f"proc/{pid}/stat").split()[14])
    assert 0 < ticks < 100 * 100
    command(kernel, "off")
    assert not kernel.exists(f"proc/{pid}")


def test_one_operation_fails() -> None:
    kernel = build("7.3")
    kernel.fail(InjectedFailure(kernel.operations + 2, EIO))
    assert kernel.read(f"{NODES}/online") == "0-1"
    with pytest.raises(SysfsError) as caught:
        kernel.read(f"{NODES}/online")
    assert caught.value.errno == EIO
    assert kernel.read(f"{NODES}/online") == "0-1"


def test_operations_fail_for_ever_until_healed() -> None:
    kernel = build("7.3")
    kernel.fail(InjectedFailure(kernel.operations + 1, EIO, for_ever=True))
    for _ in range(3):
        assert answer(kernel, f"{DAMON}/nr_kdamonds", "1") == "EIO"
    kernel.heal()
    assert kernel.read(f"{DAMON}/nr_kdamonds") == "0"


def test_files_elsewhere_are_no_operations() -> None:
    kernel = build("7.3")
    before = kernel.operations
    with pytest.raises(SysfsError):
        kernel.read("var/lib/tierd/state.json")
    assert kernel.operations == before


def test_every_write_is_in_the_journal() -> None:
    kernel = build("7.3")
    kernel.journal.clear()
    kernel.advance(1.5)
    answer(kernel, f"{DAMON}/nr_kdamonds", "x")
    kernel.write(f"{DAMON}/nr_kdamonds", "1")
    seen = [(known.at_us, known.value, known.errno) for known in kernel.journal]
    assert seen == [(1_500_000, "x", 22), (1_500_000, "1", None)]


def test_the_clock_is_the_machine_s() -> None:
    kernel = build("7.3")
    clock = SimClock(kernel)
    clock.sleep(2.5)
    assert clock.monotonic() == 2.5


def test_patience_outlasts_a_lock_that_is_let_go() -> None:
    kernel = build("7.3")
    stage(kernel)
    kernel.lock.held = True

    clock = SimClock(kernel)

    class Releasing:
        def monotonic(self) -> float:
            return clock.monotonic()

        def sleep(self, seconds: float) -> None:
            clock.sleep(seconds)
            kernel.lock.held = kernel.now_us < 1_000_000

    patient = PatientSysfs(kernel, Patience.by(Releasing()))
    assert patient.read(f"{DAMON}/0/state") == "off"
    assert kernel.now_us >= 1_000_000


def history(seed: int) -> list[str]:
    kernel = build("7.3", seed=seed)
    stage(kernel)
    command(kernel, "on")
    seen = [kernel.read(f"{DAMON}/0/pid")]
    for _ in range(5):
        kernel.advance(1)
        command(kernel, "update_schemes_tried_regions")
        folder = f"{DAMON}/0/contexts/0/schemes/0/tried_regions"
        seen += [kernel.read(f"{folder}/{n}/start") for n in kernel.listdir(folder) if n.isdigit()]
    return seen


def test_equal_seeds_give_equal_histories() -> None:
    assert history(3) == history(3)
    assert history(3) != history(4)


@pytest.mark.parametrize("block_pages", [1, 64])
def test_a_node_s_memory_is_unplugged_and_comes_back(block_pages: int) -> None:
    kernel = build("7.3", block_pages=block_pages)
    before = survey(kernel, None)
    kernel.set_node(1, online=False)
    assert (kernel.read(f"{NODES}/has_memory"), kernel.read(f"{NODES}/online")) == ("0", "0-1")
    gone = survey(kernel, None)
    assert [node.id for node in gone.empty_nodes] == [1]
    assert gone.empty_nodes[0].offline_bytes == 1024 * MIB
    assert [tier.name for tier in gone.tiers] == ["memory_tier4"]
    zones = [zone for zone in parse_zones(kernel.read("proc/zoneinfo")) if zone.node == 1]
    assert not any(zone.spanned_pages or zone.managed_pages for zone in zones)
    kernel.set_node(1, online=True)
    assert survey(kernel, None) == before
