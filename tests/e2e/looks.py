"""In a guest: each command that changes nothing, before, while and after the daemon runs."""

import os
import pty
import select
import subprocess
import sys
import termios
from pathlib import Path
from typing import Any

from tests.e2e import inside
from tests.e2e.inside import ADMIN, MIB, note

HOT_BYTES = 64 * MIB
HOT_HZ = 100.0
# Memory of the same process that nobody touches, on the fast node.
CALM_BYTES = 32 * MIB

CGROUPS = Path("/sys/fs/cgroup")
GROUP = "looks"
LRU_GEN = Path("/sys/kernel/mm/lru_gen/enabled")
PICTURE = Path("/tmp/tierd.svg")

# The commands that are run beside the daemon, as a user types them.
ASKED = (
    "status",
    "status --json",
    "status --no-color",
    "tiers",
    "tiers --json",
    "plan",
    "plan --json",
    "plan --writes",
    "plan --format damo",
    "plan --observe",
    "plan --diff",
    "check",
    "doctor",
    "doctor --json",
    "why 0",
    "why node1",
    "why 7",
    f"why /{GROUP}",
    "top --processes",
    "events",
    "events --json",
    "events --since 1h",
    "history",
    "history --json",
    "history --since 10min",
    f"history --svg {PICTURE}",
    "pause",
    "status --json",
    "why 1",
    "resume",
    "reload",
    "restore --print",
    "print unit",
)

# The size of the terminal for `top`.
TOP_COLUMNS, TOP_ROWS = 80, 30
LOOKS_MAX = 60


def asked(words: str) -> list[Any]:
    """Run a command. Return it with its exit code and its output."""
    note(words)
    done = inside.verb(*words.split())
    return [words, done.returncode, done.stdout, done.stderr]


def top() -> list[Any]:
    """Run `tierd top` in a terminal until it shows a scheme, and then processes.

    Return its exit code and frames.
    """
    note("top")
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (TOP_ROWS, TOP_COLUMNS))
    with subprocess.Popen(
        [*inside.TIERD, "top"], stdin=theirs, stdout=theirs, env={**os.environ, "TERM": "xterm"}
    ) as shown:
        drawn = ""
        # Each read waits for a frame. There is one frame per second.
        for wanted, key in (("promote-1-0", b"p"), ("PROCESS", b"q")):
            for _ in range(LOOKS_MAX):
                drawn += os.read(ours, 65_536).decode("utf-8", "replace")
                if wanted in drawn:
                    break
            os.write(ours, key)
        code = shown.wait(inside.PATIENCE_S)
    while select.select([ours], [], [], 0)[0]:
        drawn += os.read(ours, 65_536).decode("utf-8", "replace")
    return [code, drawn]


def processes() -> dict[str, Any]:
    """Return what `tierd top` says of processes, and whether pages have generations now."""
    return {"lru_gen": inside.text(LRU_GEN), "said": asked("top --processes --json")}


def without_generations() -> dict[str, Any]:
    """Return the same while the kernel has an active and an inactive list."""
    before = inside.text(LRU_GEN)
    inside.put(LRU_GEN, "0")
    found = processes()
    inside.put(LRU_GEN, before or "0")
    return found


def main() -> int:
    sets = inside.begin()
    inside.configure("")
    (CGROUPS / "cgroup.subtree_control").write_text("+memory")
    (CGROUPS / GROUP).mkdir()
    sets.ask("flush 2000")
    (CGROUPS / GROUP / "cgroup.procs").write_text(str(sets.pid))
    sets.place("calm", 0, CALM_BYTES, only=True)
    sets.place("hot", 1, HOT_BYTES, only=True)
    sets.heat("hot", HOT_HZ)
    before = inside.neighbourhood()
    facts: dict[str, Any] = {"not_running": [asked("status"), asked("doctor")]}
    facts["pid"] = sets.pid
    facts["processes"] = [processes(), without_generations()]
    facts["cgroup"] = asked(f"why /{GROUP}")
    facts["observed"] = asked("observe --for 12s")
    facts["left_by_observing"] = [before, inside.neighbourhood()]
    facts["where"] = sets.where("hot")
    daemon = inside.started()
    inside.wait_for("a look at what moves", lambda: inside.status()["nodes"] != [])
    facts["asked"] = [asked(words) for words in ASKED]
    facts["top"] = top()
    facts["picture"] = inside.text(PICTURE)
    facts["exit"] = daemon.stop()
    facts["after"] = [asked("events"), asked("history"), asked("status")]
    # A foreign kdamond: the doctor has to see it, and leave it alone.
    inside.put(ADMIN / "nr_kdamonds", "1")
    facts["foreign"] = asked("doctor")
    inside.put(ADMIN / "nr_kdamonds", "0")
    inside.tell(facts)
    return 0


if __name__ == "__main__":
    sys.exit(main())
