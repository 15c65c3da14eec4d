"""What a user may write, and which errors are reported at which place."""

import pytest

from tierd.configuration import configfile
from tierd.configuration.config import (
    CgroupClass,
    CgroupMode,
    Config,
    Cpusets,
    Mode,
    OnConflict,
    OnStop,
    Promoter,
    Tuner,
)
from tierd.configuration.configfile import ConfigErrors, LoadedConfig
from tierd.errors import ExitCode


def parse(*texts: str) -> LoadedConfig:
    return configfile.parse([(f"{number}.yaml", text) for number, text in enumerate(texts)])


def errors(*texts: str) -> list[str]:
    with pytest.raises(ConfigErrors) as caught:
        parse(*texts)
    return list(caught.value.lines)


@pytest.mark.parametrize(
    "text", ["", "\n", "# nothing", "---", "{}", "null", "~", "metrics:", "\ufeff", "cgroups: {}"]
)
def test_nothing_is_the_default(text: str) -> None:
    assert parse(text).config == Config()


def test_no_file_is_the_default() -> None:
    assert parse().config == Config()


def test_every_setting_can_be_set() -> None:
    text = """
mode: observe
tuner: demand
promoter: auto
headroom: 2%
rate_limit: 64MiB/s
tiers: [[0], [2-3, 5]]
cgroups:
  database: {include: [/a.slice, /b.slice/c.service]}
  backup:
    exclude: /d.slice
on_stop: keep
on_conflict: take_over
cpusets: ignore
neighbours: {damon_stat: leave, demotion_enabled: on}
metrics: {address: "[::1]:80", textfile: /var/lib/x/tierd.prom}
promotion: {min_accesses: 10%, min_age: 1.5s, fill: 99%}
demotion: {min_age: 2min}
monitoring: {auto_intervals: no, accesses_seen: 1%, sample: 20ms, sample_max: 1s, aggregation: 1s,
             regions: 20-500}
loop: {window: 2s, tick: 3s}
"""
    assert parse(text).config == Config(
        mode=Mode.observe,
        tuner=Tuner.demand,
        promoter=Promoter.auto,
        headroom_bp=200,
        used_bp=9900,
        rate_max_bytes_per_s=64 << 20,
        window_ms=2000,
        tick_ms=3000,
        hot_accesses_min_bp=1000,
        hot_age_ms_min=1500,
        cold_age_ms_min=120_000,
        tiers=((0,), (2, 3, 5)),
        cgroups=(
            CgroupClass("database", CgroupMode.include, ("/a.slice", "/b.slice/c.service")),
            CgroupClass("backup", CgroupMode.exclude, ("/d.slice",)),
        ),
        on_stop=OnStop.keep,
        on_conflict=OnConflict.take_over,
        cpusets=Cpusets.ignore,
        manage_demotion_enabled=True,
        manage_damon_stat=False,
        metrics_address="[::1]:80",
        metrics_textfile="/var/lib/x/tierd.prom",
        auto_intervals=False,
        access_bp=100,
        sample_us=20_000,
        sample_us_max=10**6,
        aggr_us=10**6,
        regions=(20, 500),
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('headroom: "1%"', Config(headroom_bp=100, used_bp=9920)),
        ("metrics: {address: off}", Config(metrics_address=None)),
        ("metrics: {address: localhost:1}", Config(metrics_address="localhost:1")),
        ("tiers: [0, 1]", Config(tiers=((0,), (1,)))),
        ("tiers: [[3, 1], 0]", Config(tiers=((3, 1), (0,)))),
        ("tiers: auto", Config()),
        (
            "bandwidths: {1: 38GB/s, 0: 205GB/s}",
            Config(bandwidths=((0, 205 * 10**9), (1, 38 * 10**9))),
        ),
        (
            "bandwidths: {0: 205GB/s, 2-3: 38GB/s}",
            Config(bandwidths=((0, 205 * 10**9), (2, 38 * 10**9), (3, 38 * 10**9))),
        ),
        ("bandwidths: auto", Config()),
        ("mode: &here manage", Config()),
        ("mode: ! manage", Config()),
    ],
)
def test_ways_to_write_it(text: str, expected: Config) -> None:
    assert parse(text).config == expected


