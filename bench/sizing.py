"""The table of docs/sizing.md, by `tierd simulate`: `python -m bench.sizing` (some minutes)."""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
FOLDER = "docs/sizing"


@dataclass(frozen=True, slots=True)
class Row:
    """A machine with its programs and settings."""

    fast_gib: int
    slow_gib: int
    workload: str
    config: str = ""
    """The path of a configuration; empty for the defaults."""
    settings: str = "default"

    @property
    def words(self) -> list[str]:
        """The command, from the root of the project."""
        words = ["tierd", "simulate", f"{FOLDER}/{self.workload}.json"]
        words += ["--dram", f"{self.fast_gib}G", "--cxl", f"{self.slow_gib}G"]
        return [*words, "--config", self.config] if self.config else words

    def run(self) -> dict[str, Any]:
        """Return what it says about the machine."""
        argv = [sys.executable, "-m", *self.words, "--json"]
        done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True)
        (found,) = json.loads(done.stdout)["sizes"]
        made: dict[str, Any] = found
        return made

    def line(self, found: dict[str, Any]) -> str:
        """Return the row of the table."""
        low, high = (round(found[f"served_{end}_ratio"] * 100) for end in ("low", "high"))
        cells = (
            f"{self.fast_gib} + {self.slow_gib} GiB",
            f"`{self.workload}.json`",
            self.settings,
            f"{found['served_ratio']:.1%} ({low}-{high})",
            f"{found['best_ratio']:.1%}",
            f"{found['moved_bytes_per_day'] / 1e9:,.0f} GB",
            f"{found['modelled_slowdown_ratio']:.2f}",
        )
        return f"| {' | '.join(cells)} |"


ROWS = (
    Row(256, 768, "terabyte"),
    Row(128, 896, "terabyte"),
    Row(64, 128, "stream"),
    Row(64, 128, "stream", f"{FOLDER}/slow-rate.yaml", "`slow-rate.yaml`"),
    Row(16, 64, "store"),
    Row(16, 64, "store", "configs/gentle.yaml", "preset `gentle`"),
    Row(32, 128, "tenants"),
    Row(64, 128, "tenants"),
    Row(8, 8, "laptop"),
)


def main() -> int:
    for row in ROWS:
        print(row.line(row.run()), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
