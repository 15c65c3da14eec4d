"""Scrape a tierd each second for ten minutes: measure how long a scrape takes, and how tierd grows.

    python -m bench.soak [--url http://127.0.0.1:19100/metrics]

Without a URL the tool starts a tierd by itself: the real service, with the files of `bench.cost`
instead of a kernel. The memory of tierd is its own metric `process_resident_memory_bytes`. The
first five minutes are not counted: in this time caches fill, so memory grows by about a MiB.

Before each scrape the tool sleeps for 10 ms, and measures how much too late the machine wakes it.
On a busy machine this delay is also part of each scrape. If tierd grew by more than 1 MiB, or if
more than one scrape in a hundred took longer than 20 ms, the exit code is 1.
"""

import argparse
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.request import urlopen

from bench import cost

# Scrapes that are not counted: five minutes.
FIRST = 300
INTERVAL_S = 1.0
NAP_S = 0.010
TIMEOUT_S = 10.0

# The promises: tierd grows by no more than this, and 99 of 100 scrapes are as fast as this.
GROWTH_BYTES_MAX = 1 << 20
P99_S_MAX = 0.020

_RESIDENT = re.compile(rb"^process_resident_memory_bytes (\S+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Scrape:
    """How long a scrape took, the memory of tierd, and how late the wakeup before it was."""

    took_s: float
    resident_bytes: int
    late_s: float


def scrape(url: str) -> Scrape | None:
    """Scrape once. Return None if another program than tierd answers."""
    slept_s = time.monotonic()
    time.sleep(NAP_S)
    began_s = time.monotonic()
    with urlopen(url, timeout=TIMEOUT_S) as response:
        body = response.read()
    took_s = time.monotonic() - began_s
    found = _RESIDENT.search(body)
    late_s = began_s - slept_s - NAP_S
    return None if found is None else Scrape(took_s, int(float(found[1])), late_s)


def scraped(url: str, scrapes: int) -> Iterator[Scrape]:
    for _ in range(scrapes):
        next_s = time.monotonic() + INTERVAL_S
        found = scrape(url)
        if found is None:
            raise SystemExit(f"{url} has no process_resident_memory_bytes: is this a tierd?")
        yield found
        time.sleep(max(0.0, next_s - time.monotonic()))


def summary(seen: list[Scrape]) -> tuple[str, bool]:
    """Return the figures as text, and True if the promises were kept."""
    took = sorted(one.took_s for one in seen)
    late = sorted(one.late_s for one in seen)
    growth = seen[-1].resident_bytes - seen[0].resident_bytes
    minutes = (f"{one.resident_bytes / 2**20:.2f}" for one in [*seen[::60], seen[-1]])
    lines = (
        f"scrapes                 {len(seen)}",
        f"median, p99, longest    {told(took)}",
        f"late wakeups            {told(late)}",
        f"resident set (MiB)      {' '.join(minutes)}",
        f"growth                  {growth / 2**10:.0f} KiB",
    )
    return "\n".join(lines), growth <= GROWTH_BYTES_MAX and p99(took) <= P99_S_MAX


def p99(seconds: list[float]) -> float:
    return seconds[int(0.99 * len(seconds))]


def told(seconds: list[float]) -> str:
    figures = (seconds[len(seconds) // 2], p99(seconds), seconds[-1])
    return ", ".join(f"{figure * 1000:.1f}" for figure in figures) + " ms"


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.soak",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--url", help="the metrics of a tierd that runs already")
    parser.add_argument(
        "--scrapes", type=int, default=600, help="how many are counted (default: 600)"
    )
    arguments = parser.parse_args()
    if arguments.url is not None:
        return _tell(arguments.url, arguments.scrapes)
    with (
        tempfile.TemporaryDirectory(prefix="tierd-soak.") as scratch,
        cost.served(Path(scratch), "") as (_pid, url),
    ):
        return _tell(url, arguments.scrapes)


def _tell(url: str, scrapes: int) -> int:
    text, kept = summary(list(scraped(url, FIRST + scrapes))[FIRST:])
    print(f"{text}\nload at the end         {os.getloadavg()[0]:.1f}")
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
