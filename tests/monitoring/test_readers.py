"""200 browsers that show the page: the loop goes on as before, and its memory does not grow.

A browser asks for the page every two seconds. `pytest -s` prints the figures.
"""

import asyncio
import re
import statistics
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import pytest

from tests.monitoring.scene import BOUND_S, Scene, get, machine_and_tierd, wait_for
from tierd.loop.service import RECENT
from tierd.serving import client

pytestmark = [pytest.mark.thorough, pytest.mark.rare, pytest.mark.timeout(900)]

READERS = 200

# As in page.js.
EVERY_S = 2.0

# How often each browser asks in one part of the test: for 20 s, if the server keeps up.
ASKS = 10

GROWTH_BYTES_MAX = 1 << 20

# Rounds of the loop with the readers, of those without them in the same time. Both times are of one
# run, so a busy machine slows both.
ROUNDS_SHARE_MIN = 0.5


@dataclass(frozen=True)
class Part:
    """What the daemon did in one part of the test."""

    rounds_per_s: float
    longest_gap_s: float
    round_s: float
    """The median of how long a round of the loop took, as tierd tells it."""
    resident_bytes: int


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with machine_and_tierd(tmp_path_factory.mktemp("readers")) as made:
        # The memory of `tierd why` grows until it is full.
        wait_for("a memory", lambda: len(client.get(made.socket, "/v1/recent")["looks"]) == RECENT)
        # The page's own code is loaded.
        assert get(f"http://{made.ours}/") is not None
        yield made


def metric(live: Scene, name: str) -> float:
    found = re.search(rf"^{name} (\S+)$", (get(live.metrics) or b"").decode(), re.M)
    assert found is not None
    return float(found[1])


async def read(address: str) -> int:
    """Ask for the page once. Return the bytes that came."""
    host, _, port = address.partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    raw = await reader.read(-1)
    writer.close()
    assert raw.startswith(b"HTTP/1.1 200 ")
    assert raw.endswith(b"</html>\n")
    return len(raw)


async def browse(address: str, number: int) -> int:
    await asyncio.sleep(EVERY_S * number / READERS)
    total = 0
    for _ in range(ASKS):
        total += await asyncio.wait_for(read(address), BOUND_S)
        await asyncio.sleep(EVERY_S)
    return total


async def part(live: Scene, readers: int) -> tuple[Part, int]:
    """Let so many browsers read, and watch the daemon meanwhile."""
    moments: set[float] = set()
    took: list[float] = []
    began = live.status()["at"]
    done = asyncio.gather(*(browse(live.ours, number) for number in range(readers)))
    for _ in range(round(ASKS * EVERY_S)):
        looks = (await asyncio.to_thread(client.get, live.socket, "/v1/recent"))["looks"]
        moments |= {look["at"] for look in looks if look["at"] >= began}
        took.append(await asyncio.to_thread(metric, live, "tierd_loop_duration_seconds"))
        await asyncio.sleep(1)
    total = sum(await done)
    ordered = sorted(moments)
    gaps = [late - early for early, late in pairwise(ordered)]
    seen = Part(
        rounds_per_s=len(gaps) / (ordered[-1] - ordered[0]),
        longest_gap_s=max(gaps),
        round_s=statistics.median(took),
        resident_bytes=int(metric(live, "process_resident_memory_bytes")),
    )
    return seen, total


def test_many_readers_neither_slow_the_loop_nor_make_it_grow(live: Scene) -> None:
    alone, _ = asyncio.run(part(live, 0))
    first, sent_bytes = asyncio.run(part(live, READERS))
    again, _ = asyncio.run(part(live, READERS))
    sys.stdout.write(f"\nalone {alone}\nfirst {first}, {sent_bytes:,} bytes\nagain {again}\n")
    assert sent_bytes > READERS * ASKS * 1000
    for busy in (first, again):
        assert busy.rounds_per_s >= alone.rounds_per_s * ROUNDS_SHARE_MIN
        assert busy.resident_bytes - alone.resident_bytes <= GROWTH_BYTES_MAX
