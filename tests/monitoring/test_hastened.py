"""The hastened rules differ from the shipped ones only in their times."""

import yaml

from tests.monitoring.hastened import expression, hastened
from tests.monitoring.shipped import MONITORING


def load(name: str) -> dict[str, object]:
    found: dict[str, object] = yaml.safe_load((MONITORING / name).read_text())
    return found


def test_every_time_is_divided() -> None:
    said = "increase(x[30m]) > 10 and 3600 * rate(y[1h]) and time() - tierd_z > 300"
    assert expression(said, 20.0) == (
        "increase(x[90000ms]) > 10 and 180 * rate(y[180000ms]) and time() - tierd_z > 15"
    )


def test_what_is_too_short_to_be_seen_is_not_made() -> None:
    assert expression("rate(x[5m]) or time() - t > 300", 1000.0) == (
        "rate(x[3000ms]) or time() - t > 8"
    )


def test_names_conditions_and_labels_stay() -> None:
    for name in ("alerts.yaml", "recording.yaml"):
        shipped, hurried = load(name), hastened(load(name), 1.0)
        assert [*_rules(hurried)] != []
        for before, after in zip(_rules(shipped), _rules(hurried), strict=True):
            same = set(before) - {"expr", "for"}
            assert {key: after[key] for key in same} == {key: before[key] for key in same}
            assert set(before) == set(after)


def _rules(file: dict[str, object]) -> list[dict[str, object]]:
    groups = file["groups"]
    assert isinstance(groups, list)
    return [rule for group in groups for rule in group["rules"]]
