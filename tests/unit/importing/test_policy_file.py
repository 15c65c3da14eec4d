"""Files of damo and HMSDK: what is read, and the place of each error."""

import json
from pathlib import Path

import pytest
import yaml

from tests.unit.importing import policies
from tests.unit.importing.policies import CONTEXT, SCHEME, Json
from tierd.configuration import yamltext
from tierd.configuration.configfile import ConfigErrors
from tierd.importing import imported, policy_file
from tierd.importing.foreign import ForeignPolicy

POLICIES = Path(__file__).parent / "policies"
GIB = 1 << 30


def parsed(text: str) -> ForeignPolicy:
    root, problems = yamltext.read("p", text, imported.CHARACTERS_MAX, imported.DEPTH_MAX)
    policy, more = policy_file.policy(root, "p")
    assert not (*problems, *more)
    return policy


def errors(text: str) -> tuple[str, ...]:
    with pytest.raises(ConfigErrors) as caught:
        imported.read("p.json", text)
    return caught.value.lines


def test_what_hmsdk_writes() -> None:
    demoting, promoting = parsed((POLICIES / "hmsdk.yaml").read_text()).contexts
    assert [one.value for one in demoting.ranges] == [(4 * GIB, 8 * GIB)]
    assert demoting.goal is None
    (scheme,) = demoting.schemes
    assert scheme.action.value == "migrate_cold"
    assert [one.value for one in scheme.targets] == [1]
    assert scheme.quota.size_bytes is not None
    assert (scheme.quota.size_bytes.value, scheme.quota.size_bytes.place.line) == (50 * GIB, 39)
    assert [one.type.value for one in scheme.filters] == ["memcg", "young"]
    assert scheme.filters[0].path == "/hmsdk"
    assert promoting.schemes[0].action.value == "migrate_hot"


def test_json_and_yaml_and_tabs_say_the_same() -> None:
    made = json.loads(policies.text(policies.down(), policies.up()))
    indented = parsed(json.dumps(made, indent=4))
    assert parsed(json.dumps(made)) == indented
    assert parsed(yaml.safe_dump(made, sort_keys=False)) == indented
    tabs = imported.read("p", json.dumps(made, indent="\t"))
    assert tabs == imported.read("p", json.dumps(made, indent=1))
    windows = imported.read("p", json.dumps(made, indent=1).replace("\n", "\r\n"))
    assert windows == tabs


def test_old_names_mean_the_same() -> None:
    new = policies.scheme_changed(
        policies.up(), ("filters",), [{"filter_type": "young", "matching": True, "allow": True}]
    )
    old = policies.scheme_changed(
        policies.up(),
        ("filters",),
        [{"filter_type": "young", "matching": True, "filter_pass": True}],
    )
    assert parsed(policies.text(old)) == parsed(policies.text(new))
    goal = {"target_value_bp": "100", "current_value_bp": "0"}
    made = policies.scheme_changed(policies.down(), ("quotas", "goals"), [goal])
    (found,) = parsed(policies.text(made)).contexts[0].schemes[0].quota.goals
    assert (found.metric.value, found.target.value) == ("user_input", 100)


def test_what_is_absent_or_null_is_a_default() -> None:
    bare = {"ops": "paddr", "schemes": [{"action": "migrate_hot", "target_nid": 0}]}
    nulls = {
        **dict.fromkeys(CONTEXT),
        "ops": "paddr",
        "schemes": [{**dict.fromkeys(SCHEME), "action": "migrate_hot", "target_nid": "0"}],
    }
    assert parsed(policies.text(nulls)) == parsed(policies.text(bare))


def test_what_damo_reports_is_not_read() -> None:
    reported = policies.down()
    reported["schemes"][0] |= {
        "stats": {"nr_tried": "3", "new": "4"},
        "tried_regions": [{"start": "0"}],
        "tried_bytes": "1 B",
    }
    made = json.loads(policies.text(reported))
    made["kdamonds"][0] |= {"state": "on", "pid": 4711, "refresh_ms": 0}
    assert parsed(json.dumps(made, indent=1)) == parsed(policies.text(policies.down()))


def test_damo_reports_the_list_of_kdamonds_alone() -> None:
    text = policies.text(policies.down(), policies.up())
    assert parsed(json.dumps(json.loads(text)["kdamonds"])) == parsed(text)


