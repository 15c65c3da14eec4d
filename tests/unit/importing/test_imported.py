"""The text that a user gets, and that any input gives a valid configuration or an error."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from tests.fixtures import machines
from tests.test_tidy import ROOT
from tests.unit.importing import policies
from tests.unit.importing.policies import DOWN, UP, Json
from tierd import cli, policy
from tierd.configuration import configfile
from tierd.configuration.config import CgroupMode, Config
from tierd.configuration.configfile import ConfigErrors
from tierd.errors import ExitCode, Unsupported
from tierd.importing import damo_options, foreign, imported, policy_file
from tierd.importing.imported import Document
from tierd.importing.remarks import Kind
from tierd.machine import discovery, features
from tierd.machine.cgroups import Cgroups
from tierd.plans.damon import Action
from tierd.plans.plan import Plan

POLICIES = Path(__file__).parent / "policies"


def of_named(name: str) -> Document:
    return imported.read(name, (POLICIES / name).read_text())


def config_of(text: str) -> Config:
    return configfile.parse([("tierd.yaml", text)]).config


def planned(config: Config, machine: str) -> Plan:
    sysfs = machines.load(machine).sysfs
    topology = discovery.survey(sysfs, config.tiers)
    known = Cgroups({"/": 0, "/hmsdk": 0, "/hmsdk/child": 0})
    return policy.plan(topology, features.probe(sysfs), config, cgroups=known)


def outcome(text: str) -> Document | None:
    """Return what is made of any text, after checks of what must be true for all."""
    found: ConfigErrors | Unsupported
    try:
        document = imported.read("p.txt", text)
    except (ConfigErrors, Unsupported) as error:
        found = error
    else:
        shown = imported.as_text(document)
        # The remarks are comments and nothing else.
        assert config_of(shown) == config_of(document.config)
        assert all(line.isprintable() for line in shown.splitlines())
        return document
    if isinstance(found, Unsupported):
        assert found.hint
        return None
    assert found.lines
    for line in found.lines:
        assert line.startswith("p.txt:")
        assert line.isprintable()
        assert len(line) < 1000
    return None


@pytest.mark.parametrize("machine", ["two-tier-6.12", "two-tier-6.18", "two-tier-7.3"])
@pytest.mark.parametrize("name", ["hmsdk.yaml", "cover-letter.txt"])
def test_the_configuration_gives_a_plan(name: str, machine: str) -> None:
    config = config_of(imported.as_text(of_named(name)))
    moves = {(one.source_node, one.target_node) for one in planned(config, machine).migrations}
    assert moves == {(0, 1), (1, 0), (1, 1)}


def test_what_hmsdk_asked_for_is_in_the_plan() -> None:
    config = config_of(of_named("hmsdk.yaml").config)
    assert config.tiers == ((0,), (1,))
    assert [(one.mode, one.paths) for one in config.cgroups] == [(CgroupMode.include, ("/hmsdk",))]
    plan = planned(config, "two-tier-7.2")
    (demoting,) = (
        scheme
        for one in plan.kdamonds
        for scheme in one.context.schemes
        if scheme.action is Action.migrate_cold and scheme.pattern.age.min
    )
    # 30 s of aggregations of 2 s.
    assert demoting.pattern.age.min == 15
    # A filter for each cgroup of the subtree.
    assert {one.memcg_path for one in demoting.filters} == {"/hmsdk", "/hmsdk/child"}
    assert all(one.context.nr_regions.max == 10_000 for one in plan.kdamonds)


def test_the_cover_letter_is_the_default() -> None:
    """The defaults of tierd are those of the cover letter. damo's megabytes are a little larger."""
    config = config_of(of_named("cover-letter.txt").config)
    changes = configfile.diff(Config(), config)
    assert [(one.name, one.after) for one in changes] == [
        ("rate_limit", "200MiB/s"),
        ("tiers", "[[0], [1]]"),
    ]


def test_the_text_has_a_section_for_each_kind() -> None:
    shown = imported.as_text(of_named("hmsdk.yaml"))
    heads = [line for line in shown.splitlines() if line[:3].strip() != "#" and line[-1:] == ":"]
    heads = [line for line in heads if line.startswith("#")]
    assert heads == [
        "# Carried over:",
        "# Better in tierd than in the policy:",
        "# Carried over with another meaning or value: look at these:",
        "# Cannot be said in a configuration of tierd:",
    ]
    assert "lines 25, 91: target_nid 1, target_nid 0 -> tiers: [[0], [1]]. By where" in shown
    assert max(map(len, shown.splitlines())) <= imported.COLUMNS


