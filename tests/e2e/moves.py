"""In a guest: `tierd run`, hot sets below and cold memory above, on every pair of nodes.

Promotion first, while the fast nodes have room. Then each fast node is filled to the brim with
cold memory, and its goal of free memory makes demotion work. All is counted by the workload.
"""

import json
import sys
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any

from tests.contract.sets import PAGE, WorkloadSets
from tests.e2e import inside
from tests.e2e.inside import ADMIN, MIB, note

HOT_BYTES = 24 * MIB
HOT_HZ = 60.0
ARRIVED_SHARE = 0.9
CLAIMED_SHARE = 0.95

# Enough to tell the scheme's work from chance.
DEMOTED_PAGES_MIN = 256

# Sets that a node is filled with, one after the other; the workload program holds 64.
FILLS_MAX = 28
PIECE_BYTES = 64 * MIB

BOUND_S = 150.0

# With consist a quota begins at one byte and grows in each window by the share that is missing of
# the goal (damon_feed_loop_next_input()). What tierd keeps free is little more than what kswapd
# does, so with the defaults that share is a tenth or less, and demotion takes many minutes to
# begin. A goal far away shows in time that it works.
KERNEL_TUNER = "tuner: kernel\n"
FAR_GOAL = KERNEL_TUNER + "headroom: 40%\n"


def pairs(plan: Mapping[str, Any], direction: str) -> list[tuple[int, int]]:
    return [
        (item["source_node"], item["target_node"])
        for item in plan["items"]
        if item["direction"] == direction
    ]


