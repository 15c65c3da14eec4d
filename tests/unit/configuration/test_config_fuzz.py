"""Any file gives a Config or a list of errors, and every Config can be written to a file."""

import dataclasses

from hypothesis import example, given
from hypothesis import strategies as st

from tierd.configuration import configfile, configtext
from tierd.configuration.class_values import cgroup_path_error
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
    used_bp_for,
)
from tierd.configuration.configfile import ConfigErrors
from tierd.configuration.settings import GROUP_KEYS, SETTINGS, Setting
from tierd.configuration.yamltext import DEPTH_MAX


def outcome(*texts: str) -> Config | tuple[str, ...]:
    try:
        return configfile.parse([(f"{i}.yaml", text) for i, text in enumerate(texts)]).config
    except ConfigErrors as errors:
        found = errors
    assert found.lines
    assert list(found.problems) == sorted(found.problems)
    for line in found.lines:
        assert line.isprintable()
        assert line.encode("utf-8")
        assert len(line) < 1000
    return found.lines


# Words with a meaning in YAML or tierd, so that a text is often almost right.
WORDS = st.sampled_from(
    [setting.key[-1] for setting in SETTINGS]
    + [*GROUP_KEYS, "include", "exclude", "auto", "off", "on", "[", "]", "{", "}", ":", ": ", ", "]
    + ["- ", "\n", "\n  ", "\t", "#", "'", '"', "&a ", "*a", "<<", "!!int ", "---", "...", "%", "|"]
    + ["> ", "? ", "0.5%", "200MB/s", "1s", "010", "~", "/a", "[[0], [1]]", "\\", "\x85", "\u2028"]
)


@given(st.text())
@example('"\\ud800": 1')
@example('mode: "\\udfff"')
@example("%YAML 1." + "9" * 5000 + "\n---\n{}")
@example('"\\UFFFFFFFF"')
@example("!<%ff> a")
@example("? ")
@example("mode: &")
@example("- " * 30)
@example("[" * 10_000)
@example("{a: " * 10_000)
@example("? " * 10_000)
def test_any_text(text: str) -> None:
    outcome(text)


@given(st.lists(WORDS, max_size=30).map("".join))
def test_text_that_is_nearly_right(text: str) -> None:
    outcome(text)


@given(st.sampled_from(SETTINGS), st.lists(WORDS, max_size=6).map("".join))
def test_any_value(setting: Setting, value: str) -> None:
    key = setting.key
    for text in (f"{value}", f"{{{value}}}", f"[{value}]", f"'{value}'"):
        outcome(f"{key[0]}: {text}" if len(key) == 1 else f"{key[0]}: {{{key[1]}: {text}}}")


def test_depth_is_bounded() -> None:
    text = "mode: " + "[" * (DEPTH_MAX * 1000)
    lines = outcome(text)
    assert isinstance(lines, tuple)
    assert "nested too deeply" in lines[0]


PATHS = (
    st.text(min_size=1, max_size=20)
    .map(lambda text: f"/{text}")
    .filter(lambda path: not cgroup_path_error(path))
)


@st.composite
def classes(draw: st.DrawFn) -> tuple[CgroupClass, ...]:
    paths = sorted(draw(st.sets(PATHS, max_size=6)))
    cut = draw(st.integers(0, len(paths)))
    parts = {CgroupMode.include: paths[:cut], CgroupMode.exclude: paths[cut:]}
    listed = tuple(CgroupClass(f"c-{mode}", mode, tuple(p)) for mode, p in parts.items() if p)
    excluded = [f"{path}/" for path in parts[CgroupMode.exclude]]
    void = any(path.startswith(e) for path in parts[CgroupMode.include] for e in excluded)
    return () if void else listed


@st.composite
def configs(draw: st.DrawFn) -> Config:
    """Return any Config that a file can describe."""
    headroom_bp = draw(st.integers(1, 5000))
    sample_us = draw(st.integers(100, 10**6))
    aggr_us = draw(st.integers(max(1000, 5 * sample_us), 6 * 10**6))
    window_ms = draw(st.integers(max(100, -(-aggr_us // 1000)), 60_000))
    nodes = draw(st.lists(st.integers(0, 1023), min_size=2, max_size=8, unique=True))
    cut = draw(st.integers(1, len(nodes) - 1))
    least = draw(st.integers(3, 1000))
    return Config(
        mode=draw(st.sampled_from(Mode)),
        tuner=draw(st.sampled_from(Tuner)),
        headroom_bp=headroom_bp,
        used_bp=draw(st.just(used_bp_for(headroom_bp)) | st.integers(10001 - headroom_bp, 10000)),
        rate_max_bytes_per_s=draw(st.integers(10**6, 10**12)),
        window_ms=window_ms,
        tick_ms=draw(st.integers(100, min(60_000, 10 * window_ms))),
        hot_accesses_min_bp=draw(st.integers(100, 10000)),
        hot_age_ms_min=draw(st.integers(0, 3_600_000)),
        cold_age_ms_min=draw(st.integers(0, 3_600_000)),
        tiers=draw(st.just((tuple(nodes[:cut]), tuple(nodes[cut:]))) | st.none()),
        bandwidths=draw(
            st.none()
            | st.dictionaries(st.integers(0, 1023), st.integers(10**6, 10**14), min_size=1).map(
                lambda found: tuple(sorted(found.items()))
            )
        ),
        cgroups=draw(classes()),
        promoter=draw(st.sampled_from((Promoter.damon, Promoter.auto))),
        on_stop=draw(st.sampled_from(OnStop)),
        on_conflict=draw(st.sampled_from(OnConflict)),
        cpusets=draw(st.sampled_from(Cpusets)),
        manage_demotion_enabled=draw(st.booleans()),
        manage_damon_stat=draw(st.booleans()),
        metrics_address=draw(st.sampled_from([None, "[::1]:80", "0.0.0.0:19100", "a.b:65535"])),
        metrics_textfile=draw(
            st.none() | PATHS.map(lambda path: f"{path}.prom").filter(str.isprintable)
        ),
        auto_intervals=draw(st.booleans()),
        access_bp=draw(st.integers(1, 10000)),
        sample_us=sample_us,
        sample_us_max=draw(st.integers(sample_us, 3_600 * 10**6)),
        aggr_us=aggr_us,
        regions=draw(st.none() | st.tuples(st.just(least), st.integers(least, 100_000))),
    )


@given(configs())
def test_what_is_in_force_reads_back_as_the_same(config: Config) -> None:
    assert outcome(configtext.effective(config)) == config


@given(configs(), configs())
def test_a_full_file_wins_over_whatever_came_before(first: Config, second: Config) -> None:
    merged = outcome(configtext.effective(first), configtext.effective(second))
    if isinstance(merged, Config):
        assert dataclasses.replace(merged, cgroups=()) == dataclasses.replace(second, cgroups=())
    else:
        # Classes are merged by name, so those of both files can exclude each other.
        assert all(": cgroups: " in line for line in merged)


@given(configs(), configs())
def test_a_difference_is_told_exactly_where_there_is_one(first: Config, second: Config) -> None:
    changes = configfile.diff(first, second)
    assert bool(changes) == (first != second)
    assert [change.name for change in changes] == [
        setting.name for setting in SETTINGS if setting.text(first) != setting.text(second)
    ]
