"""Fills PostgreSQL with pgbench's table, and lets pgbench read rows by Zipf's law.

`python3 -m bench.ask_postgres SCALE SECONDS`, in a guest with slow memory.
"""

import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench import seconds
from bench.errors import BenchError
from bench.waiting import Switch

# Debian's tools of all versions. There is one version in a guest.
TOOLS = Path("/usr/lib/postgresql")
# A disk, because the guest's /tmp is memory.
DATA = Path("/var/tmp/tierd-bench-postgres")
SOCKETS = "/tmp"
CLIENTS = 2
# Few rows on each page, so that a hot row makes one page hot.
FILL_FACTOR = 10
# What PostgreSQL needs beside the table and its index, and what a unit of the scale takes.
BUFFERS_MIB, BUFFERS_MIB_PER_SCALE = 64, 160
# pgbench ends this much later than the time it is given.
START_S_MAX = 120.0
POLL_S = 0.1
NS_PER_US = 1000

# Ranks are permuted, so that rows that are read often lie anywhere among the others.
SCRIPT = """\
\\set rank random_zipfian(1, 100000 * :scale, 1.01)
\\set aid 1 + permute(:rank - 1, 100000 * :scale)
SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
"""

PREWARM = """\
create extension if not exists pg_prewarm;
select pg_prewarm('pgbench_accounts') + pg_prewarm('pgbench_accounts_pkey');
select pg_backend_pid();
"""


@dataclass(frozen=True, slots=True)
class Transaction:
    """A transaction of pgbench's log: how long it took, and when it ended (real time)."""

    took_ns: int
    ended_ns: int


def parse(text: str) -> tuple[list[Transaction], str]:
    """Return the whole lines of a part of the log, and the rest that is no whole line yet."""
    *lines, rest = text.split("\n")
    found = []
    for line in lines:
        words = line.split()
        if len(words) < 6 or not all(word.isdecimal() for word in words[2:6]):
            raise BenchError(f"not a line of pgbench's log: {line!r}")
        took_us, _, epoch_s, epoch_us = map(int, words[2:6])
        ended_ns = epoch_s * seconds.NS_PER_S + epoch_us * NS_PER_US
        found.append(Transaction(took_us * NS_PER_US, ended_ns))
    return found, rest


def as_postgres(tool: str, *words: str) -> list[str]:
    """Return the command of a tool as the user that PostgreSQL insists on."""
    path = next(iter(sorted(TOOLS.glob(f"*/bin/{tool}"))), None)
    if path is None:
        raise BenchError(f"{TOOLS} has no {tool}: the package postgresql is not installed")
    ids = ("--reuid=postgres", "--regid=postgres", "--clear-groups", "--pdeathsig=INT")
    return ["setpriv", *ids, str(path), *words]


def start(scale: int) -> "subprocess.Popen[bytes]":
    """Make a database and start its server."""
    subprocess.run(["install", "-d", "-o", "postgres", "-m", "700", str(DATA)], check=True)
    made = as_postgres("initdb", "--no-sync", "-D", str(DATA))
    subprocess.run(made, check=True, stdout=subprocess.DEVNULL)
    buffers = f"{BUFFERS_MIB + BUFFERS_MIB_PER_SCALE * scale}MB"
    settings = {
        "shared_buffers": buffers, "unix_socket_directories": SOCKETS, "listen_addresses": "",
        "fsync": "off", "autovacuum": "off", "wal_level": "minimal", "max_wal_senders": "0",
        "max_wal_size": "4GB", "checkpoint_timeout": "1h", "jit": "off",
    }  # fmt: skip
    words = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
    with (DATA.parent / "postgres.log").open("wb") as log:
        server = subprocess.Popen(
            as_postgres("postgres", "-D", str(DATA), *words), stdout=log, stderr=log
        )
    end_s = time.monotonic() + START_S_MAX
    ready = as_postgres("pg_isready", "-q", "-h", SOCKETS)
    while subprocess.run(ready, check=False).returncode:
        if server.poll() is not None or time.monotonic() > end_s:
            raise BenchError(f"PostgreSQL does not serve: {server.returncode}")
        time.sleep(POLL_S)
    return server


def prewarm() -> tuple["subprocess.Popen[str]", int]:
    """Read all pages into PostgreSQL's memory. Return the session that has mapped them, its pid."""
    session = subprocess.Popen(
        as_postgres("psql", "-qAt", "-h", SOCKETS, "postgres"),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
    )  # fmt: skip
    assert session.stdin is not None
    assert session.stdout is not None
    session.stdin.write(PREWARM)
    session.stdin.flush()
    pages, pid = session.stdout.readline(), session.stdout.readline()
    if not pages.strip().isdecimal() or not pid.strip().isdecimal():
        raise BenchError(f"PostgreSQL did not read its pages: {pages!r} {pid!r}")
    return session, int(pid)


def followed(log: Path, asking: "subprocess.Popen[bytes]") -> Iterator[Transaction]:
    """Return the transactions as pgbench writes them, until it ends."""
    rest = ""
    while not log.exists():
        if asking.poll() is not None:
            raise BenchError(f"pgbench ended with {asking.returncode}")
        time.sleep(POLL_S)
    with log.open() as lines:
        while asking.poll() is None:
            found, rest = parse(rest + lines.read())
            yield from found
            time.sleep(POLL_S)
    raise BenchError(f"pgbench ended with {asking.returncode}")


def main() -> None:
    scale, length = map(int, sys.argv[1:])
    began_ns = time.monotonic_ns()
    start(scale)
    here = ("-h", SOCKETS, "postgres")
    fill = ("-q", "-i", "-I", "dtgp", "-s", str(scale), "-F", str(FILL_FACTOR))
    subprocess.run(as_postgres("pgbench", *fill, *here), check=True, stderr=subprocess.DEVNULL)
    session, pid = prewarm()
    seconds.filled(began_ns, pid)
    script, prefix = DATA.parent / "zipf.sql", DATA / "log"
    script.write_text(SCRIPT)
    # It ends with this process at the latest, because the guest ends then.
    asking = subprocess.Popen(
        as_postgres("pgbench", "-n", "-M", "prepared", "-c", str(CLIENTS), "-T", str(length + 60),
                    "-s", str(scale), "-f", str(script), "-l", f"--log-prefix={prefix}", *here),
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    mark = Switch().mark
    mark(0)
    # pgbench tells the real time, and all else here is by the monotonic clock.
    apart_ns = time.time_ns() - time.monotonic_ns()
    told = seconds.Seconds(mark, time.monotonic_ns())
    for one in followed(Path(f"{prefix}.{asking.pid}"), asking):
        told.add(one.took_ns, one.ended_ns - apart_ns)
        if told.number == length:
            break
    session.kill()


if __name__ == "__main__":
    main()