def test_damo_reports_a_tuner_with_the_end_of_its_line() -> None:
    made = policies.scheme_changed(policies.down(), ("quotas", "goal_tuner"), "temporal\n")
    tuner = parsed(policies.text(made)).contexts[0].schemes[0].quota.tuner
    assert tuner is not None
    assert (tuner.value, tuner.said) == ("temporal", "goal_tuner temporal")


def test_damo_reports_an_empty_path_for_a_filter_of_pages() -> None:
    entry = {"filter_type": "young", "matching": True, "allow": True, "memcg_path": ""}
    made = policies.scheme_changed(policies.up(), ("filters",), [entry])
    (found,) = parsed(policies.text(made)).contexts[0].schemes[0].filters
    assert (found.type.said, found.path) == ("filter_type young", "")


@pytest.mark.parametrize(
    ("where", "name", "value"),
    [
        (CONTEXT, "addr_unit", "4.000 KiB"),
        (CONTEXT, "pause", True),
        (CONTEXT, "probes", [{"filters": []}]),
        (CONTEXT, "ops_attrs", {"use_reports": True}),
        (CONTEXT, "sample_control", {"primitives_enabled": {"page_fault": True}}),
        (CONTEXT, "sample_control", {"sample_filters": [{"filter_type": "write"}]}),
        (CONTEXT["targets"][0], "obsolete", True),
        (SCHEME["quotas"], "fail_charge_denom", "4,096"),
    ],
)
def test_what_tierd_has_no_words_for_is_kept_with_its_name(
    where: Json, name: str, value: Json
) -> None:
    context = json.loads(
        json.dumps(CONTEXT).replace(json.dumps(where), json.dumps({**where, name: value}))
    )
    assert [one.value for one in parsed(policies.text(context)).extras] == [name]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("addr_unit", "1 B"),
        ("pause", False),
        ("probes", []),
        ("ops_attrs", {}),
        (
            "sample_control",
            {"primitives_enabled": {"page_table": True, "page_fault": False}, "sample_filters": []},
        ),
    ],
)
def test_a_default_is_not_kept(name: str, value: Json) -> None:
    assert not parsed(policies.text({**CONTEXT, name: value})).extras


def test_several_targets_of_a_scheme() -> None:
    dests = [{"id": "1", "weight": "70"}, {"id": "2", "weight": "30"}]
    made = policies.scheme_changed(policies.down(), ("dests",), dests)
    made["schemes"][0]["target_nid"] = None
    found = parsed(policies.text(made)).contexts[0].schemes[0].targets
    assert [one.value for one in found] == [1, 2]


WRONG = {
    "": "p.json:1:1: is empty: expected the key kdamonds",
    "# nothing": "p.json:1:1: is empty: expected the key kdamonds",
    "{}": "p.json:1:1: expected the key kdamonds",
    "[1]": "p.json:1:2: expected a kdamond, found '1'",
    "hello": "p.json:1:1: expected a policy, found 'hello'",
    "kdamond: []": "p.json:1:1: unknown key 'kdamond' in a policy: expected kdamonds",
    "kdamonds: 3": "p.json:1:11: expected a list of kdamonds, found '3'",
    "kdamonds:\n- 3": "p.json:2:3: expected a kdamond, found '3'",
    "kdamonds:\n- context: []": (
        "p.json:2:3: unknown key 'context' in a kdamond, did you mean contexts?"
    ),
    "kdamonds: [": "p.json:1:12: is not YAML: while parsing a flow node expected the node content",
    "a: b: c": "p.json:1:1: expected a file of damo or HMSDK, with the key kdamonds",
    "kdamonds: !x []": "p.json:1:11: tags such as '!x' are not allowed",
    "kdamonds: []\nkdamonds: []": "p.json:2:1: 'kdamonds' is given twice, first in line 1",
}


@pytest.mark.parametrize("text", WRONG)
def test_the_place_of_an_error_in_the_frame(text: str) -> None:
    (line, *_) = errors(text)
    assert line.startswith(WRONG[text])


