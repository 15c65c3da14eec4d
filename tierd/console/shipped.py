"""The files that come with tierd, wherever they are: in the package, or in a checkout."""

from pathlib import Path

# By the word after `tierd print`; in a checkout, below its root.
FILES = {
    "alerts": "monitoring/alerts.yaml",
    "completion": "completion/tierd.bash",
    "completion-fish": "completion/tierd.fish",
    "completion-zsh": "completion/_tierd",
    "config": "configs/tierd.yaml",
    "dashboard": "monitoring/dashboard.json",
    "recording-rules": "monitoring/recording.yaml",
    "schema": "schema/tierd.schema.json",
    "schema-doctor": "schema/doctor.schema.json",
    "schema-events": "schema/events.schema.json",
    "schema-history": "schema/history.schema.json",
    "schema-plan": "schema/plan.schema.json",
    "schema-status": "schema/status.schema.json",
    "schema-tiers": "schema/tiers.schema.json",
    "scrape-config": "monitoring/scrape.yaml",
    "unit": "systemd/tierd.service",
}

HERE = Path(__file__).parent.parent


def text(what: str) -> str:
    """The text of one of them."""
    place = FILES[what]
    packed = HERE / "files" / Path(place).name
    return (packed if packed.exists() else HERE.parent / place).read_text(encoding="utf-8")