@pytest.mark.parametrize("word", ["off", "no", "false", "Off", "FALSE"])
def test_switches_know_the_words_of_yaml(word: str) -> None:
    assert parse(f"monitoring: {{auto_intervals: {word}}}").config == Config(auto_intervals=False)


@pytest.mark.parametrize(
    ("headroom", "used_bp"),
    [("0.01%", 10000), ("0.1%", 9995), ("0.5%", 9970), ("2%", 9820), ("50%", 5020)],
)
def test_a_headroom_is_enough(headroom: str, used_bp: int) -> None:
    config = parse(f"headroom: {headroom}").config
    assert config.used_bp == used_bp
    assert config.used_bp + config.headroom_bp > 10000


SIZES = "B, kB, MB, GB, TB, KiB, MiB, GiB, TiB"

WRONG = [
    # Words.
    ("mode: manag", "1:7: mode: expected manage or observe, found 'manag'"),
    ("tuner: best", "1:8: tuner: expected one of auto, kernel, emulated, demand, found 'best'"),
    (
        "mode:",
        "1:6: mode: has no value: expected manage or observe; to use the default, remove the line",
    ),
    (
        "mode: ~",
        "1:7: mode: has no value: expected manage or observe; to use the default, remove the line",
    ),
    ("mode: [manage]", "1:7: mode: expected manage or observe, found a list"),
    ("on_stop: {a: b}", "1:10: on_stop: expected restore or keep, found a mapping"),
    (
        "neighbours:\n  demotion_enabled: yes",
        "2:21: neighbours.demotion_enabled: expected on or leave, found 'yes'",
    ),
    (
        "monitoring: {auto_intervals: maybe}",
        "1:30: monitoring.auto_intervals: expected on or off, found 'maybe'",
    ),
    # Quantities are parsed from the text. YAML would make numbers of the first four.
    (
        "loop: {tick: 12:30:45}",
        "1:14: loop.tick: expected a duration such as 5ms, 10s, 2min or 1h, found '12:30:45'",
    ),
    (
        "loop: {tick: 010}",
        "1:14: loop.tick: expected a duration such as 5ms, 10s, 2min or 1h, found '010', which has"
        " no unit",
    ),
    (
        "rate_limit: 1e3",
        "1:13: rate_limit: expected auto, or a rate such as 200MB/s or 64MiB/s, found '1e3'",
    ),
    (
        "headroom: 0.5",
        "1:11: headroom: expected a percentage such as 0.5% or 99.7%, found '0.5', which has no"
        " unit",
    ),
    (
        "rate_limit: 0MB/s",
        "1:13: rate_limit: expected auto, or 1MB/s to 1TB/s, found '0MB/s': 0 means no limit to "
        "the kernel; to move nothing, use `mode: observe`",
    ),
    (
        "rate_limit: 5ms/s",
        "1:13: rate_limit: expected auto, or a rate such as 200MB/s or 64MiB/s, found '5ms', whose "
        f"unit 'ms' is none of {SIZES}",
    ),
    (
        "headroom: 0%",
        "1:11: headroom: expected 0.01% to 50%, found '0%': a full fast node cannot take"
        " hot memory",
    ),
    ("loop: {window: 1ms}", "1:16: loop.window: expected 100ms to 1min, found '1ms'"),
    (
        f"headroom: {'9' * 70}%",
        f"1:11: headroom: expected 0.01% to 50%, found '{'9' * 60}'...",
    ),
    (
        "monitoring: {regions: 1000-10}",
        "1:23: monitoring.regions: expected auto, or two counts from 3 to 100000, such as 10-1000,"
        " the smaller first, found '1000-10'",
    ),
    # Keys.
    ("rate-limit: 1MB/s", "1:1: unknown key 'rate-limit', did you mean rate_limit?"),
    ("metric: {}", "1:1: unknown key 'metric', did you mean metrics?"),
    ("metrics: {adress: x}", "1:11: unknown key 'metrics.adress', did you mean metrics.address?"),
    ("address: x", "1:1: unknown key 'address', did you mean address in the group metrics?"),
    (
        "loop.tick: 1s",
        "1:1: unknown key 'loop.tick', did you mean tick in the group loop?",
    ),
    (
        "loop: {mode: observe}",
        "1:8: unknown key 'loop.mode', did you mean mode, which is not in a group?",
    ),
    ("fnord: 1", "1:1: unknown key 'fnord'"),
    ("? [a]\n: 1", "1:3: a key must be a word, not a list or a mapping"),
    ("mode: manage\nmode: observe", "2:1: 'mode' is given twice, first in line 1"),
    (
        "loop:\n  tick: 1s\n  window: 1s\n  tick: 2s",
        "4:3: 'tick' is given twice, first in line 2",
    ),
    ("observe", "1:1: expected settings such as `headroom: 1%`, found 'observe'"),
    ("- mode: manage", "1:1: expected settings such as `headroom: 1%`, found a list"),
    ("loop: 1s", "1:7: expected settings such as `loop: {window: 500ms}`, found '1s'"),
    # Addresses and paths.
    (
        "metrics: {address: 19100}",
        "1:20: metrics.address: expected off, or an address such as 127.0.0.1:19100 or"
        " \"[::1]:19100\", found '19100'",
    ),
    *(
        (
            f"metrics: {{address: '{wrong}'}}",
            "1:20: metrics.address: expected off, or an address such as 127.0.0.1:19100 or"
            f" \"[::1]:19100\", found '{wrong}'",
        )
        for wrong in ("1.2.3.400:80", "[1.2.3.4]:80", "[::x]:80", "::1:80", "a:65536", "a:0", ":80")
    ),
    (
        "metrics: {textfile: /tmp/tierd.txt}",
        "1:21: metrics.textfile: expected off, or an absolute path that ends in .prom"
        " (node_exporter reads no other files), found '/tmp/tierd.txt'",
    ),
    (
        "metrics: {textfile: tierd.prom}",
        "1:21: metrics.textfile: expected off, or an absolute path that ends in .prom, found"
        " 'tierd.prom'",
    ),
    # Tiers.
    (
        "tiers: fast",
        "1:8: tiers: expected auto, or lists of node ids, fastest tier first, such as [[0], [1]],"
        " found 'fast'",
    ),
    (
        "bandwidths: 38GB/s",
        "1:13: bandwidths: expected auto, or rates by node id, such as {0: 205GB/s, 1: 38GB/s}, "
        "found '38GB/s'",
    ),
    (
        "bandwidths: {}",
        "1:13: bandwidths: expected auto, or rates by node id, such as {0: 205GB/s, 1: 38GB/s}, "
        "found a mapping",
    ),
    (
        "bandwidths: {0: 205}",
        "1:17: bandwidths: 0: expected auto, or a rate such as 200MB/s or 64MiB/s, found '205'",
    ),
    (
        "bandwidths: {x: 205GB/s}",
        "1:14: bandwidths: expected auto, or node ids such as 0 or 2-3, found 'x'",
    ),
    (
        "bandwidths: {0: 205GB/s, 0-1: 38GB/s}",
        "1:26: bandwidths: node 0 is given twice",
    ),
    ("tiers: [[0]]", "1:8: tiers: expected auto, or 2 to 64 tiers, as in [[0], [1]]"),
    (
        "tiers: [[0], []]",
        "1:14: tiers: expected auto, or the node ids of a tier, found an empty list",
    ),
    (
        "tiers:\n- [0]\n- [1, 0]",
        "3:7: tiers: node 0 is given twice, first in line 2: a node is in one tier",
    ),
    (
        "tiers: [[0], [one]]",
        "1:15: tiers: expected auto, or node ids such as 0 or 2-3, found 'one'",
    ),
    (
        "tiers: [[0], [[1]]]",
        "1:15: tiers: expected auto, or node ids such as 0 or 2-3, found a list",
    ),
    # Cgroups.
    (
        "cgroups: [/a]",
        "1:10: cgroups: expected classes by name, such as database: {include: /database.slice},"
        " found a list",
    ),
    (
        "cgroups: {a: /a}",
        "1:14: cgroups: a: expected a class, such as {include: /database.slice}, found '/a'",
    ),
    (
        "cgroups: {a: {includes: /a}}",
        "1:15: cgroups: a: expected include or exclude with paths, such as {include:"
        " /database.slice}, found 'includes'",
    ),
    (
        "cgroups: {a: {include: /a, exclude: /b}}",
        "1:28: cgroups: a: a class has either include or exclude, not both",
    ),
    ("cgroups: {a: {include: []}}", "1:24: cgroups: a: expected paths, found an empty list"),
    ("cgroups: {a: {include: }}", "1:23: cgroups: a: expected a path, found nothing"),
    (
        "cgroups: {a b: {include: /a}}",
        "1:11: cgroups: expected a name of letters, digits, - and _, found 'a b'",
    ),
    (
        "cgroups: {a: {include: a.slice}}",
        "1:24: cgroups: a: expected a path that begins with /, such as /database.slice, found "
        "'a.slice'",
    ),
    (
        "cgroups: {a: {include: /sys/fs/cgroup/a}}",
        "1:24: cgroups: a: expected a path from the root of the cgroup tree, without "
        "/sys/fs/cgroup, found '/sys/fs/cgroup/a'",
    ),
    (
        "cgroups: {a: {exclude: /}}",
        "1:24: cgroups: a: / is the whole machine, which needs no class; to move nothing, use"
        " `mode: observe`",
    ),
    (
        "cgroups: {a: {exclude: /a*}}",
        "1:24: cgroups: a: patterns are not allowed: a path includes its whole subtree, found"
        " '/a*'",
    ),
    (
        "cgroups: {a: {exclude: /a/../b}}",
        "1:24: cgroups: a: expected a path without empty parts, '.' or '..', found '/a/../b'",
    ),
    (
        'cgroups: {a: {exclude: "/a\\nb"}}',
        "1:24: cgroups: a: expected a path of printable characters, at most 4000, found '/a\\nb'",
    ),
    (
        "cgroups: {a: {include: /a}, b: {exclude: /a}}",
        "1:42: cgroups: b: /a is given twice, first in a",
    ),
    ("cgroups: {a: {include: [/a, /a]}}", "1:29: cgroups: a: /a is given twice"),
    (
        "cgroups: {a: {include: /a/b/c}, b: {exclude: /a}}",
        "1:24: cgroups: a: /a/b/c is below /a, which class b excludes: its memory would never move",
    ),
    # Values that are wrong only together.
    (
        "headroom: 0.2%\npromotion: {fill: 99.7%}",
        "2:19: promotion.fill 99.7% and headroom 0.2% must together be more than 100%: else "
        "promotion stops before demotion starts, and hot memory stays on the slow node",
    ),
    (
        "monitoring: {aggregation: 20ms}",
        "1:27: monitoring.aggregation 20ms and monitoring.sample 5ms: the aggregation must be"
        " at least 5 times the sample, to tell hot from warm memory",
    ),
    (
        "monitoring: {sample_max: 1ms}",
        "1:26: monitoring.sample_max 1ms and monitoring.sample 5ms: the longest time between "
        "samples must not be less than the shortest",
    ),
    (
        "monitoring: {aggregation: 2s}",
        "1:27: loop.window 1s and monitoring.aggregation 2s: the window must not be shorter "
        "than the aggregation, or there is no new count to act on",
    ),
    (
        "loop: {tick: 11s}",
        "1:14: loop.tick 11s and loop.window 1s: the tick must be at most 10 windows: tierd "
        "does not see what moves between ticks",
    ),
    # YAML syntax.
    ("mode: *a", "1:7: aliases such as '*a' are not allowed: write the value itself"),
    ("*a : manage", "1:1: aliases such as '*a' are not allowed: write the value itself"),
    ("loop: *a", "1:7: aliases such as '*a' are not allowed: write the value itself"),
    ("tiers: [[0], *a]", "1:14: aliases such as '*a' are not allowed: write the value itself"),
    ("tiers: [[0], [*a]]", "1:15: aliases such as '*a' are not allowed: write the value itself"),
    ("cgroups: {a: *a}", "1:14: aliases such as '*a' are not allowed: write the value itself"),
    (
        "cgroups: {a: {include: *a}}",
        "1:24: aliases such as '*a' are not allowed: write the value itself",
    ),
    (
        "loop: !!map {tick: 1s}",
        "1:7: tags such as 'tag:yaml.org,2002:map' are not allowed: remove the tag",
    ),
    (
        "mode: !!str manage",
        "1:7: tags such as 'tag:yaml.org,2002:str' are not allowed: remove the tag",
    ),
    ("--- {}\n--- {}", "2:1: a second document begins here: expected one document"),
    ("a: b: c", "1:5: is not YAML: mapping values are not allowed here"),
    (
        "loop:\n\ttick: 1s",
        "2:1: is not YAML: while scanning for the next token found character '\\t' that cannot"
        " start any token: indent with spaces, not tabs",
    ),
    ("mode: a\nmode: \0", "2:7: character U+0000 is not allowed in YAML"),
    (
        'mode: "\\UFFFFFFFF"',
        "1:1: is not YAML: an escape is larger than \\U0010FFFF, or a number is too long",
    ),
    ("[" * 9, "1:9: is nested too deeply: expected at most 8 levels"),
    ("#" * (64 * 1024 + 1), "1:1: is too large: expected at most 64 KiB"),
    ("mode: " + "x" * 5000, "1:7: a value is longer than 4096 characters"),
]


