"""Finds which features this kernel's DAMON has; it never looks at the kernel's version.

Rules of this file:
1. `probe` only reads. Without a kdamond DAMON shows few files, so `probe` looks at the kernel's
   type information (BTF). Without BTF a feature is unknown.
2. `probe_staged` writes, but only below a scheme that the caller owns and has not started. DAMON
   does not use staged values before a command.
3. A file that is absent is a missing feature. A file that cannot be read is an error, and raises.
"""

from enum import StrEnum
from errno import EINVAL

from tierd.errors import Unsupported
from tierd.frozen import dataclass
from tierd.machine import btf
from tierd.sysfs import Sysfs, SysfsError

ADMIN = "sys/kernel/mm/damon/admin"
KDAMONDS = f"{ADMIN}/kdamonds"


class Feature(StrEnum):
    """A feature that some kernels lack; the value is its stable name in plan and status."""

    sysfs = "sysfs"
    paddr = "paddr"
    migrate = "migrate"
    user_input_goal = "user_input_goal"
    effective_bytes = "effective_bytes"
    allow_filter = "allow_filter"
    ops_filters = "ops_filters"
    unmapped_filter = "unmapped_filter"
    intervals_goal = "intervals_goal"
    node_goals = "node_goals"
    refresh_ms = "refresh_ms"
    addr_unit = "addr_unit"
    memcg_goals = "memcg_goals"
    goal_tuner = "goal_tuner"
    fail_charge = "fail_charge"
    pause = "pause"
    refresh_each = "refresh_each"


@dataclass(frozen=True, slots=True)
class BtfName:
    """The feature is present if BTF has this name, which nothing else in the kernel has."""

    name: str


@dataclass(frozen=True, slots=True)
class BtfMember:
    """The feature is present if BTF has this member of this struct."""

    struct: str
    member: str


@dataclass(frozen=True, slots=True)
class StagedFile:
    """The feature is present if a staged scheme has this file (a path from its directory)."""

    path: str


@dataclass(frozen=True, slots=True)
class StagedKeyword:
    """The feature is present if this file takes this word; else a write gives EINVAL."""

    path: str
    word: str


@dataclass(frozen=True, slots=True)
class StagedLine:
    """The feature is present if this file of a staged scheme has this line."""

    path: str
    line: str


@dataclass(frozen=True, slots=True)
class FeatureEntry:
    """The first release that has a feature, what is lost without it, and how to recognise it."""

    since: str
    lost: str
    btf: BtfName | BtfMember | None
    """None: `probe` finds its file, even without kdamonds."""
    staged: StagedFile | StagedLine | StagedKeyword | None
    """None: no file shows it."""


_CONTEXT = "../.."
_KDAMOND = "../../../.."

