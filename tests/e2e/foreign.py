"""In a guest: tierd beside kdamonds that damo has made, while they run and when they are off."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.e2e import inside
from tests.e2e.inside import ADMIN, note

DAMO = (sys.executable, "-B", "-c", "from damo.damo import main; main()")


def damo(*words: str) -> str:
    """Run damo, and return what it printed."""
    environment = {**os.environ, "PYTHONPATH": "/opt/damo", "HOME": "/root"}
    done = subprocess.run(
        [*DAMO, *words], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def tree() -> dict[str, str | None]:
    """Return each of DAMON's files that can be read, with its text. The pids are among them."""
    found = {}
    for path in sorted(ADMIN.rglob("*")):
        if path.is_file() and os.access(path, os.R_OK) and path.stat().st_mode & 0o444:
            found[str(path.relative_to(ADMIN))] = inside.text(path)
    return found


def refused() -> dict[str, Any]:
    """Return what tierd says and does beside a foreign kdamond."""
    before = tree()
    ran = inside.verb("run")
    return {
        "code": ran.returncode,
        "words": ran.stderr,
        "nr": before["nr_kdamonds"],
        "state": before["0/state"],
        "unchanged": tree() == before,
    }


def main() -> int:
    inside.begin()
    Path(inside.DAMON_STAT).write_text("N")
    facts: dict[str, Any] = {}
    damo("start", "--damos_action", "pageout", "--damos_quotas", "1s", "1M", "1s")
    facts["running"] = refused()
    note("refused beside one that runs")
    inside.put(ADMIN / "0/state", "off")
    facts["off"] = refused()
    inside.put(ADMIN / "nr_kdamonds", "0")
    inside.put(ADMIN / "nr_kdamonds", "1")
    facts["created"] = refused()
    inside.put(ADMIN / "nr_kdamonds", "0")
    damo("start")
    theirs = inside.pids()
    inside.configure("on_conflict: take_over\n")
    daemon = inside.started()
    facts["taken"] = {
        "theirs": theirs,
        "ours": inside.pids(),
        "diff": inside.verb("plan", "--diff").returncode,
        "reason": inside.status()["reason"],
    }
    facts["exit"] = daemon.stop()
    facts["after"] = inside.neighbourhood()
    inside.tell(facts)
    return 0


if __name__ == "__main__":
    sys.exit(main())
