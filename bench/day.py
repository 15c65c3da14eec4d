"""The profile of a day, made by code, and the processor time of `tierd simulate` for it.

    python -m bench.day                        # the size of the profile, and the processor time
    python -m bench.day --save day.jsonl       # the profile only
    python -m bench.day --swing 0.1            # programs that differ more from minute to minute

The machine does not exist: 64 GiB of fast and 192 GiB of slow memory, with PROGRAMS in pieces of
2 MiB all over it. Panels are picked, looked at, joined and written by the recorder's own functions.
Only the kernel is missing: in how many samples a page is found touched is drawn by chance, as it
would be if touches came at random. Equal seeds give equal profiles.
"""

import argparse
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import exp
from pathlib import Path
from random import Random

from bench import machines
from tierd.loop.minutes import Joiner
from tierd.profile import panel
from tierd.profile.minute import tier_bytes
from tierd.profile.panel import LOOKS, Look, Memory
from tierd.profile.profile import Header, Line, Source, header_text, line_text
from tierd.profile.rates import BOUNDS_HZ, CLOSE_SAMPLE_US, CLOSE_SAMPLES, SAMPLE_US, SAMPLES
from tierd.ranges import Range
from tierd.sim import binomial
from tierd.sim.trial import Size
from tierd.topology import Node, Tier, Topology

GIB = 1 << 30
SIZE = Size(64 * GIB, 192 * GIB)
PAGE_BYTES = 4096
MINUTES = 1440
BEGAN_AT = 1_800_000_000.0

# Memory of one program lies in pieces of this size.
PIECE_BYTES = 2 << 20
# No page is touched more often than this, however hot its value is.
RATE_HZ_MAX = 5000.0
# How much a program differs from minute to minute: the deviation of its logarithm.
SWING = 0.03

# What is asked of `tierd simulate`: one machine, and the curve.
QUESTIONS = (("--dram", "64G", "--cxl", "192G"), ())


@dataclass(frozen=True, slots=True)
class Program:
    """A program: how much memory it has, how hot it is, and at which hours."""

    bytes: int
    mean_hz: float
    """Touches of a page per second at the busiest hour."""
    skew: float
    """The exponent of Zipf's law by which the heat of its memory falls; 0 if all is alike."""
    lasts_minutes: int
    """How long memory has its heat. Then it has another one."""
    hours: str
    """How busy it is at each hour of the day, in ninths of the busiest hour."""
    unit_bytes: int
    """Memory that has one heat: a page, or a piece."""


STORE = Program(90 * GIB, 1.0, 0.99, 180, "321112358999999999987643", PAGE_BYTES)
SERVICES = Program(25 * GIB, 20.0, 0.6, MINUTES, "554444578999999999988765", PIECE_BYTES)
NIGHTLY = Program(50 * GIB, 0.2, 0.0, MINUTES, "199992000000000000000000", PIECE_BYTES)
PAGE_CACHE = Program(50 * GIB, 0.002, 0.3, 600, "9" * 24, PIECE_BYTES)
PROGRAMS = (STORE, SERVICES, NIGHTLY, PAGE_CACHE)


def topology() -> Topology:
    """Return the machine."""
    sizes = (SIZE.fast_bytes, SIZE.slow_bytes)
    ranges = (Range(0, SIZE.fast_bytes), Range(SIZE.fast_bytes, SIZE.bytes))
    nodes = tuple(
        Node(number, sizes[number], (), (ranges[number],), ((0, 10), (1, 20)), None)
        for number in (0, 1)
    )
    tiers = tuple(Tier(f"memory_tier{number}", number, (number,)) for number in (0, 1))
    return Topology(nodes, tiers, PAGE_BYTES)


class Page:
    """A page that is watched: whose it is, and how hot."""

    def __init__(self, address: int, seed: int) -> None:
        place = Random(f"{seed} {address // PIECE_BYTES}").random() * SIZE.bytes
        self.program: int | None = None
        for number, one in enumerate(PROGRAMS):
            if place < one.bytes:
                self.program = number
                self.name = f"{seed} {number} {address // one.unit_bytes}"
                # Memory changes its heat bit by bit, and not all at once.
                self.phase = Random(self.name).random()
                break
            place -= one.bytes
        self.epoch = -1
        self.rate_hz = 0.0

    def rate_at(self, minute: int, busy: Sequence[float]) -> float:
        """Return its touches per second."""
        if self.program is None:
            return 0.0
        one = PROGRAMS[self.program]
        epoch = int(minute / one.lasts_minutes + self.phase)
        if epoch != self.epoch:
            rank = 1.0 - Random(f"{self.name} {epoch}").random()
            self.epoch = epoch
            self.rate_hz = min(RATE_HZ_MAX, one.mean_hz * (1 - one.skew) * rank**-one.skew)
        return self.rate_hz * busy[self.program]