@pytest.mark.parametrize("name", ["hmsdk.yaml", "damo.json", "cover-letter.txt"])
def test_the_examples_of_the_documentation_are_true(name: str) -> None:
    page = (ROOT / "docs" / "import.md").read_text()
    document = of_named(name)
    section = (
        page.partition(f"`tierd import {name}`\n")[2]
        or page.partition(f"`tierd import {name}` ")[2]
    )
    remarks, settings = (part.partition("```")[0] for part in section.split("```")[1::2][:2])
    assert settings == f"yaml\n{document.config}"
    shown = imported.as_text(document).splitlines()
    told = remarks.strip().splitlines()
    assert len(told) >= 3
    assert [line for line in told if line not in shown] == []


def test_many_lines_are_counted() -> None:
    shown = imported.as_text(imported.read("p", policies.text(*[policies.down()] * 9)))
    assert " and 3 more: " in shown


def test_a_configuration_of_defaults_says_so() -> None:
    bare = imported.read("p", "damo start --damos_action migrate_hot 0")
    assert bare.config == ""
    assert imported.as_text(bare).endswith("\n\n# Every setting has its default.")


@pytest.mark.parametrize(
    ("name", "code", "out", "err"),
    [
        ("hmsdk.yaml", ExitCode.ok, "tiers: [[0], [1]]", ""),
        ("damo.json", ExitCode.ok, "headroom: 2%", ""),
        ("cover-letter.txt", ExitCode.ok, "fill: 99.7%", ""),
        ("reclaim.sh", ExitCode.unsupported, "", "no scheme that moves physical memory"),
        ("none.yaml", ExitCode.config, "", "none.yaml:1:1: does not exist"),
    ],
)
def test_the_command(
    name: str, code: ExitCode, out: str, err: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["import", str(POLICIES / name)]) == code
    said = capsys.readouterr()
    assert out in said.out
    assert err in said.err
    assert bool(said.out) != bool(said.err)


def test_the_document_has_the_configuration(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["import", "--json", str(POLICIES / "hmsdk.yaml")]) == ExitCode.ok
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "tierd.import/1"
    assert document["config"] == of_named("hmsdk.yaml").config
    assert {one["kind"] for one in document["remarks"]} == set(Kind)


# A line break that only YAML knows, and one that JSON can hide.
@pytest.mark.parametrize("letter", ["\u2028", "\u0085", "\n", "\r", "\x1b"])
def test_words_of_the_policy_never_become_settings(letter: str) -> None:
    entry = {"filter_type": "memcg", "matching": True, "memcg_path": f"/a{letter}mode: observe"}
    made = policies.scheme_changed(policies.down(), ("filters",), [entry])
    document = outcome(policies.text(made))
    assert document is not None
    assert "mode" not in document.config


# Words that make a text nearly right.
KEYS = sorted({*policy_file._CONTEXT, *policy_file._SCHEME, *policy_file._QUOTA})
YAML_SIGNS = (
    "- ",
    "\n",
    "\n  ",
    "\n    ",
    ": ",
    "[",
    "]",
    "{",
    "}",
    ", ",
    '"',
    "'",
    "#",
    "&a ",
    "*a",
    "~",
)
YAML_WORDS = st.sampled_from(
    [
        *YAML_SIGNS,
        *("kdamonds:", "contexts:", "max", "min", "5 %", "1 s", "4 KiB", "null", "true"),
        *foreign.ACTIONS,
        *foreign.FILTERS,
        *KEYS,
    ]
)
SHELL_SIGNS = ("\n", " \\\n", "'", '"', "`", "$x", "#", ";", "|", "=")
SHELL_WORDS = st.sampled_from(
    [
        *SHELL_SIGNS,
        *("damo start", "module stat write enabled N", "paddr", "max", "5%", "1s", "200MB", "0"),
        *("1", "-1", "allow", "reject", "none", "memcg", "/a", "young", "node_mem_used_bp"),
        *foreign.ACTIONS,
        *damo_options.TAKES,
    ]
)


@given(st.text())
@example("damo start")
@example("damo start ")
@example("damo start\\")
@example("damo start \\\n")
@example("damo module")
@example("damo args damon")
@example("damo args  damon --ops")
@example("kdamonds: [[[[")
@example('{"kdamonds": "\\ud800"}')
@example("kdamonds:\n- \t")
def test_any_text(text: str) -> None:
    outcome(text)


@given(st.lists(YAML_WORDS, max_size=40).map("".join))
def test_a_file_that_is_nearly_right(text: str) -> None:
    outcome(text)
    outcome(f"kdamonds: {text}")


@given(st.lists(SHELL_WORDS, max_size=40).map(" ".join))
def test_a_command_that_is_nearly_right(text: str) -> None:
    outcome(text)
    outcome(f"damo start {text}")
    outcome(f"damo start {UP} {text}")


