"""The table of all settings: the parser, the default file and the documentation use it.

Each setting has an entry here and a field in `Config`, which gives its default. A unit is part of
the value and not of the key. A setting that most people never change is in a group.
"""

from enum import StrEnum

from tierd.configuration import class_values, valuetypes
from tierd.configuration.config import (
    Config,
    Cpusets,
    Mode,
    OnConflict,
    OnStop,
    Promoter,
    Tuner,
    used_bp_for,
)
from tierd.configuration.valuetypes import ValueType
from tierd.frozen import dataclass

MB = 1000**2
TB = 1000**4
MINUTE_MS = 60_000
MINUTE_US = 60 * 10**6
HOUR_MS = 60 * MINUTE_MS
HOUR_US = 60 * MINUTE_US


class ReloadEffect(StrEnum):
    """When a new value takes effect after a reload."""

    live = "at once"
    plan = "at once, with a new plan"
    start = "at the next start of tierd"


@dataclass(frozen=True, slots=True)
class Setting:
    """One key of the YAML file, and the field that it fills."""

    key: tuple[str, ...]
    field: str
    value_type: ValueType
    effect: ReloadEffect
    example: str
    doc: str
    """The first sentence is also used alone, in lists."""

    @property
    def name(self) -> str:
        return ".".join(self.key)

    def value(self, config: Config) -> object:
        """Return the value as the user writes it; None stands for a word, such as auto."""
        value = getattr(config, self.field)
        if self.field == "used_bp" and value == used_bp_for(config.headroom_bp):
            return None
        return value

    def text(self, config: Config) -> str:
        """Return the value in YAML, on one line."""
        return self.value_type.write(self.value(config))


@dataclass(frozen=True, slots=True)
class Group:
    """Settings under one common key."""

    key: str
    doc: str


GROUPS = (
    Group("neighbours", "Other parties on this machine that use DAMON or move memory."),
    Group(
        "metrics",
        "Where the metrics for Prometheus go; docs/metrics.md lists them.",
    ),
    Group("promotion", "Which hot memory moves to a faster node."),
    Group("demotion", "Which cold memory moves to a slower node."),
    Group(
        "monitoring",
        "How DAMON watches memory. More frequent samples see more, and cost more CPU time.",
    ),
    Group("loop", "How often tierd and its schemes act."),
)

