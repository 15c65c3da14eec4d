"""Parses what a driver prints about the program that it drives. Pure.

The format is described in tests/vm/seconds.h, and in bench.program.
"""

from typing import Any

from bench.errors import BenchError

NS_PER_S = 1_000_000_000


def data_pid(text: str) -> int | None:
    """Return the pid of the process that holds the data, if the first line has one."""
    words = text.partition("\n")[0].split()
    return int(words[3]) if len(words) > 3 else None


def parse(text: str) -> dict[str, Any]:
    """Return the seconds that filling took, and series with a row for each second served."""
    first, *rows = (line.split() for line in text.splitlines()) if text else [[]]
    if not first or first[0] != "filled" or any(row[:1] != ["second"] for row in rows):
        raise BenchError(f"not what a driver says: {text[:200]!r}")
    began_ns, ended_ns = map(int, first[1:3])
    columns: dict[str, list[Any]] = {
        "at_s": [], "seconds": [], "operations": [], "p50_us": [], "p99_us": []
    }  # fmt: skip
    for row in rows:
        began, ended, operations, p50_ns, p99_ns = map(int, row[1:])
        columns["at_s"].append(round(ended / NS_PER_S, 2))
        columns["seconds"].append(round((ended - began) / NS_PER_S, 4))
        columns["operations"].append(operations)
        columns["p50_us"].append(round(p50_ns / 1000, 1))
        columns["p99_us"].append(round(p99_ns / 1000, 1))
    return {"fill_s": round((ended_ns - began_ns) / NS_PER_S, 1), "served": columns}
