"""The parts of the files that ship for Prometheus and Grafana."""

import json
import re
from pathlib import Path
from typing import Any

import yaml

MONITORING = Path(__file__).parent.parent.parent / "monitoring"

_NAME = re.compile(r"(?<![:\w])tierd_[a-z0-9_]+\b(?!:)")


def names(text: str) -> set[str]:
    """Return the metrics of tierd that a text names. Recorded ones, with colons, do not count."""
    return set(_NAME.findall(text))


def rules(file: str) -> list[dict[str, Any]]:
    groups = yaml.safe_load((MONITORING / file).read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def panels() -> list[dict[str, Any]]:
    dashboard = json.loads((MONITORING / "dashboard.json").read_text())
    found: list[dict[str, Any]] = dashboard["panels"]
    return found


def queries() -> list[str]:
    """Return every query of the dashboard."""
    return [target["expr"] for panel in panels() for target in panel["targets"]]


def advised() -> list[str]:
    """Return every query in docs/monitoring.md."""
    return [line for block in _advice() for line in block]


def advised_stops() -> list[str]:
    """Return the queries that stop a rollout: the last block."""
    return _advice()[-1]


def _advice() -> list[list[str]]:
    page = (MONITORING.parent / "docs/monitoring.md").read_text()
    blocks = re.findall(r"^```promql\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    return [[line for line in block.splitlines() if not line.startswith("#")] for block in blocks]
