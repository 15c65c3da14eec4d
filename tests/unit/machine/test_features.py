import errno
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fixtures import machines
from tests.fixtures.machines import TextSysfs
from tierd.errors import ExitCode, TierdError, Unsupported
from tierd.machine import btf
from tierd.machine.btf import Btf
from tierd.machine.features import (
    FEATURE_TABLE,
    KDAMONDS,
    BtfMember,
    BtfName,
    Capabilities,
    Feature,
    because,
    probe,
    probe_staged,
    require_migration,
)
from tierd.machine.neighbours import DamonModule, Kdamond, kdamonds, neighbours
from tierd.sysfs import SysfsError

WORDS = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,12}", fullmatch=True)
NR = {f"{KDAMONDS}/nr_kdamonds": "0\n"}


# BTF
@given(st.sets(WORDS), st.dictionaries(WORDS, st.sets(WORDS, min_size=1), max_size=5))
def test_btf_round_trip(names: set[str], structs: dict[str, set[str]]) -> None:
    types = Btf.parse(btf.encode(names, structs))
    assert set(types.names()) == names.union(structs, *structs.values())
    for name in names:
        assert types.has_name(name)
    for name, members in structs.items():
        assert types.members(name) == frozenset(members)


def test_btf_tells_a_struct_from_a_name() -> None:
    types = Btf.parse(btf.encode(["pause"], {"damon_ctx": ["attrs", "ops"]}))
    assert types.has_name("pause")
    assert types.members("pause") is None
    assert types.members("damon") is None
    assert not types.has_name("amon_ctx")


def test_btf_passes_over_the_same_number_in_another_place() -> None:
    # "inner" first occurs as the name of a member, in a struct before its own.
    types = Btf.parse(btf.encode([], {"outer": ["inner"], "inner": ["pause"]}))
    assert types.members("inner") == frozenset({"pause"})


@given(st.binary(max_size=64))
def test_what_is_not_btf_is_an_error(blob: bytes) -> None:
    with pytest.raises(TierdError, match="not BTF"):
        Btf.parse(blob)


@given(st.integers(1, 40))
def test_btf_cut_short_is_an_error(lost: int) -> None:
    blob = btf.encode(["DAMOS_MIGRATE_HOT"], {"damon_ctx": ["attrs"]})
    with pytest.raises(TierdError, match="cut short"):
        Btf.parse(blob[:-lost])


# Capabilities by reading
def blob_of(features: set[Feature]) -> bytes:
    names = []
    structs: dict[str, list[str]] = {}
    for feature in features:
        match FEATURE_TABLE[feature].btf:
            case BtfName(name):
                names.append(name)
            case BtfMember(struct, member):
                structs.setdefault(struct, []).append(member)
            case None:
                raise AssertionError(f"{feature} does not show in types")
    return btf.encode(names, structs)


@given(st.sets(st.sampled_from(sorted(set(Feature) - {Feature.sysfs}))))
def test_probe_finds_what_the_types_show(features: set[Feature]) -> None:
    found = probe(TextSysfs({**NR, btf.PATH: blob_of(features)}))
    assert found.features == features | {Feature.sysfs}
    assert found.unknown == frozenset()
    assert set(found.missing) == set(Feature) - features - {Feature.sysfs}


def test_without_damon_everything_is_missing() -> None:
    found = probe(TextSysfs({}))
    assert found.missing == tuple(Feature)
    with pytest.raises(Unsupported, match="no interface that tierd could drive") as caught:
        require_migration(found)
    assert caught.value.hint == "Linux 6.11 or later, built with CONFIG_DAMON_SYSFS=y"


def test_without_btf_nothing_is_claimed_either_way() -> None:
    found = probe(TextSysfs(NR))
    assert found.features == {Feature.sysfs}
    assert found.missing == ()
    assert found.unknown == frozenset(Feature) - {Feature.sysfs}
    require_migration(found)


def test_unreadable_btf_is_an_error() -> None:
    with pytest.raises(SysfsError) as caught:
        probe(TextSysfs(NR, refused=frozenset({btf.PATH})))
    assert caught.value.exit_code is ExitCode.not_permitted