# The path in a context, a wrong value, and what is said.
WRONG_VALUES = [
    (("ops",), "taddr", "ops: expected one of paddr, vaddr, fvaddr, found 'taddr'"),
    (("ops",), [], "ops: expected a value, found a list"),
    (("oops",), 1, "unknown key 'oops' in a context, did you mean ops?"),
    (("targets", 0, "regions", 0, "start"), "x", "start: expected a size such as"),
    (("targets", 0, "regions", 0, "end"), "1", "the region ends at 1, before its start"),
    (("targets", 0, "region"), [], "unknown key 'region' in a target, did you mean regions?"),
    (("intervals", "sample_us"), "5 apples", "sample_us: expected a time such as"),
    (("intervals", "aggr"), "5 s", "unknown key 'aggr' in intervals, did you mean aggr_us?"),
    (("intervals", "intervals_goal", "access_bp"), "4 s", "access_bp: expected a percentage"),
    (("intervals", "intervals_goal", "aggrs"), "many", "aggrs: expected a number such as"),
    (("nr_regions", "max"), "1.5", "max: expected a number such as"),
    (("nr_regions",), {"min": "10"}, "nr_regions needs max"),
    (("targets", 0, "regions", 0), {"start": "10"}, "a region needs end"),
    (("intervals", "intervals_goal"), {"aggrs": "3"}, "intervals_goal needs access_bp and min_"),
    (("schemes", 0, "access_pattern", "age"), {"max": "max"}, "age needs min"),
    (("schemes", 0, "dests"), [{"weight": 1}], "a destination needs id"),
    (("schemes", 0, "quotas", "goals", 0, "target_value"), None, "a goal needs target_value"),
    (("nr_regions",), [10, 1000], "expected nr_regions, found a list"),
    (("schemes", 0, "action"), "move", "action: expected one of migrate_hot, migrate_cold"),
    (("schemes", 0, "target_nid"), None, "migrate_cold needs target_nid"),
    (("schemes", 0, "target_nid"), "-1", "target_nid: expected the id of a node"),
    (("schemes", 0, "dests"), [{"id": "x"}], "id: expected the id of a node"),
    (("schemes", 0, "access_pattern", "size"), 1, "unknown key 'size' in access_pattern"),
    (("schemes", 0, "access_pattern", "nr_accesses", "min"), "5 s", "min: expected a percentage"),
    (("schemes", 0, "access_pattern", "age", "min"), "5 %", "min: expected a time such as"),
    (("schemes", 0, "apply_interval_us"), "soon", "apply_interval_us: expected a time"),
    (("schemes", 0, "quotas", "sz_bytes"), "1 GX", "sz_bytes: expected a size such as"),
    (("schemes", 0, "quotas", "weights", "age_permil"), "x", "age_permil: expected a percentage"),
    (("schemes", 0, "quotas", "goals", 0, "metric"), "x", "metric: expected one of user_input"),
    (("schemes", 0, "quotas", "goals", 0, "nid"), "x", "nid: expected the id of a node"),
    (("schemes", 0, "quotas", "goals", 0, "complement"), "x", "complement: expected true or false"),
    (("schemes", 0, "quotas", "goal_tuner"), "x", "goal_tuner: expected one of consist, temporal"),
    (("schemes", 0, "watermarks", "metric"), "x", "metric: expected one of none, free_mem_rate"),
    (("schemes", 0, "watermarks", "low_permil"), "x", "low_permil: expected a percentage"),
    (("schemes", 0, "filters", 0, "filter_type"), "x", "filter_type: expected one of anon"),
    (("schemes", 0, "filters", 0, "filter_type"), "memcg", "a memcg filter needs memcg_path"),
    (("schemes", 0, "filters", 0, "filter_type"), None, "a filter needs filter_type"),
    (("schemes", 0, "filters", 0, "matching"), "perhaps", "matching: expected true or false"),
]


@pytest.mark.parametrize(("path", "value", "told"), WRONG_VALUES)
def test_the_place_of_a_wrong_value(path: policies.Path, value: Json, told: str) -> None:
    text = policies.text(policies.changed(policies.down(), path, value))
    (line,) = errors(text)
    _, number, column, message = line.split(":", 3)
    assert message.strip().startswith(told)
    # The place is in the line of the key, or of what the key is in.
    pointed = text.splitlines()[int(number) - 1][int(column) - 1 :]
    assert pointed[0] in '"{['


def test_every_error_is_told_at_once() -> None:
    made = policies.down()
    made["intervals"]["sample_us"] = "x"
    made["schemes"][0]["action"] = "x"
    made["new"] = 1
    assert len(errors(policies.text(made))) == 3


def test_a_file_may_be_large_but_not_endless() -> None:
    many = [policies.down()] * 80
    text = policies.text(*many)
    assert len(text) > yamltext.CHARACTERS_MAX
    assert len(parsed(text).contexts) == 80
    (line,) = errors("kdamonds: []\n" + "#" * imported.CHARACTERS_MAX)
    assert line == "p.json:1:1: is too large: expected at most 1024 KiB"
    (deep,) = errors("kdamonds: " + "[" * 100)
    assert "is nested too deeply: expected at most 16 levels" in deep
