"""The files that `tierd print` prints; they are in the installed package, or in a checkout."""

from pathlib import Path

# The path in a checkout, by the words after `tierd print`, joined by a dash.
FILES = {
    "alerts": "monitoring/alerts.yaml",
    "completion": "completion/tierd.bash",
    "completion-bash": "completion/tierd.bash",
    "completion-fish": "completion/tierd.fish",
    "completion-zsh": "completion/_tierd",
    "config": "configs/tierd.yaml",
    "dashboard": "monitoring/dashboard.json",
    "otel-collector": "monitoring/otel-collector.yaml",
    "pcp": "monitoring/pcp-tierd.url",
    "preset-aggressive": "configs/aggressive.yaml",
    "preset-cgroup-classes": "configs/cgroup-classes.yaml",
    "preset-gentle": "configs/gentle.yaml",
    "preset-observe": "configs/observe.yaml",
    "preset-three-tier": "configs/three-tier.yaml",
    "recording-rules": "monitoring/recording.yaml",
    "schema": "schema/tierd.schema.json",
    "schema-doctor": "schema/doctor.schema.json",
    "schema-events": "schema/events.schema.json",
    "schema-history": "schema/history.schema.json",
    "schema-import": "schema/import.schema.json",
    "schema-plan": "schema/plan.schema.json",
    "schema-profile": "schema/profile.schema.json",
    "schema-report": "schema/report.schema.json",
    "schema-simulate": "schema/simulate.schema.json",
    "schema-status": "schema/status.schema.json",
    "schema-tiers": "schema/tiers.schema.json",
    "schema-top": "schema/top.schema.json",
    "scrape-config": "monitoring/scrape.yaml",
    "tuned": "tuned/tuned.conf",
    "unit": "systemd/tierd.service",
}

# The words after `tierd print` that need a second word, and the second words there are.
KINDS = {
    kind: tuple(name.removeprefix(f"{kind}-") for name in FILES if name.startswith(f"{kind}-"))
    for kind in ("completion", "preset", "schema")
}

HERE = Path(__file__).parent.parent

# The program in the unit as it ships: where packages of distributions install it.
PACKAGED = "/usr/bin/tierd"

# The unit cannot see these (ProtectHome=). Root should not run a program that a user can change.
HOMES = ("/home/", "/root/", "/run/user/")


def text(what: str) -> str:
    """Return the text of one of these files."""
    place = FILES[what]
    packed = HERE / "files" / Path(place).name
    return (packed if packed.exists() else HERE.parent / place).read_text(encoding="utf-8")


def unit(program: str) -> str:
    """Return the unit for a tierd that is installed at another path."""
    made = text("unit").replace(PACKAGED, program)
    if not program.startswith(HOMES):
        return made
    warning = (
        f"# This unit cannot start: {program} is in a home directory, which it cannot see.\n"
        "# Install tierd elsewhere, for example in /opt/tierd: docs/guide.md.\n"
    )
    return warning + made


def presets() -> str:
    """Return a line for each preset: its name, and the first sentence of its comment."""
    width = max(map(len, KINDS["preset"]))
    lines = []
    for name in KINDS["preset"]:
        comment = [line[2:] for line in text(f"preset-{name}").splitlines() if line[:2] == "# "]
        about = " ".join(comment).replace(": ", ". ").partition(". ")[0]
        lines.append(f"{name.ljust(width)}  {about}")
    return "\n".join(lines)
