"""Every setting there is, in one table that parser, default file and documentation come from.

A setting is a line here and a field of `Config`; its default is the field's. Units stand in values
and not in keys, a word beats a number, and what most people never touch is in a group.
"""

from dataclasses import dataclass
from enum import StrEnum

from tierd.configuration import kinds
from tierd.configuration.config import Config, Mode, OnConflict, OnStop, Tuner, used_bp_for
from tierd.configuration.kinds import Kind

MB = 1000**2
TB = 1000**4
MINUTE_MS = 60_000
MINUTE_US = 60 * 10**6
HOUR_MS = 60 * MINUTE_MS
HOUR_US = 60 * MINUTE_US


class Effect(StrEnum):
    """What a reload makes of a new value."""

    live = "at once"
    plan = "at once, by a new plan"
    start = "at the next start of tierd"


@dataclass(frozen=True, slots=True)
class Setting:
    """One key of the YAML file, and the field that it fills."""

    key: tuple[str, ...]
    field: str
    kind: Kind
    effect: Effect
    example: str
    doc: str
    """The first sentence, which has to do alone in a list; more may follow, for the full text."""

    @property
    def name(self) -> str:
        return ".".join(self.key)

    def value(self, config: Config) -> object:
        """The value as the user would have to write it; None where a word says it."""
        value = getattr(config, self.field)
        if self.field == "used_bp" and value == used_bp_for(config.headroom_bp):
            return None
        return value

    def text(self, config: Config) -> str:
        """The value in YAML, on one line."""
        return self.kind.write(self.value(config))


@dataclass(frozen=True, slots=True)
class Group:
    """Settings that stand together under one key."""

    key: str
    doc: str


GROUPS = (
    Group("neighbours", "Others on this machine that share DAMON, or place memory."),
    Group(
        "metrics",
        "Where numbers for Prometheus go; docs/metrics.md lists them.",
    ),
    Group("promotion", "Hot memory, on its way to a faster node."),
    Group("demotion", "Cold memory, on its way to a slower node."),
    Group("monitoring", "How DAMON watches memory. More often sees more, and costs more CPU."),
    Group("loop", "How often things happen."),
)

_BASIC = (
    Setting(
        ("mode",),
        "mode",
        kinds.words(Mode),
        Effect.plan,
        "observe",
        "Whether memory moves: manage moves it, observe only reports what would move.",
    ),
    Setting(
        ("tuner",),
        "tuner",
        kinds.words(Tuner),
        Effect.plan,
        "kernel",
        "Who decides how much to move: auto takes the best that this kernel can run. demand is "
        "tierd's own: it moves what is hot below and cold above, and no more. kernel uses the "
        "kernel's own goals for nodes (6.16 and later), emulated follows the same law with what "
        "tierd measures, on any kernel. That law, consist, stands almost still on a full fast "
        "node; from 7.2 on kernel uses another, temporal, which moves at once.",
    ),
    Setting(
        ("headroom",),
        "headroom_bp",
        kinds.percent(1, 5000, "a fast node without room can take no hot memory"),
        Effect.plan,
        "2%",
        "The share of a fast node that is kept free for new allocations. Where the kernel itself "
        "keeps more free, that counts instead.",
    ),
    Setting(
        ("rate_limit",),
        "rate_max_bytes_per_s",
        kinds.rate(
            MB,
            TB,
            "the kernel takes 0 for no limit at all, so `mode: observe` is the way to move nothing",
        ),
        Effect.plan,
        "1GB/s",
        "The most that may move per second, each way, from each node. Moving costs CPU, and memory "
        "bandwidth that others want too.",
    ),
    Setting(
        ("tiers",),
        "tiers",
        kinds.or_word(kinds.tiers(), "auto"),
        Effect.plan,
        "[[0], [2, 3]]",
        "The nodes of each tier, fastest first; auto trusts the kernel. For machines whose "
        "firmware does not tell which memory is slow; `tierd tiers` shows what is known. A node "
        "that is left out is left alone.",
    ),
    Setting(
        ("cgroups",),
        "cgroups",
        kinds.cgroups(),
        Effect.plan,
        "{database: {include: [/database.slice]}, backup: {exclude: [/backup.slice]}}",
        "Parts of the cgroup tree that tierd limits itself to (include) or leaves alone (exclude). "
        "Each class has a name of your choice and paths from the root of the tree; a path stands "
        "for its whole subtree. Without a class the whole machine is managed.",
    ),
    Setting(
        ("on_stop",),
        "on_stop",
        kinds.words(OnStop),
        Effect.live,
        "keep",
        "What a stop leaves behind: restore puts everything back as it was found, keep leaves the "
        "schemes running as they are. `tierd restore` puts things back at any time.",
    ),
    Setting(
        ("on_conflict",),
        "on_conflict",
        kinds.words(OnConflict),
        Effect.live,
        "take_over",
        "What to do if somebody else's kdamonds exist: refuse to start (exit 75), or take_over, "
        "which deletes them for good. The kernel has one list of kdamonds for all.",
    ),
)

