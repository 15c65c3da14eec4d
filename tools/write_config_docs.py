"""Write docs/config.md and configs/tierd.yaml from the table of settings."""

from pathlib import Path

from tierd.configuration import configtext

ROOT = Path(__file__).resolve().parent.parent

if __name__ == "__main__":
    (ROOT / "docs/config.md").write_text(configtext.reference(), encoding="utf-8")
    (ROOT / "configs/tierd.yaml").write_text(configtext.default_file(), encoding="utf-8")
