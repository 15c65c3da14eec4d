"""The shipped files and the documents agree with the table, and the table with Config."""

import dataclasses
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierd import units
from tierd.configuration import configfile, configtext, valuetypes
from tierd.configuration.config import CgroupClass, CgroupMode, Config, Mode
from tierd.configuration.settings import BY_FIELD, BY_KEY, GROUPS, SETTINGS, ReloadEffect, Setting
from tierd.errors import ExitCode

ROOT = Path(__file__).parents[3]
CONFIGS = ROOT / "configs"
COMMENTED = re.compile(r"^( *)#(?=[a-z])", re.MULTILINE)

STALE = "is stale: run tools/write_config_docs.py"


def config_of(text: str) -> Config:
    return configfile.parse([("test.yaml", text)]).config


def written(setting: Setting, value: str) -> str:
    if len(setting.key) == 1:
        return f"{setting.key[0]}: {value}"
    return f"{setting.key[0]}: {{{setting.key[1]}: {value}}}"


class TestTheTable:
    def test_every_field_has_one_setting(self) -> None:
        assert sorted(BY_FIELD) == sorted(field.name for field in dataclasses.fields(Config))
        assert len(BY_FIELD) == len(BY_KEY) == len(SETTINGS)

    def test_every_group_has_settings(self) -> None:
        assert {group.key for group in GROUPS} == {s.key[0] for s in SETTINGS if len(s.key) == 2}

    @pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
    def test_an_example_is_valid_and_not_the_default(self, setting: Setting) -> None:
        config = config_of(written(setting, setting.example))
        assert [change.name for change in configfile.diff(Config(), config)] == [setting.name]
        assert setting.text(config) == setting.example

    @pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
    def test_a_default_can_be_written(self, setting: Setting) -> None:
        assert config_of(written(setting, setting.text(Config()))) == Config()

    @pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
    def test_its_text_is_for_people(self, setting: Setting) -> None:
        assert setting.doc.endswith(".")
        assert setting.doc.isascii()
        assert not re.search(r"(_bp|_ms|_us)\b", f"{setting.name} {setting.doc}"), (
            "units belong into values"
        )


class TestTheDefaultFile:
    text = configtext.default_file()

    def test_it_is_the_one_that_ships(self) -> None:
        assert (CONFIGS / "tierd.yaml").read_text(encoding="utf-8") == self.text, STALE

    def test_it_means_nothing_as_it_is(self) -> None:
        assert config_of(self.text) == Config()

    def test_uncommented_it_is_the_default(self) -> None:
        text, count = COMMENTED.subn(r"\1", self.text)
        assert count == len(SETTINGS)
        parsed = configfile.parse([("test.yaml", text)])
        assert parsed.config == Config()
        assert set(BY_KEY) <= set(parsed.places)

    def test_any_single_line_can_be_brought_to_life(self) -> None:
        lines = self.text.splitlines()
        for number, line in enumerate(lines):
            if COMMENTED.match(line):
                alive = [*lines[:number], COMMENTED.sub(r"\1", line), *lines[number + 1 :]]
                parsed = configfile.parse([("test.yaml", "\n".join(alive))])
                assert len(parsed.places) == 1
                assert parsed.config == Config()


PRESETS = {
    "observe": Config(mode=Mode.observe),
    "gentle": Config(
        rate_max_bytes_per_s=20 * 10**6,
        headroom_bp=200,
        used_bp=9820,
        hot_accesses_min_bp=2000,
        hot_age_ms_min=2000,
        cold_age_ms_min=60_000,
        sample_us=10_000,
        aggr_us=200_000,
    ),
    "aggressive": Config(
        rate_max_bytes_per_s=2 * 10**9,
        window_ms=200,
        tick_ms=500,
        sample_us_max=50_000,
        regions=(100, 10_000),
    ),
    "three-tier": Config(tiers=((1,), (0,), (2,)), headroom_bp=200, used_bp=9820),
    "cgroup-classes": Config(
        cgroups=(
            CgroupClass("databases", CgroupMode.include, ("/postgresql.slice", "/redis.slice")),
            CgroupClass("sessions", CgroupMode.exclude, ("/redis.slice/redis-sessions.service",)),
        )
    ),
    "tierd": Config(),
}


