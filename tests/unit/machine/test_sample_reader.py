from dataclasses import replace

import pytest

from tests.fixtures import machines
from tests.fixtures.machines import TextSysfs
from tests.fixtures.machines.made import MadeNode, make
from tierd.errors import TierdError
from tierd.machine.discovery import survey
from tierd.machine.features import KDAMONDS
from tierd.machine.sample import Pressure, SchemeSample
from tierd.machine.sample_reader import read_sample, sum_watermarks
from tierd.machine.zoneinfo import Zone, page_bytes, parse_zones
from tierd.sysfs import SysfsError
from tierd.topology import Topology

SCHEME = f"{KDAMONDS}/3/contexts/0/schemes/0"
RUNNING = {
    f"{KDAMONDS}/3/state": "on\n",
    f"{KDAMONDS}/3/pid": "99\n",
    f"{KDAMONDS}/3/contexts/0/schemes/nr_schemes": "1\n",
    f"{SCHEME}/stats/sz_tried": "8192\n",
    f"{SCHEME}/stats/sz_applied": "4096\n",
    f"{SCHEME}/stats/qt_exceeds": "2\n",
    f"{SCHEME}/quotas/effective_bytes": "200000000\n",
    "proc/vmstat": (
        "nr_free_pages 1\npgmigrate_success 7\npgmigrate_fail 3\n"
        "allocstall_dma 0\nallocstall_normal 4\nallocstall_movable 5\n"
    ),
    "proc/pressure/memory": (
        "some avg10=0.00 avg60=0.00 avg300=0.00 total=12\n"
        "full avg10=0.00 avg60=0.00 avg300=0.00 total=5\n"
    ),
}


def machine() -> tuple[TextSysfs, Topology]:
    nodes = (
        MadeNode(0, (0, 1), cpus="0", distances="10 20"),
        MadeNode(1, (2, 3, 4), distances="20 10"),
    )
    made = make(nodes, {"memory_tier4": "0", "memory_tier22": "1"})
    return replace(made, files={**made.files, **RUNNING}), survey(made, None)


def test_a_sample_holds_everything_of_one_moment() -> None:
    sysfs, topology = machine()
    taken = read_sample(sysfs, topology, {3: ()}, 17.5)
    assert taken.monotonic_s == 17.5
    assert [(n.node, n.total_bytes, n.used_bytes) for n in taken.nodes] == [
        (0, 256 << 20, 0),
        (1, 384 << 20, 0),
    ]
    assert taken.node(1).counters == (("pgpromote_success", 0), ("pgdemote_kswapd", 0))
    assert (taken.pgmigrate_success, taken.pgmigrate_fail, taken.allocstall) == (7, 3, 9)
    assert taken.pressure == Pressure(some_us=12)
    (kdamond,) = taken.kdamonds
    assert (kdamond.index, kdamond.state, kdamond.pid) == (3, "on", 99)
    assert kdamond.schemes == (SchemeSample(0, 8192, 4096, 2, 200_000_000),)


def test_of_schemes_that_only_count_few_files_are_read() -> None:
    """Of the first one, which counts all memory, also how many regions that is."""
    sysfs, topology = machine()
    schemes = SCHEME.rpartition("/")[0]
    counting = {
        f"{schemes}/nr_schemes": "3\n",
        f"{schemes}/1/stats/sz_tried": "70000\n",
        f"{schemes}/1/stats/nr_tried": "70\n",
        f"{schemes}/2/stats/sz_tried": "30000\n",
    }
    sysfs = replace(sysfs, files={**sysfs.files, **counting})
    # A scheme that the kernel does not have is not read.
    (kdamond,) = read_sample(sysfs, topology, {3: (2, 1, 9)}, 0.0).kdamonds
    assert [one.index for one in kdamond.schemes] == [0]
    assert kdamond.sensed == {1: 70000, 2: 30000}
    assert kdamond.counted_regions == 70


def test_watermarks_that_are_known_are_not_read_again() -> None:
    sysfs, topology = machine()
    known = read_sample(sysfs, topology, {}, 0.0).watermarks
    assert [w.node for w in known] == [0, 1]
    without = {path: text for path, text in sysfs.files.items() if path != "proc/zoneinfo"}
    assert read_sample(replace(sysfs, files=without), topology, {}, 1.0, known).watermarks == known


def test_huge_pages_of_a_node() -> None:
    sysfs, topology = machine()
    path = "sys/devices/system/node/node1/meminfo"
    text = f"{sysfs.read(path)}\nNode 1 AnonHugePages:     43008 kB\n"
    found = read_sample(replace(sysfs, files={**sysfs.files, path: text}), topology, {}, 0.0)
    assert found.node(1).huge_bytes == 21 * (2 << 20)
    without = {**sysfs.files, path: text.replace("AnonHugePages", "Zswap")}
    assert read_sample(replace(sysfs, files=without), topology, {}, 0.0).node(1).huge_bytes == 0