def busy_at(minute: int, swing: float, rng: Random) -> list[float]:
    """Return how busy each program is, of its busiest hour."""
    hour, part = divmod(minute / 60, 1)
    found = []
    for one in PROGRAMS:
        now, then = (int(one.hours[(int(hour) + step) % 24]) / 9 for step in (0, 1))
        found.append((now + (then - now) * part) * exp(rng.gauss(0.0, swing)))
    return found


def hits(rates_hz: Sequence[float], samples: int, sample_us: int, rng: Random) -> list[int]:
    """Return in how many samples pages of these rates are found touched."""
    chances = [1.0 - exp(-rate * sample_us / 1e6) for rate in rates_hz]
    return [binomial.drawn(rng, samples, chance) for chance in chances]


def looked(seed: int, swing: float, minutes: int) -> Iterator[Line]:
    """Yield the minutes from midnight on as the recorder takes them, panel by panel."""
    rng, machine = Random(seed), topology()
    for began in range(0, minutes, LOOKS):
        watched, memory = panel.pick(machine, rng), Memory()
        pages = {address: Page(address, seed) for address in watched.pages}
        for number in range(began, began + LOOKS):
            busy = busy_at(number, swing, rng)
            rates = {address: page.rate_at(number, busy) for address, page in pages.items()}
            counts = hits(list(rates.values()), SAMPLES, SAMPLE_US, rng)
            found, memory = panel.look(watched, counts, memory, SAMPLES)
            close: tuple[int, ...] = ()
            chosen = (
                panel.closer(watched, counts, SAMPLES, rng) if len(memory.hot) == LOOKS else None
            )
            if chosen is not None:
                hottest = [rates[address] for address in chosen.pages]
                close = panel.close_counts(hits(hottest, CLOSE_SAMPLES, CLOSE_SAMPLE_US, rng))
            yield _line(machine, found, busy, close, number)


def _line(
    machine: Topology, found: Look, busy: Sequence[float], close: tuple[int, ...], number: int
) -> Line:
    sizes = tier_bytes(machine)
    used = sum(one.bytes for one in PROGRAMS) / SIZE.bytes
    night = busy[PROGRAMS.index(NIGHTLY)]
    return Line(
        minute=number,
        minutes=1,
        heat=tuple(
            tuple(one / size for one in found.heat_bytes[rank]) for rank, size in sizes.items()
        ),
        used=(used,) * len(sizes),
        idle=tuple(None if one is None else one / SIZE.bytes for one in found.idle_bytes),
        lasting=found.lasting,
        hot=found.hot,
        near=found.near,
        close=close,
        alloc_bytes_per_s=round(2e8 * busy[PROGRAMS.index(STORE)]),
        pressure=0.002 * night,
        major_faults_per_s=3.0 * night,
    )


def recorded(seed: int, swing: float = SWING, minutes: int = MINUTES) -> str:
    """Return the profile of a day, or of its first minutes."""
    machine = topology()
    pages = len(panel.pick(machine, Random(seed)).pages)
    header = Header(Source.panel, BEGAN_AT, tuple(tier_bytes(machine).values()), pages)
    lines = [header_text(header, BOUNDS_HZ)]
    joiner = Joiner(lambda line: lines.append(line_text(line)))
    for line in looked(seed, swing, minutes):
        joiner.add(line)
    joiner.end()
    return "\n".join(lines) + "\n"


def simulated(words: Sequence[str]) -> tuple[float, str]:
    """Return the processor time of `tierd simulate` with these words, and what it printed."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    argv = [sys.executable, "-m", "tierd", "simulate", *words]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return spent_s, done.stdout


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.day",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--swing", type=float, default=SWING, help=f"how much programs differ (default: {SWING})"
    )
    parser.add_argument("--save", type=Path, metavar="FILE", help="write the profile, and no more")
    arguments = parser.parse_args()
    text = recorded(arguments.seed, arguments.swing)
    print(f"profile: {len(text)} bytes in {text.count(chr(10)) - 1} lines", flush=True)
    if arguments.save is not None:
        arguments.save.write_text(text)
        return 0
    with tempfile.TemporaryDirectory(prefix="tierd-day.") as scratch:
        path = Path(scratch) / "day.jsonl"
        path.write_text(text)
        for question in QUESTIONS:
            spent_s, said = simulated((str(path), *question))
            print(f"\n{' '.join(('tierd simulate day.jsonl', *question))}")
            print(f"{spent_s:.0f} s of a processor\n\n{said}", flush=True)
    print(" ".join(f"{key}={value}" for key, value in machines.made().items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
