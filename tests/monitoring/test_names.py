"""Every metric that a file names exists. Every metric is documented and shown."""

import re
from pathlib import Path

import pytest
import yaml

from tests.monitoring.shipped import MONITORING, advised_stops, names, panels, queries, rules
from tierd.record.snapshot import State
from tierd.serving.metrics import EVENTS, METRICS

ROOT = MONITORING.parent
OURS = {metric.full_name for metric in METRICS}
DOCUMENTS = [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md", ROOT / "CHANGELOG.md"]

# These are too detailed for a dashboard, or a column of a table has them.
NOT_SHOWN = {
    "tierd_config_last_reload_success_timestamp_seconds",
    "tierd_group_memory_bytes",
    "tierd_hint_fault_limit_bytes_per_second",
    "tierd_node_vmstat_pgpromote_candidate_total",
    "tierd_node_vmstat_pgpromote_candidate_nrl_total",
    "tierd_node_vmstat_pgdemote_khugepaged_total",
    "tierd_node_vmstat_pgdemote_proactive_total",
}


@pytest.mark.parametrize(
    "path", [*DOCUMENTS, *sorted(MONITORING.iterdir())], ids=lambda path: path.name
)
def test_what_is_named_exists(path: Path) -> None:
    assert names(path.read_text()) <= OURS


def test_what_exists_is_documented() -> None:
    assert names((ROOT / "docs/metrics.md").read_text()) == OURS


def test_what_exists_is_shown() -> None:
    assert names("\n".join(queries())) == OURS - NOT_SHOWN


def test_every_alert_is_explained_and_tested() -> None:
    alerts = {rule["alert"] for rule in rules("alerts.yaml")}
    explained = set(
        re.findall(r"^\| `(Tierd\w+)`", (ROOT / "docs/monitoring.md").read_text(), re.M)
    )
    assert explained == alerts
    fired = re.findall(
        r'labels: ALERTS\{alertname="(\w+)"', (MONITORING / "alerts_test.yaml").read_text()
    )
    assert set(fired) == alerts


def test_every_recorded_sum_is_documented() -> None:
    recorded = {rule["record"] for rule in rules("recording.yaml")}
    found = re.findall(r"`((?:job|instance):\S+?)`", (ROOT / "docs/monitoring.md").read_text())
    assert set(found) == recorded


def test_values_of_labels_that_rules_look_for_exist() -> None:
    text = "\n".join(rule["expr"] for rule in [*rules("alerts.yaml"), *rules("recording.yaml")])
    events = set(re.findall(r'event="(\w+)"', text))
    states = {
        word for found in re.findall(r'state=~?"([\w|]+)"', text) for word in found.split("|")
    }
    assert events
    assert events <= set(EVENTS)
    assert states
    assert states <= set(State)


def test_panels_have_room_and_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in panels():
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells


def test_every_query_that_says_stop_is_tested_on_a_fleet_that_is_well_and_on_one_that_is_not() -> (
    None
):
    cases = yaml.safe_load((MONITORING / "alerts_test.yaml").read_text())["tests"]
    asked = [one for case in cases for one in case["promql_expr_test"]]
    for query in advised_stops():
        answers = {bool(one.get("exp_samples")) for one in asked if one["expr"] == query}
        assert answers == {False, True}, query


def test_the_alert_and_the_sum_mean_the_same_exchange() -> None:
    (alert,) = (one for one in rules("alerts.yaml") if one["alert"] == "TierdThrash")
    (recorded,) = (
        one
        for one in rules("recording.yaml")
        if one.get("record", "").endswith("exchanged:rate30m")
    )
    moved, _, size = alert["expr"].rpartition(" > ")
    assert recorded["expr"] == f"{moved} / {size}"
