"""Fills a database of sqlite, which lies in the page cache, and asks it: joins, and scans.

`python3 -m bench.ask_sqlite ITEMS SECONDS`, in a guest with slow memory.
"""

import os
import sqlite3
import sys
import time
from itertools import count
from pathlib import Path

from bench import seconds
from bench.waiting import Switch
from bench.zipf import drawer

# A disk, because the guest's /tmp is memory.
FOLDER = Path("/var/tmp")
# With its row header it fills a page of the database.
PAYLOAD_BYTES = 3900
# sqlite maps the file, so that the program itself reads the page cache, and not the kernel for it.
MAPPED_BYTES = 2 << 30
# An operation in so many is a scan of this many neighbouring rows.
SCAN_EVERY = 200
SCAN_ROWS = 2000

SCHEMA = """
pragma page_size = 4096;
pragma journal_mode = off;
pragma synchronous = off;
create table item (id integer primary key, partner integer, payload blob);
"""
JOIN = """
select length(a.payload), substr(b.payload, -8) from item a join item b on b.id = a.partner
where a.id = ?
"""
SCAN = "select sum(length(payload) + partner) from item where id between ? and ?"


def fill(database: sqlite3.Connection, items: int) -> None:
    database.executescript(SCHEMA)
    payload = os.urandom(PAYLOAD_BYTES)
    # The partner of a row lies elsewhere, and is always the same one.
    rows = ((number, number * 7919 % items, payload) for number in range(items))
    database.executemany("insert into item values (?, ?, ?)", rows)
    database.commit()


def main() -> None:
    items, length = map(int, sys.argv[1:])
    began_ns = time.monotonic_ns()
    path = FOLDER / f"tierd-bench-{os.getpid()}.db"
    with sqlite3.connect(path) as database:
        fill(database, items)
    database.close()
    database = sqlite3.connect(path)
    # The file lives on until the program ends.
    path.unlink()
    database.execute(f"pragma mmap_size = {MAPPED_BYTES}")
    database.execute(SCAN, (0, items)).fetchone()
    draw = drawer(items, seed=3)
    numbers = count(1)

    def ask() -> None:
        if next(numbers) % SCAN_EVERY == 0:
            first = draw()
            database.execute(SCAN, (first, first + SCAN_ROWS)).fetchone()
        elif database.execute(JOIN, (draw(),)).fetchone() is None:
            raise SystemExit("sqlite did not find a row that is there")

    seconds.filled(began_ns)
    seconds.ask(ask, Switch().mark, length)


if __name__ == "__main__":
    main()
