"""What this kernel's DAMON can do: each feature found by looking for it, never by version.

Rules of this file:
1. `probe` only reads. With no kdamond there are no files to look at, so the kernel's type
   information (BTF) answers; where it is absent too, a feature is unknown, and is said so.
2. `probe_staged` writes, and only below a scheme that the caller owns and has not started: DAMON
   takes no notice of staged values until a command.
3. Absent is a missing feature; unreadable is an error and is raised.
"""

from dataclasses import dataclass
from enum import StrEnum
from errno import EINVAL

from tierd.errors import Unsupported
from tierd.machine import btf
from tierd.sysfs import Sysfs, SysfsError

ADMIN = "sys/kernel/mm/damon/admin"
KDAMONDS = f"{ADMIN}/kdamonds"


class Feature(StrEnum):
    """What a kernel may or may not have; the value is the stable name in plan and status."""

    sysfs = "sysfs"
    paddr = "paddr"
    migrate = "migrate"
    user_input_goal = "user_input_goal"
    effective_bytes = "effective_bytes"
    allow_filter = "allow_filter"
    ops_filters = "ops_filters"
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
class Name:
    """Found in BTF by a name that nothing else in the kernel bears."""

    name: str


@dataclass(frozen=True, slots=True)
class Member:
    """Found in BTF as a member of a struct."""

    struct: str
    member: str


@dataclass(frozen=True, slots=True)
class File:
    """Found in a staged tree as a path from the scheme's directory."""

    path: str


@dataclass(frozen=True, slots=True)
class Keyword:
    """Found in a staged tree by writing a word, which is refused with EINVAL where unknown."""

    path: str
    word: str


@dataclass(frozen=True, slots=True)
class Line:
    """Found in a staged tree as a line of a file that lists what there is."""

    path: str
    line: str


@dataclass(frozen=True, slots=True)
class Mark:
    """How a feature is recognised, the first release that has it, and what is lost without it."""

    since: str
    lost: str
    btf: Name | Member | None
    """None: `probe` finds its file, kdamonds or not."""
    staged: File | Line | Keyword | None
    """None: it shows in no file."""


_CONTEXT = "../.."
_KDAMOND = "../../../.."