def downwards(plan: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """What demotes, the fastest node first: new pages are young, and go up where there is room."""
    downs = pairs(plan, "demote")
    items = [item for item in plan["items"] if item["direction"] == "demote"]
    return sorted(items, key=lambda item: item["source_node"] in {target for _, target in downs})


def hot_name(pair: tuple[int, int]) -> str:
    return f"hot-{pair[0]}-{pair[1]}"


def promoted(sets: WorkloadSets, ways: list[tuple[int, int]]) -> dict[str, Any]:
    """Wait until the hot set of each pair has left its node, and say where it is."""
    began_s = time.monotonic()

    def gone(pair: tuple[int, int]) -> bool:
        left = sets.where(hot_name(pair)).get(pair[0], 0)
        return left <= (1 - ARRIVED_SHARE) * HOT_BYTES / PAGE

    inside.within(lambda: all(gone(pair) for pair in ways), BOUND_S)
    where = {hot_name(pair): sets.where(hot_name(pair)) for pair in ways}
    return {"where": where, "took_s": round(time.monotonic() - began_s, 1)}


def demoted(sets: WorkloadSets, item: Mapping[str, Any], *, slow: bool) -> dict[str, Any]:
    """Fill a node with cold memory, beyond what should stay free, and see where it goes.

    It is faulted in there and nowhere else, so each page that is elsewhere later was moved. Other
    memory may be colder and go first, so the node is filled again until some of this goes too.
    """
    source, target = item["source_node"], item["target_node"]
    wanted_free = inside.total_bytes(source) * item["aim"]["target_bp"] // 10_000
    placed: dict[str, int] = {}

    def where() -> Counter[int]:
        return sum((Counter(sets.where(name)) for name in placed), Counter())

    def fill() -> None:
        # Piece by piece, and no further below the headroom than makes demotion act: what moves
        # there meanwhile, and a set too large, would be out of memory.
        while len(placed) < FILLS_MAX:
            room = inside.free_bytes(source) - wanted_free * 7 // 8
            if room < MIB:
                return
            name = f"cold-{source}-{target}-{len(placed)}"
            placed[name] = min(room, PIECE_BYTES) // PAGE
            sets.place(name, source, placed[name] * PAGE, only=True)

    def gone() -> bool:
        if inside.free_bytes(source) > wanted_free:
            fill()
        return where()[target] >= DEMOTED_PAGES_MIN

    fill()
    grown = grown_quota(item) if slow else None
    if slow:
        inside.configure(FAR_GOAL)
        assert inside.verb("reload").returncode == 0
    began_s = time.monotonic()
    inside.within(gone, BOUND_S)
    took_s = round(time.monotonic() - began_s, 1)
    return {"pages": sum(placed.values()), "where": where(), "took_s": took_s, "grown": grown}


def grown_quota(item: Mapping[str, Any]) -> int:
    """The scheme's effective quota, once it is more than the single byte that it began with."""
    scheme = ADMIN / f"{item['kdamond']}/contexts/0/schemes/{item['scheme']}"

    def effective() -> int:
        return int(inside.text(scheme / "quotas/effective_bytes") or 0)

    inside.within(lambda: effective() > 1, BOUND_S)
    return effective()


def claims() -> dict[str, int]:
    """Bytes that each scheme says it has moved."""
    shown = inside.status()
    return {scheme["scheme"]: scheme["applied_bytes_total"] for scheme in shown["schemes"]}


def claims_of(wanted: Mapping[str, int]) -> dict[str, int]:
    """The same, once it is nearly as much as was seen to move, or at the end of patience.

    tierd asks a kdamond seldom where that is dear: one that samples every 10 s, every 100 s.
    """

    def told() -> bool:
        said = claims()
        return all(said[name] >= CLAIMED_SHARE * least for name, least in wanted.items())

    inside.within(told, BOUND_S)
    return claims()


def passed_bytes(ups: list[tuple[int, int]], counted: Mapping[str, Any], source: int) -> int:
    """How much of the hot sets must have gone up from `source`."""
    pages = 0
    for pair in ups:
        if source == pair[0] or source in above(ups, pair[0]):
            pages += moved_up(ups, counted[hot_name(pair)], source)
    return pages * PAGE


def moved_up(ups: list[tuple[int, int]], where: Mapping[Any, int], source: int) -> int:
    """Pages of a set that are on a node above `source`."""
    # What JSON brought here has text for keys.
    return sum(where.get(node, where.get(str(node), 0)) for node in above(ups, source))


def above(ups: list[tuple[int, int]], node: int) -> set[int]:
    """The nodes that memory of this one may come to, in one step or more."""
    found = {node}
    for _ in ups:
        found |= {target for source, target in ups if source in found}
    return found - {node}


def quotas() -> list[dict[str, str | None]]:
    found = []
    for scheme in sorted(ADMIN.glob("*/contexts/0/schemes/[0-9]*")):
        names = ("action", "quotas/bytes", "quotas/effective_bytes")
        found.append({name: inside.text(scheme / name) for name in names})
    return found


def tampered() -> dict[str, Any]:
    """What `plan --diff` says before and after somebody changes one file, and when it is back."""
    file = ADMIN / "0/contexts/0/schemes/0/access_pattern/age/max"
    before = inside.verb("plan", "--diff")
    kept = inside.text(file) or ""
    inside.put(file, "12345")
    after = inside.verb("plan", "--diff")
    inside.put(file, kept)
    again = inside.verb("plan", "--diff")
    return {
        "file": str(file),
        "before": [before.returncode, before.stdout + before.stderr],
        "after": [after.returncode, after.stdout + after.stderr],
        "again": [again.returncode, again.stdout + again.stderr],
    }


def main() -> int:
    sets = inside.begin()
    facts: dict[str, Any] = {"neighbourhood_before": inside.neighbourhood()}
    if "--override" in sys.argv:
        refused = inside.verb("run")
        facts["without_override"] = [refused.returncode, refused.stderr]
        inside.configure("tiers: [[0], [1]]\n")
    if "--kernel-tuner" in sys.argv:
        inside.configure(KERNEL_TUNER)
    plan = json.loads(inside.verb("plan", "--json").stdout)
    ups, downs = pairs(plan, "promote"), pairs(plan, "demote")
    for pair in ups:
        sets.place(hot_name(pair), pair[0], HOT_BYTES, only=True)
        sets.heat(hot_name(pair), HOT_HZ)
    slow = plan["tuner"]["loop"] == "kernel" and "(consist)" in plan["tuner"]["reason"]
    facts |= {"slow": slow, "ups": ups, "downs": downs, "tuner": plan["tuner"]}
    facts["placed"] = {hot_name(pair): sets.where(hot_name(pair)) for pair in ups}
    migrated = inside.migrated_bytes()
    daemon = inside.started()
    note("active")
    facts["first_diff"] = inside.verb("plan", "--diff").returncode
    facts["promoted"] = promoted(sets, ups)
    facts["quotas"] = quotas()
    note(f"promoted {facts['promoted']}")
    # Before what is claimed: the last pages of a set still move.
    facts["counted"] = {hot_name(pair): sets.where(hot_name(pair)) for pair in ups}
    facts["claims"] = claims_of(
        {
            f"promote-{source}-{target}": passed_bytes(ups, facts["counted"], source)
            for source, target in ups
        }
    )
    facts["migrated"] = inside.migrated_bytes() - migrated
    facts["demoted"] = {}
    for item in downwards(plan):
        way = f"{item['source_node']}-{item['target_node']}"
        facts["demoted"][way] = demoted(sets, item, slow=slow)
        note(f"demoted {facts['demoted']}")
    facts["late_claims"] = claims_of(
        {
            f"demote-{way}": told["where"][int(way.split("-")[1])] * PAGE
            for way, told in facts["demoted"].items()
        }
    )
    facts["hot_at_end"] = {hot_name(pair): sets.where(hot_name(pair)) for pair in ups}
    facts["tampered"] = tampered()
    facts["status_text"] = inside.verb("status").stdout
    facts["status"] = inside.status()
    facts["exit"] = daemon.stop()
    facts["neighbourhood_after"] = inside.neighbourhood()
    sets.close()
    inside.tell(facts)
    return 0


if __name__ == "__main__":
    sys.exit(main())
