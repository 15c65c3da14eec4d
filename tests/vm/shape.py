"""Prints, in a guest, the machine that its kernel sees, as JSON: nodes, CPUs, distances, tiers."""

import json
from pathlib import Path

NODES = Path("/sys/devices/system/node")
TIERS = Path("/sys/devices/virtual/memory_tiering")


def numbers(text: str) -> list[int]:
    """Return the numbers of a list in the kernel's format, such as `0-1,3`."""
    found: list[int] = []
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


def node(path: Path) -> dict[str, object]:
    """Return what the kernel says about a node. Figures from HMAT may be absent."""
    figures = path / "access0/initiators"
    total = (path / "meminfo").read_text().splitlines()[0].split()
    return {
        "cpus": numbers((path / "cpulist").read_text()),
        "distances": [int(word) for word in (path / "distance").read_text().split()],
        "total_mib": int(total[3]) >> 10,
        "figures": [
            int((figures / name).read_text())
            for name in ("read_latency", "read_bandwidth")
            if (figures / name).exists()
        ],
    }


def main() -> None:
    nodes = {path.name: node(path) for path in NODES.glob("node[0-9]*")}
    tiers = {
        path.name: numbers((path / "nodelist").read_text()) for path in TIERS.glob("memory_t*")
    }
    print(json.dumps({"nodes": nodes, "tiers": tiers}))


if __name__ == "__main__":
    main()
