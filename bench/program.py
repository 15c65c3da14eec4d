"""The programs that are measured, as data: how each is started, its size, and its load.

They are Debian's packages, unchanged. In `driver` {items} and {seconds} stand for numbers.
"""

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Program:
    """A program, and the driver that fills it, asks it, and tells how fast that was.

    What the driver prints is described in tests/vm/seconds.h. Before that it prints `filled BEGAN
    ENDED`, and the pid of the process that holds the data, if that is not the server or itself.
    """

    name: str
    title: str
    driver: tuple[str, ...]
    item_bytes: int
    """The memory of an item: of a key with its value, of a row, of a vector."""
    server: tuple[str, ...] = ()
    """A server that the driver finds at SOCKET; none if the driver does everything."""
    times_fast: float = 1.3
    """The size of all items, divided by that of the fast node. More take longer to fill in."""
    hog_share: float = 0.0
    """The share of the free memory of the fast node that another process takes first. That process
    never touches its memory again."""

    def items(self, fast_bytes: int) -> int:
        """Return how many items the program gets, for a fast node of this size."""
        return max(1, round(self.times_fast * fast_bytes / self.item_bytes))

    def driven(self, items: int, seconds: int) -> tuple[str, ...]:
        """Return the command of the driver."""
        return tuple(word.format(items=items, seconds=seconds) for word in self.driver)


@dataclass(frozen=True, slots=True)
class Turn:
    """What has a turn beside a program: a configuration, and how memory waits meanwhile."""

    title: str
    configuration: str
    even: bool = False


CONTENDERS = {
    "none": Turn("no tiering", "none"),
    "numab2": Turn("NUMA balancing mode 2, with demotion by reclaim", "numab2"),
    "tierd": Turn("tierd, `tuner: demand`", "demand"),
    "hmsdk": Turn("the policy that HMSDK generates, through damo", "hmsdk"),
    "record": Turn("tierd record, which moves nothing", "record"),
    "reported": Turn("tierd, and `tierd report --ab` beside it", "reported"),
    "all-fast": Turn("no tiering, all memory as fast as the fast node", "none", True),
}

SOCKET = "/tmp/program.socket"

# Requests of a connection that are under way at once in the programs with many clients.
AT_ONCE = 16
_PYTHON = ("python3", "-B", "-m")
_MASIM = "/job/project/bench/masim"
# All regions of a configuration together.
_MASIM_BYTES = 200_000_000


def _keys(protocol: str, at_once: int = 1) -> tuple[str, ...]:
    """Return the driver of a key-value server, with so many requests of a connection at once.

    Each value has a page of its own, so that a hot key makes one page hot. 0.99 is the default of
    YCSB, and there are four connections.
    """
    shape = ("{items}", "4000", "0.99", "4", str(at_once), "{seconds}")
    return ("/job/keys", protocol, SOCKET, *shape)


_REDIS = Program(
    "redis",
    "redis, values of 4000 bytes, GET by Zipf 0.99",
    _keys("redis"),
    # The page of the value, and what redis keeps for each key.
    item_bytes=4200,
    # No snapshots and no log of writes: they would measure the disk. The driver fills redis by a
    # command for debugging.
    server=(
        "redis-server", "--port", "0", "--unixsocket", SOCKET, "--save", "",
        "--appendonly", "no", "--enable-debug-command", "yes",
    ),
)  # fmt: skip

# HMSDK's own benchmark: redis is a tenth as large as the fast node, and comes after cold memory
# that takes most of it. It has eight sizes from 86 to 98 %.
HOG_PERCENTS = (86, 88, 90, 92, 94, 96, 97, 98)


def beside_hog(program: Program, percent: int) -> Program:
    """Return the program as HMSDK runs it, beside cold memory of this size."""
    return replace(
        program,
        name=f"{program.name}-beside-{percent}",
        title=f"{program.title}, beside cold memory of {percent} % of the fast node",
        times_fast=0.1,
        hog_share=percent / 100,
    )


def asked_at_once(program: Program) -> Program:
    """Return the program as many clients on other machines ask it.

    With one request at a time most of the time goes into system calls, which wait for no memory,
    and the driver needs as much of a processor as the server. Clients elsewhere need none of it.
    """
    return replace(
        program,
        name=f"{program.name}-{AT_ONCE}",
        title=f"{program.title}, {AT_ONCE} requests at once on each connection",
        driver=_keys(program.name, AT_ONCE),
    )


def _scenario(name: str, title: str, times_fast: float) -> Program:
    """Return the program that runs a scenario in the form of masim."""
    driver = ("/job/masim", f"{_MASIM}/{name}.cfg", "{items}", "{seconds}")
    return Program(name, title, driver, item_bytes=_MASIM_BYTES, times_fast=times_fast)


_MEMCACHED = Program(
    "memcached",
    "memcached, values of 4000 bytes, get by Zipf 0.99",
    _keys("memcached"),
    # The size of memcached's slab class for such values.
    item_bytes=4544,
    # More room than is needed, because an evicted item would be an error.
    server=("memcached", "-u", "root", "-s", SOCKET, "-m", "1400", "-t", "1"),
)

PROGRAMS = (
    _REDIS,
    asked_at_once(_REDIS),
    *(beside_hog(_REDIS, percent) for percent in HOG_PERCENTS),
    _MEMCACHED,
    asked_at_once(_MEMCACHED),
    Program(
        "hnswlib",
        "hnswlib, the ten nearest of vectors of 1024 numbers, queries by Zipf 0.99",
        (*_PYTHON, "bench.ask_index", "{items}", "{seconds}"),
        # The numbers, and the links of each vector.
        item_bytes=4096 + 100,
    ),
    Program(
        "sqlite",
        "sqlite, joins by Zipf 0.99 and a scan now and then, in the page cache",
        (*_PYTHON, "bench.ask_sqlite", "{items}", "{seconds}"),
        # A row fills a page.
        item_bytes=4096,
    ),
    Program(
        "pgbench",
        "PostgreSQL, pgbench, SELECT by random_zipfian 1.01",
        (*_PYTHON, "bench.ask_postgres", "{items}", "{seconds}"),
        # 100,000 rows of a unit of pgbench's scale, at six rows a page of 8 KiB (fill factor 10).
        item_bytes=100_000 // 6 * 8192,
    ),
    _scenario("zigzag", "masim, two regions that take turns, five seconds each", 1.5),
    _scenario("stairs", "masim, ten regions one after the other, five seconds each", 1.5),
    _scenario("walk", "masim, ten regions one after the other, half a minute each", 2.0),
    _scenario("updates", "masim, updates anywhere in one region (GUPS)", 1.5),
)  # fmt: skip

BY_NAME = {program.name: program for program in PROGRAMS}

# The packages of all programs, which share one root file system.
PACKAGES = ("redis-server", "memcached", "postgresql", "python3-hnswlib")

# Our own programs in the guest, with the libraries that they are linked with.
DRIVERS = {"keys": ("-lm",), "masim": ()}