def test_a_kernel_that_cannot_migrate_is_refused() -> None:
    with pytest.raises(Unsupported, match="pages cannot be moved") as caught:
        require_migration(Capabilities(frozenset({Feature.sysfs, Feature.paddr})))
    assert caught.value.hint == "Linux 6.11 or later"


def test_every_feature_says_what_is_lost_without_it() -> None:
    assert tuple(FEATURE_TABLE) == tuple(Feature)
    assert because(Feature.fail_charge) == (
        "no fail_charge (Linux 7.2): "
        "memory that cannot be moved is charged in full, so quotas are used up by it"
    )


@pytest.mark.parametrize("name", machines.names())
def test_reading_a_real_kernel_tells_what_its_staged_scheme_shows(name: str) -> None:
    captured = machines.load(name)
    read = probe(captured.sysfs)
    staged = Capabilities(
        frozenset(Feature(word) for word in captured.staged_features),
        frozenset(feature for feature, entry in FEATURE_TABLE.items() if entry.staged is None),
    )
    assert read.features - staged.unknown == staged.features
    assert read.unknown == frozenset()


SERIES = {
    "6.12": {"sysfs", "paddr", "migrate", "user_input_goal", "effective_bytes"},
    "6.16": {"allow_filter", "ops_filters", "unmapped_filter", "intervals_goal", "node_goals"},
    "6.18": {"refresh_ms", "addr_unit"},
    "7.2": {"memcg_goals", "goal_tuner", "fail_charge", "pause"},
    "7.3": {"refresh_each"},
}


@pytest.mark.parametrize("name", machines.names())
def test_each_series_has_the_features_of_its_release(name: str) -> None:
    series = name.rpartition("-")[2]
    expected: set[str] = set()
    for release, added in SERIES.items():
        expected |= added
        if release == series:
            break
    assert probe(machines.load(name).sysfs).features == expected


# Capabilities by staging
@dataclass
class StagedTree:
    """The files of one scheme. Keyword files accept some words. All writes are recorded."""

    files: dict[str, str]
    words: dict[str, frozenset[str]]
    failing: dict[str, int] = field(default_factory=dict)
    writes: list[tuple[str, str]] = field(default_factory=list)

    def read(self, path: str) -> str:
        if not self.exists(path):
            raise SysfsError("read", path, errno.ENOENT)
        return self.files[path]

    reread = read

    def read_bytes(self, path: str) -> bytes:
        return self.read(path).encode()

    def write(self, path: str, value: str) -> None:
        self.writes.append((path, value))
        if path in self.failing:
            raise SysfsError("write", path, self.failing[path], value)
        if value not in self.words.get(path, {value}):
            raise SysfsError("write", path, errno.EINVAL, value)
        self.files[path] = value

    def exists(self, path: str) -> bool:
        for nr, folder in (("nr_goals", "goals/0/"), ("nr_filters", "filters/0/")):
            if folder in path:
                start = path[: path.index(folder)] + folder.removesuffix("0/")
                return path in self.files and self.files[f"{start}{nr}"] != "0"
        return path in self.files

    def listdir(self, path: str) -> tuple[str, ...]:
        raise SysfsError("list", path, errno.ENOENT)


SCHEME = f"{KDAMONDS}/0/contexts/0/schemes/0"


def tree_of_6_12() -> StagedTree:
    metric = f"{SCHEME}/quotas/goals/0/target_metric"
    return StagedTree(
        files={
            f"{KDAMONDS}/0/contexts/0/avail_operations": "vaddr\nfvaddr\npaddr",
            f"{SCHEME}/action": "stat",
            f"{SCHEME}/quotas/effective_bytes": "0",
            f"{SCHEME}/quotas/goals/nr_goals": "0",
            metric: "user_input",
            f"{SCHEME}/filters/nr_filters": "0",
        },
        words={
            f"{SCHEME}/action": frozenset({"stat", "pageout", "migrate_hot", "migrate_cold"}),
            metric: frozenset({"user_input", "some_mem_psi_us"}),
        },
    )


def test_a_staged_scheme_of_6_12() -> None:
    tree = tree_of_6_12()
    before = dict(tree.files)
    found = probe_staged(tree, SCHEME)
    assert found.features == {
        Feature.sysfs,
        Feature.paddr,
        Feature.migrate,
        Feature.user_input_goal,
        Feature.effective_bytes,
    }
    assert found.unknown == {Feature.refresh_each}
    assert tree.files == before, "what was staged to look is put back"