_GROUPED = (
    Setting(
        ("neighbours", "damon_stat"),
        "manage_damon_stat",
        kinds.choice({"stop": True, "leave": False}),
        Effect.start,
        "leave",
        "The kernel's damon_stat only keeps statistics, but holds DAMON for itself: stop it while "
        "tierd runs, or leave it, and not start where it runs.",
    ),
    Setting(
        ("neighbours", "demotion_enabled"),
        "manage_demotion_enabled",
        kinds.choice({"on": True, "leave": False}),
        Effect.start,
        "on",
        "Demotion by the kernel's own reclaim, which helps when memory fills up faster than tierd "
        "moves it: switch it on while tierd runs, or leave it as it is.",
    ),
    Setting(
        ("metrics", "address"),
        "metrics_address",
        kinds.or_word(kinds.address(), "off"),
        Effect.start,
        "0.0.0.0:19100",
        "Where /metrics is served, or off. Anybody who reaches it may read it, so beyond this "
        "machine it wants a certificate, or a proxy.",
    ),
    Setting(
        ("metrics", "textfile"),
        "metrics_textfile",
        kinds.or_word(
            kinds.file_path(".prom", "node_exporter reads no other"),
            "off",
        ),
        Effect.start,
        "/var/lib/prometheus/node-exporter/tierd.prom",
        "A file for node_exporter's textfile collector, or off. Its folder must exist.",
    ),
    Setting(
        ("metrics", "certificate"),
        "metrics_certificate",
        kinds.or_word(kinds.file_path(), "off"),
        Effect.start,
        "/etc/tierd/metrics.pem",
        "A PEM file to serve /metrics by TLS, or off: the private key, and the certificate with "
        "its chain. A renewed file counts at once.",
    ),
    Setting(
        ("promotion", "min_accesses"),
        "hot_accesses_min_bp",
        kinds.percent(100, 10000, "what is hardly ever accessed is not hot"),
        Effect.plan,
        "10%",
        "Memory is hot if at least this share of DAMON's looks at it found an access.",
    ),
    Setting(
        ("promotion", "min_age"),
        "hot_age_ms_min",
        kinds.duration_ms(0, HOUR_MS),
        Effect.plan,
        "2s",
        "How long memory must have been hot before it moves. Any age other than 0s keeps the "
        "kernel from tuning its sampling, which would stretch the age.",
    ),
    Setting(
        ("promotion", "fill"),
        "used_bp",
        kinds.or_word(kinds.percent(5000, 10000), "auto"),
        Effect.plan,
        "99.8%",
        "How full promotion may make a fast node. Together with headroom it must exceed 100%: in "
        "the overlap hot and cold memory trade places. auto overlaps by up to 0.2%.",
    ),
    Setting(
        ("demotion", "min_age"),
        "cold_age_ms_min",
        kinds.duration_ms(0, HOUR_MS),
        Effect.plan,
        "30s",
        "How long memory must have been without any access before it moves. Any age other than 0s "
        "keeps the kernel from tuning its sampling, which would stretch the age.",
    ),
    Setting(
        ("monitoring", "auto_intervals"),
        "auto_intervals",
        kinds.switch(),
        Effect.plan,
        "off",
        "Whether the kernel looks more often or less by what it sees (6.15 and later): on or off. "
        "With off it looks every `sample`.",
    ),
    Setting(
        ("monitoring", "accesses_seen"),
        "access_bp",
        kinds.percent(1, 10000),
        Effect.plan,
        "8%",
        "With auto_intervals: the share of looks that should find an access.",
    ),
    Setting(
        ("monitoring", "sample"),
        "sample_us",
        kinds.duration_us(100, MINUTE_US),
        Effect.plan,
        "10ms",
        "How often DAMON looks whether memory was accessed; with auto_intervals, at most.",
    ),
    Setting(
        ("monitoring", "sample_max"),
        "sample_us_max",
        kinds.duration_us(100, HOUR_US),
        Effect.plan,
        "1s",
        "With auto_intervals: the longest that DAMON may go without a look.",
    ),
    Setting(
        ("monitoring", "aggregation"),
        "aggr_us",
        kinds.duration_us(1000, HOUR_US),
        Effect.plan,
        "200ms",
        "How long accesses are counted before the count is judged.",
    ),
    Setting(
        ("monitoring", "regions"),
        "regions",
        kinds.or_word(kinds.span(3, 100_000), "auto"),
        Effect.plan,
        "100-10000",
        "The fewest and the most regions that a node is watched in; auto goes by its size. More "
        "regions are finer, and each costs CPU.",
    ),
    Setting(
        ("loop", "window"),
        "window_ms",
        kinds.duration_ms(100, MINUTE_MS),
        Effect.plan,
        "500ms",
        "How often memory moves: the rate limit is handed out in windows of this length.",
    ),
    Setting(
        ("loop", "tick"),
        "tick_ms",
        kinds.duration_ms(100, MINUTE_MS),
        Effect.plan,
        "5s",
        "How often tierd looks at the machine, and corrects what it runs there.",
    ),
)

SETTINGS = _BASIC + _GROUPED
BY_KEY = {setting.key: setting for setting in SETTINGS}
BY_FIELD = {setting.field: setting for setting in SETTINGS}
GROUP_KEYS = tuple(group.key for group in GROUPS)


def in_group(group: str | None) -> tuple[Setting, ...]:
    """The settings of a group, or those that stand alone."""
    if group is None:
        return _BASIC
    return tuple(setting for setting in _GROUPED if setting.key[0] == group)