FEATURE_TABLE: dict[Feature, FeatureEntry] = {
    Feature.sysfs: FeatureEntry(
        "5.18",
        "DAMON has no interface that tierd could drive",
        None,
        StagedFile("action"),
    ),
    Feature.paddr: FeatureEntry(
        "5.16",
        "DAMON cannot watch physical memory",
        BtfName("damon_pa_apply_scheme"),
        StagedLine(f"{_CONTEXT}/avail_operations", "paddr"),
    ),
    Feature.migrate: FeatureEntry(
        "6.11",
        "pages cannot be moved between nodes",
        BtfName("DAMOS_MIGRATE_HOT"),
        StagedKeyword("action", "migrate_hot"),
    ),
    Feature.user_input_goal: FeatureEntry(
        "6.9",
        "a quota cannot be steered without a full commit",
        BtfName("DAMOS_QUOTA_USER_INPUT"),
        StagedFile("quotas/goals/0/target_metric"),
    ),
    Feature.effective_bytes: FeatureEntry(
        "6.9",
        "the quota that the kernel chose cannot be seen",
        BtfMember("damon_sysfs_quotas", "effective_sz"),
        StagedFile("quotas/effective_bytes"),
    ),
    Feature.allow_filter: FeatureEntry(
        "6.14",
        "filters can only reject: cgroups can be excluded, but only one can be included",
        BtfMember("damon_sysfs_scheme_filter", "allow"),
        StagedFile("filters/0/allow"),
    ),
    Feature.ops_filters: FeatureEntry(
        "6.15",
        "all filters are in one list, whose order the kernel decides",
        BtfMember("damon_sysfs_scheme", "ops_filters"),
        StagedFile("ops_filters/nr_filters"),
    ),
    Feature.unmapped_filter: FeatureEntry(
        "6.15",
        "eviction of page cache also tries memory that programs share, in vain",
        BtfName("DAMOS_FILTER_TYPE_UNMAPPED"),
        StagedKeyword("filters/0/type", "unmapped"),
    ),
    Feature.intervals_goal: FeatureEntry(
        "6.15",
        "sampling does not adapt to how busy memory is: intervals are fixed",
        BtfName("damon_sysfs_intervals_goal"),
        StagedFile(f"{_CONTEXT}/monitoring_attrs/intervals/intervals_goal/access_bp"),
    ),
    Feature.node_goals: FeatureEntry(
        "6.16",
        "the kernel cannot aim at a node's free or used share itself: tierd's loop does",
        BtfName("DAMOS_QUOTA_NODE_MEM_USED_BP"),
        StagedKeyword("quotas/goals/0/target_metric", "node_mem_used_bp"),
    ),
    Feature.refresh_ms: FeatureEntry(
        "6.17",
        "the kernel does not refresh statistics itself: tierd asks at every tick",
        BtfMember("damon_sysfs_kdamond", "refresh_ms"),
        StagedFile(f"{_KDAMOND}/refresh_ms"),
    ),
    Feature.addr_unit: FeatureEntry(
        "6.18",
        "on 32-bit machines memory above 4 GiB cannot be watched",
        BtfMember("damon_sysfs_context", "addr_unit"),
        StagedFile(f"{_CONTEXT}/addr_unit"),
    ),
    Feature.memcg_goals: FeatureEntry(
        "6.19",
        "the kernel cannot aim at a cgroup's share of a node: caps of cgroups need tierd's loop",
        BtfName("DAMOS_QUOTA_NODE_MEMCG_USED_BP"),
        StagedKeyword("quotas/goals/0/target_metric", "node_memcg_used_bp"),
    ),
    Feature.goal_tuner: FeatureEntry(
        "7.1",
        "the kernel's own goal loop is the slow one (consist)",
        BtfName("DAMOS_QUOTA_GOAL_TUNER_TEMPORAL"),
        StagedKeyword("quotas/goal_tuner", "temporal"),
    ),
    Feature.fail_charge: FeatureEntry(
        "7.2",
        "memory that cannot be moved is charged in full, so quotas are used up by it",
        BtfMember("damos_quota", "fail_charge_denom"),
        StagedFile("quotas/fail_charge_denom"),
    ),
    Feature.pause: FeatureEntry(
        "7.2",
        "a pause stops the kdamonds, and what they had learned is lost",
        BtfMember("damon_sysfs_context", "pause"),
        StagedFile(f"{_CONTEXT}/pause"),
    ),
    Feature.refresh_each: FeatureEntry(
        "7.3",
        "with several kdamonds refresh_ms starves some of them: tierd asks at every tick",
        BtfMember("damon_sysfs_kdamond", "next_refresh_jiffies"),
        None,
    ),
}


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The features that this kernel has, and those that are unknown without writing."""

    features: frozenset[Feature]
    unknown: frozenset[Feature] = frozenset()

    def has(self, feature: Feature) -> bool:
        return feature in self.features

    @property
    def missing(self) -> tuple[Feature, ...]:
        """The features that are known to be absent, oldest first."""
        return tuple(f for f in FEATURE_TABLE if f not in self.features and f not in self.unknown)


def because(feature: Feature) -> str:
    """Return what is lost without a feature, as a sentence for plan and status."""
    entry = FEATURE_TABLE[feature]
    return f"no {feature} (Linux {entry.since}): {entry.lost}"


def refuses_safely(capabilities: Capabilities) -> bool:
    """Return whether a kdamond goes on as before when it refuses a commit.

    Before 6.15 it ends. The lists of filters by layer came with the same release.
    """
    return capabilities.has(Feature.ops_filters)


def require_migration(capabilities: Capabilities) -> None:
    """Raise Unsupported if this kernel is known to lack a feature that tierd needs."""
    needed = {Feature.sysfs: "DAMON_SYSFS", Feature.paddr: "DAMON_PADDR", Feature.migrate: ""}
    for feature, option in needed.items():
        if feature in capabilities.missing:
            # An older kernel may have this feature, but it lacks another feature that tierd needs.
            how = f"Linux {FEATURE_TABLE[Feature.migrate].since} or later"
            built = f", built with CONFIG_{option}=y" if option else ""
            raise Unsupported(
                f"this kernel is too old, or built without DAMON: {FEATURE_TABLE[feature].lost}",
                how + built,
            )


def probe(sysfs: Sysfs) -> Capabilities:
    """Return the features that can be found by reading."""
    if not sysfs.exists(f"{KDAMONDS}/nr_kdamonds"):
        return Capabilities(frozenset())
    others = frozenset(feature for feature, entry in FEATURE_TABLE.items() if entry.btf is not None)
    if not sysfs.exists(btf.PATH):
        return Capabilities(frozenset({Feature.sysfs}), others)
    return Capabilities(
        frozenset({Feature.sysfs}) | read_btf(btf.Btf.parse(sysfs.read_bytes(btf.PATH)), others)
    )


def read_btf(types: btf.Btf, asked: frozenset[Feature]) -> frozenset[Feature]:
    """Return the features that the kernel's types show."""
    structs: dict[str, frozenset[str]] = {}
    found = set()
    for feature in asked:
        sign = FEATURE_TABLE[feature].btf
        if isinstance(sign, BtfMember) and sign.struct not in structs:
            structs[sign.struct] = types.members(sign.struct) or frozenset()
        match sign:
            case BtfName(name) if types.has_name(name):
                found.add(feature)
            case BtfMember(struct, member) if member in structs[struct]:
                found.add(feature)
    return frozenset(found)