_BASIC = (
    Setting(
        ("mode",),
        "mode",
        valuetypes.words(Mode),
        ReloadEffect.plan,
        "observe",
        "Whether memory moves: manage moves it, observe only reports what would move.",
    ),
    Setting(
        ("tuner",),
        "tuner",
        valuetypes.words(Tuner),
        ReloadEffect.plan,
        "kernel",
        "Who decides how much memory moves: auto takes the best tuner for this kernel. demand is "
        "tierd's own tuner: it moves what is hot on slow nodes and cold on fast ones, and no "
        "more. kernel uses the kernel's own goals for nodes (6.16 and later). emulated follows "
        "the same rule as kernel, but in tierd, on any kernel. This rule is called consist, and "
        "moves almost nothing once a fast node is full; from 7.2 on kernel uses the rule "
        "temporal, which moves at once.",
    ),
    Setting(
        ("promoter",),
        "promoter",
        valuetypes.words(Promoter),
        ReloadEffect.plan,
        "numa-balancing",
        "What brings hot memory up: damon is tierd's schemes. With numa-balancing it is the "
        "kernel's NUMA balancing, which sees single pages and takes a fault of the program for "
        "each look. tierd then demotes and keeps room for what comes up. It sets bit 2 of "
        "kernel.numa_balancing, keeps the kernel's promotion rate within rate_limit, and restores "
        "both when it stops. auto is numa-balancing if that bit was set before tierd started, "
        "else damon. numa-balancing needs the tuner demand or auto, and no `shares`.",
    ),
    Setting(
        ("headroom",),
        "headroom_bp",
        valuetypes.percent(1, 5000, "a full fast node cannot take hot memory"),
        ReloadEffect.plan,
        "2%",
        "The share of a fast node that is kept free for new allocations. If the kernel itself "
        "keeps more free, tierd uses the kernel's figure.",
    ),
    Setting(
        ("rate_limit",),
        "rate_max_bytes_per_s",
        valuetypes.or_word(
            valuetypes.rate(
                MB,
                TB,
                "0 means no limit to the kernel; to move nothing, use `mode: observe`",
            ),
            "auto",
        ),
        ReloadEffect.plan,
        "1GB/s",
        "The most memory that may move per second, in each direction, from each node. Moving "
        "costs CPU time and memory bandwidth. auto is 0.25% of the fast node, but at least "
        "200MB/s, and then at most 5% of the bandwidth of the slow node, if the firmware tells it. "
        "`tierd plan` shows the figure.",
    ),
    Setting(
        ("cost",),
        "cost_bp",
        valuetypes.or_word(valuetypes.percent(0, 10_000), "auto"),
        ReloadEffect.plan,
        "5%",
        "How much of one processor each kdamond may use to visit single pages, on average over an "
        "hour. Visits find hot pages among cold ones, as in a hash table; counts of whole regions "
        "do not see them. With 0% there are no visits. auto is 2%, or 0.1% of all processors "
        "together if that is more: 6.4% of one where there are 64. `tierd plan` shows the figure.",
    ),
    Setting(
        ("tiers",),
        "tiers",
        valuetypes.or_word(valuetypes.tiers(), "auto"),
        ReloadEffect.plan,
        "[[0], [2, 3]]",
        "The nodes of each tier, fastest tier first; auto uses the tiers of the kernel. Set it if "
        "firmware does not say which memory is slow; `tierd tiers` shows what is known. tierd "
        "does not manage a node that is not listed.",
    ),
    Setting(
        ("bandwidths",),
        "bandwidths",
        valuetypes.or_word(valuetypes.bandwidths(), "auto"),
        ReloadEffect.plan,
        "{0: 205GB/s, 1: 38GB/s}",
        "The memory bandwidth of nodes; auto takes that of firmware. Set it if firmware does not "
        "tell it, or tells it wrong: `tierd doctor --measure` prints the line. tierd uses it for "
        "the weights of weighted interleave and for the default of rate_limit.",
    ),
    Setting(
        ("cgroups",),
        "cgroups",
        class_values.cgroups(),
        ReloadEffect.plan,
        "{database: {include: [/database.slice]}, backup: {exclude: [/backup.slice]}}",
        "The parts of the cgroup tree that tierd manages (include) or does not manage (exclude). "
        "Each class has a name of your choice, and paths that begin at the root of the tree. A "
        "path includes its whole subtree. Without a class tierd manages the whole machine. At "
        "most 256 cgroups can be included or excluded. If there are more, tierd takes those with "
        "the most memory; status and plan say so. Before Linux 6.14 only one cgroup can be "
        "included.",
    ),
    Setting(
        ("shares",),
        "shares",
        class_values.shares(),
        ReloadEffect.plan,
        "{web: {paths: [/web.slice], floor: 20%, ceiling: 50%}, pods: {paths: ["
        '"/kubepods.slice/kubepods-burstable.slice/*"], weight: 200}}',
        "How groups of cgroups share the memory of the fastest tier. Each class has paths, which "
        "include their subtrees; a part of a path may be a pattern such as *. floor is the least "
        "that the class gets if it needs it, ceiling is the most, and weight (100) is its part of "
        "what no floor takes. All other memory is a class of its own, with weight 100. What a "
        "class does not use is lent to others, until it asks for it. A class with neither floor "
        "nor ceiling takes them from memory.low and memory.high of its cgroups: the same part of "
        "the fast memory as these are of all memory. moves says where its memory may go: both (up "
        "and down), up (tierd never sends it down or to swap, though it is idle), or none (it is "
        "left where it is, as an excluded cgroup of `cgroups`). The tuner must be demand or auto, "
        "and `cgroups` must be empty.",
    ),
    Setting(
        ("cpusets",),
        "cpusets",
        valuetypes.words(Cpusets),
        ReloadEffect.plan,
        "ignore",
        "Whether memory of cgroups that a cpuset binds to some of the nodes stays where it is: "
        "heed leaves it alone, ignore moves it as all other memory. DAMON itself ignores cpusets. "
        "A new cgroup is found within a minute. Only the unified cgroup tree (v2) is read.",
    ),
    Setting(
        ("on_stop",),
        "on_stop",
        valuetypes.words(OnStop),
        ReloadEffect.live,
        "keep",
        "What happens when tierd stops: restore puts everything back as it was before, keep "
        "leaves the schemes running. `tierd restore` puts everything back at any time.",
    ),
    Setting(
        ("on_conflict",),
        "on_conflict",
        valuetypes.words(OnConflict),
        ReloadEffect.live,
        "take_over",
        "What to do if there are kdamonds that tierd did not make: refuse to start (exit 75), or "
        "take_over, which deletes them for good. The kernel has one list of kdamonds for "
        "everybody.",
    ),
)

