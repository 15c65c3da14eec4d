"""In a guest: `tierd run`, hot sets below and cold memory above, on every pair of nodes.

Promotion comes first, while the fast nodes have room. Then each fast node is filled with cold
memory, and its goal of free memory makes demotion work. The workload counts all moves.
"""

import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from tests.contract.sets import PAGE, WorkloadSets
from tests.e2e import inside
from tests.e2e.inside import ADMIN, MIB, note

HOT_BYTES = 24 * MIB
HOT_HZ = 60.0
ARRIVED_SHARE = 0.9
CLAIMED_SHARE = 0.95

# Fewer demoted pages than this may be chance.
DEMOTED_PAGES_MIN = 256

# A node is filled with at most this many sets, one after the other. The workload can hold 64.
FILLS_MAX = 28
PIECE_BYTES = 64 * MIB

BOUND_S = 150.0

# The bound for hot sets to arrive. On an idle machine they take half a minute, or a minute for two
# steps.
ARRIVAL_S_MAX = 450.0

# The bound for a quota to double. It grows by a twentieth or a tenth in each window, so it doubles
# in ten to fifteen windows. A window is no shorter than a sample, and samples get 10 s apart if
# almost nothing is hot.
GROWTH_S_MAX = 450.0

# With the tuner `consist` of the kernel a quota begins at one byte. In each window it grows by the
# share that is missing of the goal (damon_feed_loop_next_input()). tierd keeps little more memory
# free than kswapd does, so with the defaults that share is a tenth or less, and demotion takes many
# minutes to begin. With a goal that is far away it begins soon enough for a test.
KERNEL_TUNER = "tuner: kernel\n"
FAR_GOAL = KERNEL_TUNER + "headroom: 40%\n"


def by_region(plan: Mapping[str, Any], direction: str) -> list[Mapping[str, Any]]:
    """Return the items of one direction. Those that go by page have the same nodes.

    Fallbacks move nothing while nearer nodes have room (fallbacks.py).
    """
    return [
        item
        for item in plan["items"]
        if item["direction"] == direction and item["grain"] == "regions" and not item["fallback"]
    ]


def pairs(plan: Mapping[str, Any], direction: str) -> list[tuple[int, int]]:
    return [(item["source_node"], item["target_node"]) for item in by_region(plan, direction)]


def schemes_that_may_move(plan: Mapping[str, Any]) -> int:
    """Return how many schemes have an action that moves pages.

    Sweeps that clear or reset pages have one too, though their filters reject every page.
    """
    items = plan["items"]
    if all(item["grain"] == "regions" for item in items):
        return len(items)
    clear = {item["source_node"] for item in items if item["direction"] == "promote"}
    reset = {item["source_node"] for item in items if item["direction"] == "demote"}
    return len(items) + len(clear) + len(reset)