def test_a_kernel_without_pressure_figures() -> None:
    sysfs, topology = machine()
    without = {path: text for path, text in sysfs.files.items() if "pressure" not in path}
    assert read_sample(replace(sysfs, files=without), topology, {}, 0.0).pressure is None


def test_a_sample_is_whole_or_not_at_all() -> None:
    sysfs, topology = machine()
    read = [path for path in sysfs.files if path in RUNNING or path.endswith(("meminfo", "vmstat"))]
    for path in (*read, "proc/zoneinfo"):
        refused = replace(sysfs, files=dict(sysfs.files), refused=frozenset({path}))
        with pytest.raises(SysfsError):
            read_sample(refused, topology, {3: ()}, 0.0)
    for path in ("proc/vmstat", "proc/pressure/memory", "sys/devices/system/node/node1/meminfo"):
        with pytest.raises(TierdError):
            read_sample(replace(sysfs, files={**sysfs.files, path: "\n"}), topology, {3: ()}, 0.0)


def zone(name: str, **figures: int | None) -> Zone:
    fields: dict[str, int | None] = dict.fromkeys(
        ("free_pages", "boost_pages", "spanned_pages", "present_pages", "reserve_pages"), 0
    )
    values = fields | {"start_pfn": None} | figures
    return Zone(node=0, name=name, **values)  # type: ignore[arg-type]


def test_watermarks_are_summed_over_zones_that_hand_out_pages() -> None:
    zones = (
        zone(
            "DMA",
            min_pages=8,
            low_pages=11,
            high_pages=14,
            promo_pages=17,
            managed_pages=3840,
            reserve_pages=1947,
        ),
        zone(
            "Normal",
            min_pages=100,
            low_pages=125,
            high_pages=150,
            promo_pages=175,
            managed_pages=10000,
            boost_pages=50,
        ),
        # An empty Movable zone prints 32 for each watermark. These do not count.
        zone("Movable", min_pages=32, low_pages=32, high_pages=32, promo_pages=32, managed_pages=0),
    )
    found = sum_watermarks(0, zones, 4096)
    assert found.min_bytes == (8 + 100 - 50) * 4096
    assert found.low_bytes == (11 + 125 - 50) * 4096
    assert found.high_bytes == (14 + 150 - 50) * 4096
    assert found.promo_bytes == (17 + 175 - 50) * 4096
    assert found.reserve_bytes == 1947 * 4096


def test_promo_follows_from_its_spacing_where_it_is_not_printed() -> None:
    printed = zone(
        "Normal", min_pages=100, low_pages=125, high_pages=150, promo_pages=175, managed_pages=1
    )
    silent = replace(printed, promo_pages=None)
    assert sum_watermarks(0, (silent,), 4096) == sum_watermarks(0, (printed,), 4096)


def test_a_reserve_larger_than_its_zone_is_the_whole_zone() -> None:
    tiny = zone(
        "DMA",
        min_pages=1,
        low_pages=2,
        high_pages=3,
        promo_pages=4,
        managed_pages=5,
        reserve_pages=900,
    )
    assert sum_watermarks(0, (tiny,), 4096).reserve_bytes == 5 * 4096


def test_a_node_with_memory_and_no_zone_is_an_error() -> None:
    with pytest.raises(TierdError, match="node 1 has memory, but no zone"):
        sum_watermarks(1, (), 4096)


def test_zoneinfo_in_another_shape_is_an_error() -> None:
    with pytest.raises(TierdError, match="zone Normal: no free, min, low"):
        parse_zones("Node 0, zone   Normal\n  pages gratis 5\n")


@pytest.mark.parametrize("size", [4096, 16384, 65536])
def test_the_page_size_survives_a_reading_at_two_moments(size: int) -> None:
    assert page_bytes(size * 1000, 1000) == size
    assert page_bytes(size * 1000, 1100) == size
    assert page_bytes(size * 1000, 900) == size


def test_no_pages_give_no_page_size() -> None:
    with pytest.raises(TierdError, match="no page size"):
        page_bytes(4096, 0)


@pytest.mark.parametrize("name", machines.names())
def test_watermarks_of_real_kernels_rise(name: str) -> None:
    sysfs = machines.load(name).sysfs
    topology = survey(sysfs, None)
    assert topology.page_bytes == 4096
    for marks in read_sample(sysfs, topology, {}, 0.0).watermarks:
        assert 0 < marks.min_bytes < marks.low_bytes < marks.high_bytes < marks.promo_bytes
        assert marks.promo_bytes < topology.node(marks.node).size_bytes
        evenly = marks.low_bytes - marks.min_bytes
        assert abs(marks.promo_bytes - marks.high_bytes - evenly) <= 4 * topology.page_bytes