_GROUPED = (
    Setting(
        ("neighbours", "damon_stat"),
        "manage_damon_stat",
        valuetypes.choice({"stop": True, "leave": False}),
        ReloadEffect.start,
        "leave",
        "What to do with the kernel's module damon_stat, which only makes statistics: stop it "
        "while tierd runs, or leave it on. While it is on, tierd cannot start.",
    ),
    Setting(
        ("neighbours", "demotion_enabled"),
        "manage_demotion_enabled",
        valuetypes.choice({"on": True, "leave": False}),
        ReloadEffect.start,
        "on",
        "Demotion by the kernel when a node runs short, which helps if memory fills up faster "
        "than tierd can demote: switch it on while tierd runs, or leave it as it is.",
    ),
    Setting(
        ("neighbours", "interleave_weights"),
        "manage_interleave_weights",
        valuetypes.choice({"set": True, "leave": False}),
        ReloadEffect.start,
        "set",
        "The kernel's weights of weighted interleave, for programs that spread their pages over "
        "nodes to use the bandwidth of all: set them by the nodes' bandwidths while tierd runs, or "
        "leave them as they are. `tierd tiers` shows both.",
    ),
    Setting(
        ("metrics", "address"),
        "metrics_address",
        valuetypes.or_word(valuetypes.address(), "off"),
        ReloadEffect.start,
        "0.0.0.0:19100",
        "The address that serves a page for a browser, /metrics, /healthz and /readyz, or off. "
        "Everybody who can reach it can read it. If other machines can reach it, use a "
        "certificate or a proxy.",
    ),
    Setting(
        ("metrics", "textfile"),
        "metrics_textfile",
        valuetypes.or_word(
            valuetypes.file_path(".prom", "node_exporter reads no other files"),
            "off",
        ),
        ReloadEffect.start,
        "/var/lib/prometheus/node-exporter/tierd.prom",
        "A file for the textfile collector of node_exporter, or off. Its folder must exist.",
    ),
    Setting(
        ("metrics", "certificate"),
        "metrics_certificate",
        valuetypes.or_word(valuetypes.file_path(), "off"),
        ReloadEffect.start,
        "/etc/tierd/metrics.pem",
        "A PEM file, to serve /metrics with TLS, or off. It holds the private key and the "
        "certificate with its chain. tierd uses a renewed file at once.",
    ),
    Setting(
        ("promotion", "min_accesses"),
        "hot_accesses_min_bp",
        valuetypes.percent(100, 10000, "memory that is almost never accessed is not hot"),
        ReloadEffect.plan,
        "10%",
        "Memory is hot if at least this share of DAMON's samples found an access.",
    ),
    Setting(
        ("promotion", "min_age"),
        "hot_age_ms_min",
        valuetypes.duration_ms(0, HOUR_MS),
        ReloadEffect.plan,
        "2s",
        "How long memory must be hot before it moves. With any value other than 0s the kernel "
        "does not tune its sampling, because that would make the age longer.",
    ),
    Setting(
        ("promotion", "fill"),
        "used_bp",
        valuetypes.or_word(valuetypes.percent(5000, 10000), "auto"),
        ReloadEffect.plan,
        "99.8%",
        "How full promotion may make a fast node. Together with headroom it must be more than "
        "100%: in this overlap hot and cold memory change places. auto makes an overlap of up to "
        "0.2%.",
    ),
    Setting(
        ("demotion", "min_age"),
        "cold_age_ms_min",
        valuetypes.duration_ms(0, HOUR_MS),
        ReloadEffect.plan,
        "30s",
        "How long memory must be without any access before it moves. With any value other than 0s "
        "the kernel does not tune its sampling, because that would make the age longer.",
    ),
    Setting(
        ("monitoring", "auto_intervals"),
        "auto_intervals",
        valuetypes.switch(),
        ReloadEffect.plan,
        "off",
        "Whether the interval may be longer than `sample`: on or off. While tierd visits single "
        "pages (`cost`), it is as long as the number of regions needs. Else the kernel changes it "
        "by what it sees (6.15 and later).",
    ),
    Setting(
        ("monitoring", "accesses_seen"),
        "access_bp",
        valuetypes.percent(1, 10000),
        ReloadEffect.plan,
        "8%",
        "With auto_intervals: the share of samples that should find an access.",
    ),
    Setting(
        ("monitoring", "sample"),
        "sample_us",
        valuetypes.duration_us(100, MINUTE_US),
        ReloadEffect.plan,
        "10ms",
        "The time between two samples, in which DAMON looks for an access; with auto_intervals, "
        "the shortest time.",
    ),
    Setting(
        ("monitoring", "sample_max"),
        "sample_us_max",
        valuetypes.duration_us(100, HOUR_US),
        ReloadEffect.plan,
        "1s",
        "With auto_intervals: the longest time between two samples.",
    ),
    Setting(
        ("monitoring", "aggregation"),
        "aggr_us",
        valuetypes.duration_us(1000, HOUR_US),
        ReloadEffect.plan,
        "200ms",
        "How long DAMON counts accesses before it acts on the count.",
    ),
    Setting(
        ("monitoring", "regions"),
        "regions",
        valuetypes.or_word(valuetypes.span(3, 100_000), "auto"),
        ReloadEffect.plan,
        "100-10000",
        "The smallest and the largest number of regions in which DAMON watches a node; auto "
        "chooses by the size of the node. More regions show more detail, and cost more CPU time. "
        "With very many of them there are no visits to single pages (`cost`): a sample of DAMON "
        "marks a page as not touched, and visits would see that mark. `tierd plan` says so.",
    ),
    Setting(
        ("loop", "window"),
        "window_ms",
        valuetypes.duration_ms(100, MINUTE_MS),
        ReloadEffect.plan,
        "500ms",
        "The time between two moves of memory. The rate limit is divided into windows of this "
        "length.",
    ),
    Setting(
        ("loop", "tick"),
        "tick_ms",
        valuetypes.duration_ms(100, MINUTE_MS),
        ReloadEffect.plan,
        "5s",
        "The time between two ticks. In each tick tierd reads the machine, and corrects how much "
        "moves.",
    ),
    Setting(
        ("loop", "latency"),
        "measures_latency",
        valuetypes.switch(),
        ReloadEffect.plan,
        "off",
        "Whether tierd measures how late nodes answer, while memory comes up and for some seconds "
        "of each minute: on or off. It follows some pointers on both nodes, once a second at most. "
        "When the fast node answers no sooner than the slower one, its bandwidth is the limit: "
        "promotion stops. From Linux 7.2 on some hot pages go down until both answer alike.",
    ),
    Setting(
        ("loop", "profile"),
        "profile",
        valuetypes.switch(),
        ReloadEffect.live,
        "off",
        "Whether tierd keeps a profile of how hot memory is, for `tierd simulate`: on or off. It "
        "is made of what the sensors of the demand tuner count anyway: about 50 KB a day if "
        "programs are steady, and at most half a megabyte in all. There is no address and no name "
        "in it.",
    ),
)

SETTINGS = _BASIC + _GROUPED
BY_KEY = {setting.key: setting for setting in SETTINGS}
BY_FIELD = {setting.field: setting for setting in SETTINGS}
GROUP_KEYS = tuple(group.key for group in GROUPS)


def in_group(group: str | None) -> tuple[Setting, ...]:
    """Return the settings of a group; None returns the settings that are in no group."""
    if group is None:
        return _BASIC
    return tuple(setting for setting in _GROUPED if setting.key[0] == group)