MARKS: dict[Feature, Mark] = {
    Feature.sysfs: Mark(
        "5.18",
        "DAMON has no interface that tierd could drive",
        None,
        File("action"),
    ),
    Feature.paddr: Mark(
        "5.16",
        "DAMON cannot watch physical memory",
        Name("damon_pa_apply_scheme"),
        Line(f"{_CONTEXT}/avail_operations", "paddr"),
    ),
    Feature.migrate: Mark(
        "6.11",
        "pages cannot be moved between nodes",
        Name("DAMOS_MIGRATE_HOT"),
        Keyword("action", "migrate_hot"),
    ),
    Feature.user_input_goal: Mark(
        "6.9",
        "a quota cannot be steered without a full commit",
        Name("DAMOS_QUOTA_USER_INPUT"),
        File("quotas/goals/0/target_metric"),
    ),
    Feature.effective_bytes: Mark(
        "6.9",
        "the quota that the kernel arrived at cannot be seen",
        Member("damon_sysfs_quotas", "effective_sz"),
        File("quotas/effective_bytes"),
    ),
    Feature.allow_filter: Mark(
        "6.14",
        "filters can only reject, so cgroups can be kept out but several cannot be singled out",
        Member("damon_sysfs_scheme_filter", "allow"),
        File("filters/0/allow"),
    ),
    Feature.ops_filters: Mark(
        "6.15",
        "filters stand in one list whose order the kernel decides",
        Member("damon_sysfs_scheme", "ops_filters"),
        File("ops_filters/nr_filters"),
    ),
    Feature.intervals_goal: Mark(
        "6.15",
        "sampling does not adapt to how busy memory is: intervals are fixed",
        Name("damon_sysfs_intervals_goal"),
        File(f"{_CONTEXT}/monitoring_attrs/intervals/intervals_goal/access_bp"),
    ),
    Feature.node_goals: Mark(
        "6.16",
        "the kernel cannot aim at a node's free or used share itself: tierd's loop does",
        Name("DAMOS_QUOTA_NODE_MEM_USED_BP"),
        Keyword("quotas/goals/0/target_metric", "node_mem_used_bp"),
    ),
    Feature.refresh_ms: Mark(
        "6.17",
        "the kernel does not refresh statistics itself: tierd asks at every tick",
        Member("damon_sysfs_kdamond", "refresh_ms"),
        File(f"{_KDAMOND}/refresh_ms"),
    ),
    Feature.addr_unit: Mark(
        "6.18",
        "on 32-bit machines memory above 4 GiB cannot be watched",
        Member("damon_sysfs_context", "addr_unit"),
        File(f"{_CONTEXT}/addr_unit"),
    ),
    Feature.memcg_goals: Mark(
        "6.19",
        "the kernel cannot aim at a cgroup's share of a node: caps of cgroups need tierd's loop",
        Name("DAMOS_QUOTA_NODE_MEMCG_USED_BP"),
        Keyword("quotas/goals/0/target_metric", "node_memcg_used_bp"),
    ),
    Feature.goal_tuner: Mark(
        "7.1",
        "the kernel's own goal loop is the slow one (consist)",
        Name("DAMOS_QUOTA_GOAL_TUNER_TEMPORAL"),
        Keyword("quotas/goal_tuner", "temporal"),
    ),
    Feature.fail_charge: Mark(
        "7.2",
        "memory that cannot be moved is charged in full, so quotas are used up by it",
        Member("damos_quota", "fail_charge_denom"),
        File("quotas/fail_charge_denom"),
    ),
    Feature.pause: Mark(
        "7.2",
        "a pause stops the kdamonds, and what they had learned is lost",
        Member("damon_sysfs_context", "pause"),
        File(f"{_CONTEXT}/pause"),
    ),
    Feature.refresh_each: Mark(
        "7.3",
        "with several kdamonds refresh_ms starves some of them: tierd asks at every tick",
        Member("damon_sysfs_kdamond", "next_refresh_jiffies"),
        None,
    ),
}


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The features this kernel has, and those that could not be told without writing."""

    features: frozenset[Feature]
    unknown: frozenset[Feature] = frozenset()

    def has(self, feature: Feature) -> bool:
        return feature in self.features

    @property
    def missing(self) -> tuple[Feature, ...]:
        """Known to be absent, oldest first."""
        return tuple(f for f in MARKS if f not in self.features and f not in self.unknown)


def because(feature: Feature) -> str:
    """What is lost without a feature, in a sentence for plan and status."""
    mark = MARKS[feature]
    return f"no {feature} (Linux {mark.since}): {mark.lost}"


def require_migration(capabilities: Capabilities) -> None:
    """Refuse a kernel that is known to be unable to do the job."""
    needed = {Feature.sysfs: "DAMON_SYSFS", Feature.paddr: "DAMON_PADDR", Feature.migrate: ""}
    for feature, option in needed.items():
        if feature in capabilities.missing:
            how = f"Linux {MARKS[feature].since} or later"
            built = f", built with CONFIG_{option}=y" if option else ""
            raise Unsupported(
                f"this kernel is too old or too bare: {MARKS[feature].lost}", how + built
            )


def probe(sysfs: Sysfs) -> Capabilities:
    """What can be told by reading."""
    if not sysfs.exists(f"{KDAMONDS}/nr_kdamonds"):
        return Capabilities(frozenset())
    others = frozenset(feature for feature, mark in MARKS.items() if mark.btf is not None)
    if not sysfs.exists(btf.PATH):
        return Capabilities(frozenset({Feature.sysfs}), others)
    return Capabilities(
        frozenset({Feature.sysfs}) | read_btf(btf.Btf.parse(sysfs.read_bytes(btf.PATH)), others)
    )


def read_btf(types: btf.Btf, asked: frozenset[Feature]) -> frozenset[Feature]:
    """Those of the features that the kernel's types show."""
    structs: dict[str, frozenset[str]] = {}
    found = set()
    for feature in asked:
        mark = MARKS[feature].btf
        if isinstance(mark, Member) and mark.struct not in structs:
            structs[mark.struct] = types.members(mark.struct) or frozenset()
        match mark:
            case Name(name) if types.has_name(name):
                found.add(feature)
            case Member(struct, member) if member in structs[struct]:
                found.add(feature)
    return frozenset(found)


def probe_staged(sysfs: Sysfs, scheme: str) -> Capabilities:
    """What our own scheme, staged and not started, shows: exact, on any kernel.

    `scheme` is its directory. It gets one goal and one filter to look at; both lists are emptied
    again, so the caller stages its own afterwards.
    """
    lists = (f"{scheme}/quotas/goals/nr_goals", f"{scheme}/filters/nr_filters")
    present = [path for path in lists if sysfs.exists(path)]
    for path in present:
        sysfs.write(path, "1")
    found = {feature for feature, mark in MARKS.items() if _staged(sysfs, scheme, mark.staged)}
    for path in present:
        sysfs.write(path, "0")
    unknown = {feature for feature, mark in MARKS.items() if mark.staged is None}
    return Capabilities(frozenset(found), frozenset(unknown))


def combine(read: Capabilities, staged: Capabilities) -> Capabilities:
    """Both probes in one: what was staged decides, except where it cannot know."""
    features = staged.features | (read.features & staged.unknown)
    return Capabilities(features, read.unknown & staged.unknown)


def _staged(sysfs: Sysfs, scheme: str, mark: File | Line | Keyword | None) -> bool:
    if mark is None:
        return False
    path = _resolve(scheme, mark.path)
    if not sysfs.exists(path):
        return False
    match mark:
        case File():
            return True
        case Line(_, line):
            return line in sysfs.read(path).split("\n")
        case Keyword(_, word):
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
    """A path that may climb out of the scheme to its context or kdamond."""
    parts = scheme.split("/")
    for step in path.split("/"):
        if step == "..":
            parts.pop()
        else:
            parts.append(step)
    return "/".join(parts)