class TestPresets:
    @pytest.mark.parametrize("path", sorted(CONFIGS.iterdir()), ids=lambda path: path.name)
    def test_each_says_what_it_should(self, path: Path) -> None:
        assert configfile.load(path, None, required=True).config == PRESETS[path.stem]

    def test_all_are_there(self) -> None:
        assert {path.stem for path in CONFIGS.iterdir()} == set(PRESETS)

    def test_the_documentation_names_each(self) -> None:
        text = configtext.reference()
        for name in PRESETS.keys() - {"tierd"}:
            assert f"(../configs/{name}.yaml)" in text


def test_the_documentation_follows_the_table() -> None:
    assert (ROOT / "docs/config.md").read_text(encoding="utf-8") == configtext.reference(), STALE


def test_what_is_in_force_as_yaml() -> None:
    text = configtext.effective(config_of("headroom: 2%\nmetrics: {address: off}"))
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert lines[:4] == ["mode: manage", "tuner: auto", "promoter: damon", "headroom: 2%"]
    at = lines.index("metrics:")
    assert lines[at : at + 3] == ["metrics:", "  address: off", "  textfile: off"]


class TestDiff:
    def test_it_tells_what_changes_and_when(self) -> None:
        before = config_of("")
        after = config_of("rate_limit: 100MB/s\non_stop: keep\nmetrics: {address: off}")
        changes = configfile.diff(before, after)
        assert [change.effect for change in changes] == [
            ReloadEffect.plan,
            ReloadEffect.live,
            ReloadEffect.start,
        ]
        assert [str(change) for change in changes] == [
            "rate_limit: auto -> 100MB/s (at once, with a new plan)",
            "on_stop: restore -> keep (at once)",
            "metrics.address: 127.0.0.1:19100 -> off (at the next start of tierd)",
        ]

    def test_what_follows_from_another_setting_is_no_change_of_its_own(self) -> None:
        changes = configfile.diff(Config(), config_of("headroom: 2%"))
        assert [change.name for change in changes] == ["headroom"]

    def test_the_same_is_nothing(self) -> None:
        assert configfile.diff(Config(), Config()) == ()


class TestCheck:
    def test_a_file_with_changes(self, tmp_path: Path) -> None:
        path = tmp_path / "a.yaml"
        path.write_text("headroom: 2%\nloop: {tick: 2s}")
        checked = configfile.check(path, None)
        assert checked.exit_code is ExitCode.ok
        assert checked.lines == (
            f"ok: {path}",
            "these settings differ from the default:",
            "  headroom: 2% (default 0.5%)",
            "  loop.tick: 2s (default 1s)",
        )

    def test_nothing_but_defaults(self, tmp_path: Path) -> None:
        path = tmp_path / "a.yaml"
        path.write_text("headroom: 0.5%")
        assert configfile.check(path, None).lines == (
            f"ok: {path}",
            "every setting has its default",
        )

    def test_no_file(self, tmp_path: Path) -> None:
        path = tmp_path / "a.yaml"
        checked = configfile.check(path, None, required=False)
        assert checked.lines == (f"ok: there is no {path}", "every setting has its default")

    def test_errors(self, tmp_path: Path) -> None:
        path = tmp_path / "a.yaml"
        path.write_text("mode: x\nfnord: 1")
        checked = configfile.check(path, None)
        assert checked.exit_code is ExitCode.config
        assert checked.lines == (
            f"{path}:1:7: mode: expected manage or observe, found 'x'",
            f"{path}:2:1: unknown key 'fnord'",
        )


UNITS = {
    "rate": (units.parse_rate, valuetypes.write_rate),
    "duration": (units.parse_duration_us, valuetypes.write_duration),
}


@pytest.mark.parametrize("what", UNITS)
@given(
    number=st.integers(1, 999),
    times=st.sampled_from((1, 60, 3600)),
    base=st.sampled_from((1000, 1024)),
    power=st.integers(0, 4),
)
def test_what_is_written_is_what_is_read(
    what: str, number: int, times: int, base: int, power: int
) -> None:
    """Any unit gives the same value."""
    parse, write = UNITS[what]
    value = number * times * base**power
    assert parse(write(value)) == value
