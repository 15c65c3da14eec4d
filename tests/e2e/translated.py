"""In a guest: tierd's plans through damo (`plans`), or policies of other tools (`originals`).

Of each policy: what `damo start` makes of it, and what tierd makes of it.
"""

import json
import sys
from pathlib import Path
from typing import Any

from tests.e2e import inside
from tests.e2e.foreign import damo, tree
from tests.e2e.inside import ADMIN, COUNT, note
from tests.unit.importing.real import ORIGINALS, folder
from tierd.machine.features import KDAMONDS

CGROUPS = Path("/sys/fs/cgroup")
# The cgroups that the policies name. The kernel refuses a filter of one that is not there.
GROUPS = ("hmsdk", "redis.slice", "a")

# The tuner that the import offers for policies with goals.
GOALS = "tuner: kernel\n"

# Configurations whose plans go through damo: what tierd does by default, the kernel's own goals,
# filters of cgroups, and schemes that move nothing.
PLANS = {
    "default": "",
    "kernel": GOALS,
    "cgroups": "cgroups: {hmsdk: {include: [/hmsdk]}, a: {exclude: [/a]}}\n",
    "observe": "mode: observe\n",
}

PLAN = Path("/tmp/plan.json")
REPORTED = Path("/tmp/reported.json")


def started(file: Path) -> dict[str, str | None]:
    """Return DAMON's files after `damo start FILE`."""
    damo("start", str(file))
    return tree()


def stopped() -> None:
    for state in ADMIN.glob("*/state"):
        inside.put(state, "off")
    inside.put(COUNT, "0")


def planned() -> dict[str, str | None]:
    """Return DAMON's files after tierd's writes, made one by one as `tierd plan` lists them."""
    said = inside.verb("plan", "--writes")
    assert said.returncode == 0, said.stderr
    pairs = [line.partition(" = ") for line in said.stdout.splitlines()]
    for path, _, value in pairs:
        if path.startswith(KDAMONDS):
            inside.put(Path("/", path), value)
    found = tree()
    stopped()
    return found


def imported(file: Path) -> Any:
    done = inside.verb("import", "--json", str(file))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def through_damo(config: str) -> dict[str, Any]:
    """Return what tierd plans, what damo makes of that, and what tierd makes of damo's report."""
    inside.configure(config)
    facts: dict[str, Any] = {"planned": planned()}
    made = inside.verb("plan", "--format", "damo")
    assert made.returncode == 0, made.stderr
    PLAN.write_text(made.stdout)
    facts["tree"] = started(PLAN)
    drift = inside.verb("plan", "--diff")
    facts["diff"] = [drift.returncode, drift.stdout, drift.stderr]
    REPORTED.write_text(damo("report", "damon", "--format", "json"))
    stopped()
    back = inside.verb("import", "--json", str(REPORTED))
    facts["back"] = [back.returncode, back.stdout, back.stderr]
    if config == GOALS:
        inside.configure(json.loads(back.stdout)["config"] + GOALS)
        facts["again"] = planned()
    return facts


def translated(name: str) -> dict[str, Any]:
    """Return what `damo start` makes of a policy, and what tierd would write for it."""
    file = folder() / name
    facts: dict[str, Any] = {"tree": started(file)}
    stopped()
    facts["imported"] = imported(file)
    inside.configure(facts["imported"]["config"])
    facts["planned"] = planned()
    if any(one["setting"] == "tuner" for one in facts["imported"]["remarks"]):
        inside.configure(facts["imported"]["config"] + GOALS)
        facts["by_goals"] = planned()
    return facts


def main() -> int:
    inside.begin()
    Path(inside.DAMON_STAT).write_text("N")
    (CGROUPS / "cgroup.subtree_control").write_text("+memory")
    for group in GROUPS:
        (CGROUPS / group).mkdir()
    facts: dict[str, Any] = {}
    if "plans" in sys.argv:
        for name, config in PLANS.items():
            note(name)
            facts[name] = through_damo(config)
    else:
        for name in ORIGINALS:
            note(name)
            facts[name] = translated(name)
    inside.tell(facts)
    return 0


if __name__ == "__main__":
    sys.exit(main())
