"""What ships for Prometheus and Grafana, taken apart."""

import json
import re
from pathlib import Path
from typing import Any

import yaml

MONITORING = Path(__file__).parent.parent.parent / "monitoring"

_NAME = re.compile(r"(?<![:\w])tierd_[a-z0-9_]+\b(?!:)")


def names(text: str) -> set[str]:
    """The metrics of ours that a text names; recorded ones, which have colons, are others."""
    return set(_NAME.findall(text))


def rules(file: str) -> list[dict[str, Any]]:
    groups = yaml.safe_load((MONITORING / file).read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def panels() -> list[dict[str, Any]]:
    dashboard = json.loads((MONITORING / "dashboard.json").read_text())
    found: list[dict[str, Any]] = dashboard["panels"]
    return found


def queries() -> list[str]:
    """Every query of the dashboard."""
    return [target["expr"] for panel in panels() for target in panel["targets"]]


def advised() -> list[str]:
    """Every query that docs/monitoring.md tells to look at."""
    page = (MONITORING.parent / "docs/monitoring.md").read_text()
    blocks = re.findall(r"^```promql\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    lines = "".join(blocks).splitlines()
    return [line for line in lines if not line.startswith("#")]