@pytest.mark.parametrize(("text", "line"), WRONG, ids=[text[:40] for text, _ in WRONG])
def test_what_is_wrong_and_where(text: str, line: str) -> None:
    assert errors(text) == [f"0.yaml:{line}"]


def test_everything_is_told_at_once_in_order() -> None:
    found = errors(
        "loop: {tick: 5}\nmode: x\nheadroom: 1",
        "headroom: 60%",
        "mode: {",
    )
    assert [line.split(": ")[0] for line in found] == [
        "0.yaml:1:14",
        "0.yaml:2:7",
        "0.yaml:3:11",
        "1.yaml:1:11",
        "2.yaml:1:8",
    ]


def test_the_error_is_for_the_config_and_says_how_many() -> None:
    with pytest.raises(
        ConfigErrors, match=r"^the configuration has 2 errors\n0\.yaml:1:7: mode"
    ) as one:
        parse("mode: x\ntuner: x")
    assert one.value.exit_code is ExitCode.config


def test_a_value_that_cannot_be_read_starts_no_other_error() -> None:
    assert len(errors("headroom: 1\npromotion: {fill: 60%}")) == 1


class TestMerging:
    def test_the_later_file_wins_key_by_key(self) -> None:
        config = parse(
            "mode: observe\nloop: {tick: 2s, window: 2s}", "loop: {tick: 4s}\nheadroom: 1%"
        ).config
        assert config == Config(
            mode=Mode.observe, tick_ms=4000, window_ms=2000, headroom_bp=100, used_bp=9920
        )

    def test_lists_are_replaced(self) -> None:
        assert parse("tiers: [[0], [1], [2]]", "tiers: [[1], [0]]").config.tiers == ((1,), (0,))

    def test_a_word_takes_a_value_back(self) -> None:
        assert parse("tiers: [[0], [1]]", "tiers: auto").config == Config()
        assert parse("promotion: {fill: 99.9%}", "promotion: {fill: auto}").config == Config()

    def test_cgroup_classes_are_replaced_by_name(self) -> None:
        config = parse(
            "cgroups: {a: {include: /a}, b: {include: /b}}", "cgroups: {a: {exclude: /x}}"
        ).config
        assert config.cgroups == (
            CgroupClass("a", CgroupMode.exclude, ("/x",)),
            CgroupClass("b", CgroupMode.include, ("/b",)),
        )

    def test_an_overridden_value_is_checked_all_the_same(self) -> None:
        assert errors("mode: x", "mode: observe") == [
            "0.yaml:1:7: mode: expected manage or observe, found 'x'"
        ]

    def test_a_wrong_class_does_not_hide_behind_a_right_one(self) -> None:
        assert len(errors("cgroups: {a: {include: /a}}", "cgroups: {b: {include: b}}")) == 1

    def test_values_from_different_files_can_exclude_each_other(self) -> None:
        found = errors("promotion: {fill: 99%}", "headroom: 0.5%")
        assert [line.split(": ")[0] for line in found] == ["0.yaml:1:19"]
