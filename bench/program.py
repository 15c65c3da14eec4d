"""The programs that are measured, as data: how each is started, its size, and its load.

They are Debian's packages, unchanged.
"""

from dataclasses import dataclass

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Program:
    """A key-value server and its load: keys of one size, drawn by Zipf's law, in no order."""

    name: str
    title: str
    package: str
    argv: tuple[str, ...]
    protocol: str
    """The name of the protocol in the driver tests/vm/keys.c."""
    key_bytes: int
    """The memory that a key takes with its value."""
    times_fast: float = 1.3
    """The size of all keys, divided by that of the fast node. More keys take longer to fill in."""
    # Each value has a page of its own, so that a hot key makes one page hot.
    value_bytes: int = 4000
    # The default of YCSB.
    theta: float = 0.99
    connections: int = 4

    def keys(self, fast_bytes: int) -> int:
        """Return how many keys the program gets, for a fast node of this size."""
        return int(self.times_fast * fast_bytes) // self.key_bytes

    def driven(self, driver: str, keys: int, seconds: int) -> tuple[str, ...]:
        """Return the command of the driver."""
        words = (self.protocol, SOCKET, keys, self.value_bytes, self.theta, self.connections)
        return (driver, *map(str, words), str(seconds))


SOCKET = "/tmp/program.socket"

PROGRAMS = (
    Program(
        "redis",
        "redis, values of 4000 bytes, GET by Zipf 0.99",
        "redis-server",
        # No snapshots and no log of writes: they would measure the disk.
        ("redis-server", "--port", "0", "--unixsocket", SOCKET, "--save", "", "--appendonly", "no"),
        "redis",
        # The page of the value, and what redis keeps for each key.
        key_bytes=4200,
    ),
    Program(
        "memcached",
        "memcached, values of 4000 bytes, get by Zipf 0.99",
        "memcached",
        # More room than is needed, because an evicted item would be an error.
        ("memcached", "-u", "root", "-s", SOCKET, "-m", "1400", "-t", "1"),
        "memcached",
        # The size of memcached's slab class for such values.
        key_bytes=4544,
    ),
)

BY_NAME = {program.name: program for program in PROGRAMS}

# The packages of all programs, which share one root file system.
PACKAGES = tuple(program.package for program in PROGRAMS)