def downwards(plan: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the items that demote, the fastest node first.

    New pages are young, so tierd would promote them if a faster node still had room.
    """
    downs = pairs(plan, "demote")
    items = by_region(plan, "demote")
    return sorted(items, key=lambda item: item["source_node"] in {target for _, target in downs})


def hot_name(pair: tuple[int, int]) -> str:
    return f"hot-{pair[0]}-{pair[1]}"


def promoted(sets: WorkloadSets, ways: list[tuple[int, int]]) -> dict[str, Any]:
    """Wait until the hot set of each pair is above its node. Return where it was at the last look.

    The test judges that look, because a moment later some pages may be elsewhere.
    """
    began_s = time.monotonic()
    where: dict[str, Mapping[int, int]] = {}

    def looked() -> bool:
        where.update({hot_name(pair): sets.where(hot_name(pair)) for pair in ways})
        return arrived(ways, where)

    inside.within(looked, ARRIVAL_S_MAX)
    return {"where": where, "took_s": round(time.monotonic() - began_s, 1)}


def arrived(ups: list[tuple[int, int]], where: Mapping[str, Mapping[Any, int]]) -> bool:
    """True if the hot set of each pair is above its node, except for a few pages."""
    wanted = ARRIVED_SHARE * HOT_BYTES / PAGE
    return all(moved_up(ups, where[hot_name(pair)], pair[0]) >= wanted for pair in ups)


def demoted(sets: WorkloadSets, item: Mapping[str, Any], *, slow: bool) -> dict[str, Any]:
    """Fill a node with cold memory until less is free than should be, and see where it goes.

    The pages are faulted in on this node only, so each page that is elsewhere later was moved.
    Other memory may be colder and go first, so the node is filled again until some of them go too.
    """
    source, target = item["source_node"], item["target_node"]
    wanted_free = inside.total_bytes(source) * item["aim"]["target_bp"] // 10_000
    placed: dict[str, int] = {}
    where: Counter[int] = Counter()

    def fill() -> None:
        # The sets leave a little less free than the headroom, so that demotion acts. Other pages
        # may come while a set is made. So a set takes half of the room, and the next one looks
        # anew: without memory the kernel would end the workload.
        while len(placed) < FILLS_MAX:
            room = inside.free_bytes(source) - wanted_free * 7 // 8
            if room < MIB:
                return
            name = f"cold-{source}-{target}-{len(placed)}"
            placed[name] = min(max(MIB, room // 2), PIECE_BYTES) // PAGE
            sets.place(name, source, placed[name] * PAGE, only=True)

    def refill() -> None:
        if inside.free_bytes(source) > wanted_free:
            fill()

    def gone() -> bool:
        refill()
        # The test judges the last look.
        where.clear()
        for name in placed:
            where.update(sets.where(name))
        return where[target] >= DEMOTED_PAGES_MIN

    fill()
    grown = grown_quota(item, refill) if slow else None
    if slow:
        inside.configure(FAR_GOAL)
        assert inside.verb("reload").returncode == 0
    began_s = time.monotonic()
    inside.within(gone, BOUND_S)
    took_s = round(time.monotonic() - began_s, 1)
    return {"pages": sum(placed.values()), "where": where, "took_s": took_s, "grown": grown}


def grown_quota(item: Mapping[str, Any], refill: Callable[[], None]) -> int:
    """Return the scheme's effective quota when it has grown from the one byte that it began with.

    It shrinks to a byte again while more memory is free than the goal asks for.
    """
    scheme = ADMIN / f"{item['kdamond']}/contexts/0/schemes/{item['scheme']}"

    def effective() -> int:
        return int(inside.text(scheme / "quotas/effective_bytes") or 0)

    def looked() -> bool:
        refill()
        return effective() > 1

    inside.within(looked, GROWTH_S_MAX)
    return effective()


def claims() -> dict[str, int]:
    """Return the bytes that each scheme claims to have moved, with its sweep if it has one."""
    found: Counter[str] = Counter()
    for scheme in inside.status()["schemes"]:
        found[scheme["scheme"].replace("-pages-", "-")] += scheme["applied_bytes_total"]
    return dict(found)


def claims_of(wanted: Mapping[str, int]) -> dict[str, int]:
    """Wait until the claims are nearly as large as what was seen to move, and return them.

    The wait has a bound. tierd seldom reads the statistics of a kdamond that samples seldom: every
    100 s for samples every 10 s.
    """

    def told() -> bool:
        said = claims()
        return all(said[name] >= CLAIMED_SHARE * least for name, least in wanted.items())

    inside.within(told, BOUND_S)
    return claims()


def passed_bytes(ups: list[tuple[int, int]], counted: Mapping[str, Any], source: int) -> int:
    """Return how many bytes of the hot sets must have gone up from `source`."""
    pages = 0
    for pair in ups:
        if source == pair[0] or source in above(ups, pair[0]):
            pages += moved_up(ups, counted[hot_name(pair)], source)
    return pages * PAGE


def moved_up(ups: list[tuple[int, int]], where: Mapping[Any, int], source: int) -> int:
    """Return how many pages of a set are on a node above `source`."""
    # Keys that come from JSON are text.
    return sum(where.get(node, where.get(str(node), 0)) for node in above(ups, source))


def above(ups: list[tuple[int, int]], node: int) -> set[int]:
    """Return the nodes that memory of this node can be promoted to, in one step or more."""
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
    """Return what `plan --diff` says before one file is changed, after it, and when it is back."""
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
    facts["schemes_that_may_move"] = schemes_that_may_move(plan)
    facts["placed"] = {hot_name(pair): sets.where(hot_name(pair)) for pair in ups}
    migrated = inside.migrated_bytes()
    daemon = inside.started()
    note("active")
    facts["first_diff"] = inside.verb("plan", "--diff").returncode
    facts["promoted"] = promoted(sets, ups)
    facts["quotas"] = quotas()
    note(f"promoted {facts['promoted']}")
    # This is read before the claims, because the last pages of a set still move.
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