SIZES = st.sampled_from(["0", "1 B", "4.000 KiB", "100 MiB", "1 TiB", "1 EiB", "max"])
TIMES = st.sampled_from(["0 ns", "1 us", "99 us", "5 ms", "100 ms", "1 s", "61 s", "2 h", "max"])
SHARES = st.sampled_from(["0 %", "0.01 %", "0.5 %", "1 %", "49 %", "99.7 %", "100 %", "max"])
COUNTS = st.sampled_from(["0", "1", "3", "10", "1,000", "100,001", "max"])
NODES = st.integers(0, 3)
ACCESSES = SHARES | st.sampled_from(["1 samples", "20 samples", "1,000 samples"])
AGES = TIMES | st.sampled_from(["1 aggr_intervals", "1,000,000 aggr_intervals"])
PATHS = st.sampled_from(["/", "/a", "/a/b", "/a/b/c", "a", "/\u2028", "/.", "/ x"])


def spans(values: st.SearchStrategy[str]) -> st.SearchStrategy[Json]:
    return st.fixed_dictionaries({"min": values, "max": values})


def tables(**parts: st.SearchStrategy[Any]) -> st.SearchStrategy[Json]:
    """Return mappings with any of these keys."""
    return st.fixed_dictionaries({}, optional=parts)


GOALS: st.SearchStrategy[Json] = st.fixed_dictionaries(
    {"metric": st.sampled_from(foreign.METRICS), "target_value": SHARES | TIMES},
    optional={"nid": NODES, "complement": st.booleans()},
).filter(
    # damo takes a percentage for a share, and a number or a time for others.
    lambda goal: ("%" in str(goal["target_value"])) == (goal["metric"] in foreign.SHARES)
)
FILTERS = st.fixed_dictionaries(
    {"filter_type": st.sampled_from(foreign.FILTERS), "memcg_path": PATHS},
    optional={"matching": st.booleans(), "allow": st.booleans()},
)
SCHEMES = st.fixed_dictionaries(
    {"action": st.sampled_from(foreign.MOVING), "target_nid": NODES},
    optional={
        "access_pattern": tables(
            sz_bytes=spans(SIZES), nr_accesses=spans(ACCESSES), age=spans(AGES)
        ),
        "apply_interval_us": TIMES,
        "quotas": tables(
            time_ms=TIMES,
            sz_bytes=SIZES,
            reset_interval_ms=TIMES,
            goals=st.lists(GOALS, max_size=3),
            weights=tables(sz_permil=SHARES),
        ),
        "watermarks": tables(metric=st.sampled_from(foreign.WATERMARKS)),
        "filters": st.lists(FILTERS, max_size=4),
    },
)
CONTEXTS = st.fixed_dictionaries(
    {"ops": st.sampled_from(foreign.OPERATIONS), "schemes": st.lists(SCHEMES, max_size=3)},
    optional={
        "intervals": tables(
            sample_us=TIMES,
            aggr_us=TIMES,
            ops_update_us=TIMES,
            intervals_goal=st.fixed_dictionaries(
                {
                    "access_bp": SHARES,
                    "aggrs": COUNTS,
                    "min_sample_us": TIMES,
                    "max_sample_us": TIMES,
                }
            ),
        ),
        "nr_regions": spans(COUNTS),
    },
)


@given(st.lists(CONTEXTS, min_size=1, max_size=4))
def test_any_policy_of_damo_gives_a_valid_configuration(contexts: list[Json]) -> None:
    text = policies.text(*contexts)
    document = outcome(text)
    moves = [scheme for one in contexts if one["ops"] == "paddr" for scheme in one["schemes"]]
    assert (document is not None) == bool(moves)
    if document is not None:
        assert outcome(yaml.safe_dump(json.loads(text))) is not None
        assert all(one.lines for one in document.remarks)


def test_more_cgroups_than_a_configuration_can_have() -> None:
    filters = [
        {"filter_type": "memcg", "matching": True, "memcg_path": f"/a/{number:04}"}
        for number in range(3000)
    ]
    made = policies.scheme_changed(policies.down(), ("filters",), filters)
    with pytest.raises(Unsupported, match="more cgroups than a configuration can have"):
        imported.read("p", policies.text(made))


def test_what_is_said_of_many_schemes_is_one_remark() -> None:
    schemes = [{"action": "migrate_hot", "target_nid": number % 7} for number in range(1000)]
    document = imported.read("p", policies.text({"ops": "paddr", "schemes": schemes}))
    assert len(document.remarks) < 10
    assert max(len(one.lines) for one in document.remarks) == len(schemes)


@given(st.permutations([f"--numa_node 0 {DOWN}", f"--numa_node 1 {UP}"]))
def test_the_order_of_contexts_does_not_matter(options: list[str]) -> None:
    words = " ".join(options)
    found = imported.read("p", f"damo start {words} --nr_targets 1 1 --nr_schemes 1 1")
    assert "tiers: [[0], [1]]" in found.config
