"""In a guest: every command that only looks, before, while and after the daemon runs."""

import sys
from pathlib import Path
from typing import Any

from tests.e2e import inside
from tests.e2e.inside import ADMIN, MIB, note

HOT_BYTES = 64 * MIB
HOT_HZ = 100.0
PICTURE = Path("/tmp/tierd.svg")

# As somebody would type them while the daemon runs.
ASKED = (
    "status",
    "status --json",
    "tiers",
    "plan",
    "plan --diff",
    "doctor",
    "doctor --json",
    "why 0",
    "why node1",
    "why 7",
    "events",
    "events --json",
    "history",
    "history --json",
    f"history --svg {PICTURE}",
    "pause",
    "status --json",
    "why 1",
    "resume",
)


def asked(words: str) -> list[Any]:
    """The command, its exit code, and what it said."""
    note(words)
    done = inside.verb(*words.split())
    return [words, done.returncode, done.stdout, done.stderr]


def main() -> int:
    sets = inside.begin()
    inside.configure("")
    sets.place("hot", 1, HOT_BYTES, only=True)
    sets.heat("hot", HOT_HZ)
    before = inside.neighbourhood()
    facts: dict[str, Any] = {"not_running": [asked("status"), asked("doctor")]}
    facts["observed"] = asked("observe --for 12s")
    facts["left_by_observing"] = [before, inside.neighbourhood()]
    facts["where"] = sets.where("hot")
    daemon = inside.started()
    inside.wait_for("a look at what moves", lambda: inside.status()["nodes"] != [])
    facts["asked"] = [asked(words) for words in ASKED]
    facts["picture"] = inside.text(PICTURE)
    facts["exit"] = daemon.stop()
    facts["after"] = [asked("events"), asked("history"), asked("status")]
    # Somebody else's: the doctor has to see it, and leave it alone.
    inside.put(ADMIN / "nr_kdamonds", "1")
    facts["foreign"] = asked("doctor")
    inside.put(ADMIN / "nr_kdamonds", "0")
    inside.tell(facts)
    return 0


if __name__ == "__main__":
    sys.exit(main())
