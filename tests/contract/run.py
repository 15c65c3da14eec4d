"""Runs each behaviour once in a guest: `python3 -m tests.contract.run --workload PROGRAM > seen`.

One JSON object on a line: first the kernel's release, then each behaviour with what was `seen` or
how it `failed`. A line is written as soon as it is known, so that a guest that dies has told which
behaviour killed it.
"""

import argparse
import json
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatch
from os import uname
from pathlib import Path

from tests.contract.behaviour import Behaviour, table
from tests.contract.real import RealSubject
from tests.contract.subject import Subject, rest
from tierd.errors import TierdError

# What a behaviour may end with, besides what it saw: the rest is a defect of the suite itself.
FAILURES = (TierdError, AssertionError, OSError, ValueError, LookupError, TypeError)

Line = dict[str, object]


def lines(
    behaviours: Sequence[Behaviour], subject: Subject, now_s: Callable[[], float]
) -> Iterator[Line]:
    """Run each behaviour; the kernel is at rest before and after each."""
    for entry in behaviours:
        began_s = now_s()
        line = one(entry, subject)
        yield {"id": entry.id, **line, "took_s": round(now_s() - began_s, 2)}


def one(entry: Behaviour, subject: Subject) -> Line:
    """Run one behaviour, and clean up whatever happens."""
    try:
        rest(subject)
        try:
            return {"seen": json.loads(json.dumps(entry.run(subject)))}
        finally:
            subject.sets.close()
            rest(subject)
    except FAILURES:
        return {"failed": traceback.format_exc(limit=-6)}


def chosen(*patterns: str) -> tuple[Behaviour, ...]:
    """Return the behaviours whose id matches one of the patterns."""
    return tuple(
        entry for entry in table() if any(fnmatch(entry.id, pattern) for pattern in patterns)
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.contract.run", description=__doc__)
    parser.add_argument("--workload", type=Path, required=True, help="built from workload.c")
    parser.add_argument("--only", nargs="+", default=["*"], help="patterns of ids, as `quota.*`")
    parser.add_argument("--times", type=int, default=1, help="the whole suite so often")
    arguments = parser.parse_args()
    subject = RealSubject(arguments.workload)
    tell({"release": uname().release})
    for _ in range(arguments.times):
        for line in lines(chosen(*arguments.only), subject, time.monotonic):
            tell(line)
    return 0


def tell(line: Line) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