def probe_staged(sysfs: Sysfs, scheme: str) -> Capabilities:
    """Return the features that our own scheme shows, staged but not started: exact on any kernel.

    `scheme` is its directory. For the probe it gets one goal and one filter. Both lists are empty
    again afterwards, so the caller has to stage its own goals and filters later.
    """
    lists = (f"{scheme}/quotas/goals/nr_goals", f"{scheme}/filters/nr_filters")
    present = [path for path in lists if sysfs.exists(path)]
    for path in present:
        sysfs.write(path, "1")
    found = {
        feature for feature, entry in FEATURE_TABLE.items() if _staged(sysfs, scheme, entry.staged)
    }
    for path in present:
        sysfs.write(path, "0")
    unknown = {feature for feature, entry in FEATURE_TABLE.items() if entry.staged is None}
    return Capabilities(frozenset(found), frozenset(unknown))


def _staged(
    sysfs: Sysfs, scheme: str, sign: StagedFile | StagedLine | StagedKeyword | None
) -> bool:
    if sign is None:
        return False
    path = _resolve(scheme, sign.path)
    if not sysfs.exists(path):
        return False
    match sign:
        case StagedFile():
            return True
        case StagedLine(_, line):
            return line in sysfs.read(path).split("\n")
        case StagedKeyword(_, word):
            return _knows(sysfs, path, word)


def _knows(sysfs: Sysfs, path: str, word: str) -> bool:
    before = sysfs.read(path)
    try:
        sysfs.write(path, word)
    except SysfsError as error:
        if error.errno != EINVAL:
            raise
        return False
    sysfs.write(path, before)
    return True


def _resolve(scheme: str, path: str) -> str:
    """Return the path; `..` leads from the scheme to its context or kdamond."""
    parts = scheme.split("/")
    for step in path.split("/"):
        if step == "..":
            parts.pop()
        else:
            parts.append(step)
    return "/".join(parts)