def test_probing_writes_below_its_own_kdamond_only() -> None:
    tree = tree_of_6_12()
    probe_staged(tree, SCHEME)
    assert tree.writes
    assert all(path.startswith(f"{KDAMONDS}/0/") for path, _ in tree.writes)
    assert not any(path.endswith(("state", "nr_kdamonds")) for path, _ in tree.writes)


@pytest.mark.parametrize("code", [errno.EBUSY, errno.EACCES, errno.EIO])
def test_a_refused_probe_is_not_a_missing_feature(code: int) -> None:
    tree = replace(tree_of_6_12(), failing={f"{SCHEME}/action": code})
    with pytest.raises(SysfsError) as caught:
        probe_staged(tree, SCHEME)
    assert caught.value.errno == code


# Neighbours
BUSY = {
    f"{KDAMONDS}/nr_kdamonds": "1\n",
    f"{KDAMONDS}/0/state": "on\n",
    f"{KDAMONDS}/0/pid": "77\n",
    f"{KDAMONDS}/0/contexts/nr_contexts": "1\n",
    f"{KDAMONDS}/0/contexts/0/operations": "paddr\n",
    f"{KDAMONDS}/0/contexts/0/schemes/nr_schemes": "2\n",
    f"{KDAMONDS}/0/contexts/0/schemes/0/action": "pageout\n",
    f"{KDAMONDS}/0/contexts/0/schemes/1/action": "stat\n",
    "sys/module/damon_stat/parameters/enabled": "Y\n",
    "sys/module/damon_reclaim/parameters/enabled": "N\n",
    "sys/module/damon_reclaim/parameters/kdamond_pid": "-1\n",
    "proc/sys/kernel/numa_balancing": "2\n",
    "sys/kernel/mm/numa/demotion_enabled": "true\n",
    "proc/sys/vm/zone_reclaim_mode": "0\n",
}


def test_neighbours() -> None:
    found = neighbours(TextSysfs(BUSY))
    assert found.kdamonds == (Kdamond(0, "on", 77, ("paddr",), ("pageout", "stat")),)
    assert found.kdamonds[0].running
    assert found.modules == (
        DamonModule("damon_stat", enabled=True, kdamond_pid=None),
        DamonModule("damon_reclaim", enabled=False, kdamond_pid=-1),
    )
    assert [module.name for module in found.holders] == ["damon_stat"]
    assert (found.numa_balancing, found.demotion_enabled, found.zone_reclaim_mode) == (2, True, 0)


def test_a_bare_kernel_has_no_neighbours() -> None:
    found = neighbours(TextSysfs({}))
    assert not found.kdamonds
    assert not found.modules
    assert found.numa_balancing is None
    assert found.demotion_enabled is None
    assert found.zone_reclaim_mode is None


@pytest.mark.parametrize("path", sorted(BUSY))
def test_unreadable_neighbours_are_an_error(path: str) -> None:
    with pytest.raises(SysfsError):
        neighbours(
            TextSysfs({k: v for k, v in BUSY.items() if k != path}, refused=frozenset({path}))
        )


@pytest.mark.parametrize("path", sorted(path for path in BUSY if KDAMONDS in path))
def test_a_kdamond_is_read_whole_or_not_at_all(path: str) -> None:
    sysfs = TextSysfs({key: text for key, text in BUSY.items() if key != path})
    with pytest.raises(SysfsError):
        kdamonds(sysfs)


def test_without_damon_there_are_no_kdamonds() -> None:
    assert kdamonds(TextSysfs({})) == ()


def test_a_setting_in_a_new_spelling_is_an_error() -> None:
    with pytest.raises(TierdError, match=r"demotion_enabled: expected one of .*, found 'perhaps'"):
        neighbours(TextSysfs({"sys/kernel/mm/numa/demotion_enabled": "perhaps\n"}))


@pytest.mark.parametrize("name", machines.names())
def test_a_fresh_guest_has_no_kdamonds(name: str) -> None:
    found = neighbours(machines.load(name).sysfs)
    assert found.kdamonds == ()
    assert found.demotion_enabled is False
    assert {module.name for module in found.modules} >= {"damon_reclaim", "damon_lru_sort"}
