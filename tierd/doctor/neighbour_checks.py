"""The checks of other parties on this machine: who else watches, moves or binds memory."""

import re
from collections.abc import Mapping

from tierd.configuration.config import Cpusets, Promoter, ShareClass
from tierd.doctor.facts import NUMA_BALANCING_KEY, Facts, Unreadable
from tierd.doctor.findings import Check, Outcome, fail, needed, ok, skip, warn
from tierd.errors import ExitCode
from tierd.kdamonds.ownership import Standing, describe_all
from tierd.machine.cgroups import Cgroups
from tierd.machine.neighbours import NUMA_BALANCING_TIERING
from tierd.machine.processes import PLACERS, Process
from tierd.machine.sysctls import owner
from tierd.plans.groups import describe_group, match, unmatched
from tierd.plans.scope import describe_match, scope
from tierd.topology import Topology
from tierd.units import format_ids, format_size

# 64 MiB: a smaller bound program is too small to matter to a tier.
BOUND_BYTES_MIN = 64 << 20
# 3 programs: more names would hide the advice that follows them.
NAMED_MAX = 3

_LRU_GEN = re.compile(r"0x([0-9a-f]{1,8})")


def _kdamonds(facts: Facts) -> Outcome:
    found = needed(facts.kdamonds)
    match found.standing:
        case Standing.none:
            return ok("there are no kdamonds")
        case Standing.ours:
            pids = ", ".join(str(kdamond.pid) for kdamond in found.listed)
            return ok(f"all {len(found.listed)} kdamonds are tierd's (pids {pids})")
        case Standing.foreign:
            return fail(
                f"there are kdamonds that tierd did not make, so tierd refuses to start: "
                f"{describe_all(found.listed)}",
                "stop the program that made them (for damo: `damo stop`), or set "
                "`on_conflict: take_over`, which deletes them",
            )


def _modules(facts: Facts) -> Outcome:
    found = needed(facts.modules)
    on = [module.name for module in found if module.enabled]
    if not on:
        off = ", ".join(module.name for module in found) or "none"
        return ok(f"no DAMON module is on (present, but off: {off})")
    if on != ["damon_stat"]:
        name = next(name for name in on if name != "damon_stat")
        return fail(
            f"{name} is on and uses DAMON exclusively, so tierd cannot start",
            f"if nobody needs it: `echo N > /sys/module/{name}/parameters/enabled`",
        )
    if isinstance(facts.config, Unreadable) or facts.config.manage_damon_stat:
        return warn(
            "damon_stat is on and uses DAMON exclusively: tierd switches it off while tierd runs, "
            "and on again when tierd stops, so its statistics have a gap",
            "nothing to do; to keep it off, put `damon_stat.enabled=N` on the kernel's command "
            "line",
        )
    return fail(
        "damon_stat is on and uses DAMON exclusively, and the configuration says to leave it: "
        "tierd cannot start",
        "set `neighbours.damon_stat: stop`, or run "
        "`echo N > /sys/module/damon_stat/parameters/enabled`",
    )


def _numa_balancing(facts: Facts) -> Outcome:
    value = needed(facts.numa_balancing)
    if value is None:
        return _no_numa_balancing(facts)
    said = f"{NUMA_BALANCING_KEY} is {value}, {_who_set(facts, value)}"
    promoter = None if isinstance(facts.config, Unreadable) else facts.config.promoter
    if promoter is Promoter.numa_balancing:
        return ok(f"{said}; `promoter: numa-balancing` has tierd set bit 2 while it runs")
    if value & NUMA_BALANCING_TIERING and promoter is Promoter.auto:
        return ok(f"{said}; `promoter: auto` leaves promotion to the kernel where that can be")
    if value & NUMA_BALANCING_TIERING:
        return warn(
            f"{said}: the kernel promotes pages too, so tierd cannot limit how much moves in all",
            "set `promoter: numa-balancing`, so that tierd leaves promotion to the kernel, limits "
            f"it and makes the room; or run `sysctl {NUMA_BALANCING_KEY}="
            f"{value - NUMA_BALANCING_TIERING}`, and change the file or profile that sets it",
        )
    if value:
        return warn(
            f"{said}: the kernel moves pages to the CPUs that use them, also from a slow node to a "
            "fast one, so tierd is not the only one that promotes",
            f"with one socket, run `sysctl {NUMA_BALANCING_KEY}=0`; with several, measure first "
            "which is faster",
        )
    return ok(f"{said}: only tierd promotes")


def _no_numa_balancing(facts: Facts) -> Outcome:
    config = facts.config
    if isinstance(config, Unreadable) or config.promoter is not Promoter.numa_balancing:
        return ok("this kernel has no NUMA balancing")
    return fail(
        "this kernel has no NUMA balancing, and `promoter: numa-balancing` needs it: tierd cannot "
        "start",
        "set `promoter: damon`",
    )


def _who_set(facts: Facts, value: int) -> str:
    claim = owner(facts.numa_balancing_claims, str(value))
    if claim is not None:
        return f"set by {claim.where}"
    if facts.numa_balancing_claims:
        last = facts.numa_balancing_claims[-1]
        return f"set by hand or by a program, although {last.where} says {last.value}"
    return "the kernel's default, or set by hand"


def _demotion(facts: Facts) -> Outcome:
    value = needed(facts.demotion_enabled)
    if value is None:
        return ok("this kernel cannot demote in reclaim")
    if value in ("true", "1"):
        return ok(
            "demotion_enabled is on: if a fast node runs short, the kernel demotes before it swaps"
        )
    return warn(
        "demotion_enabled is off: if a fast node fills up faster than tierd can demote, the kernel "
        "swaps its pages out or drops them, although slower nodes have room",
        "set `neighbours.demotion_enabled: on`, or run "
        "`echo 1 > /sys/kernel/mm/numa/demotion_enabled`",
    )


def _zone_reclaim(facts: Facts) -> Outcome:
    value = needed(facts.zone_reclaim_mode)
    if not value:
        return ok("vm.zone_reclaim_mode is 0: if a node is full, the next node is used")
    return warn(
        f"vm.zone_reclaim_mode is {value}: on a full fast node each allocation first reclaims "
        "pages there, which makes programs wait",
        "run `sysctl vm.zone_reclaim_mode=0`",
    )


def _mglru(facts: Facts) -> Outcome:
    value = needed(facts.lru_gen)
    if value is None:
        return ok("this kernel has the classic LRU only; tierd works with it")
    found = _LRU_GEN.fullmatch(value)
    if found is None:
        return warn(
            f"/sys/kernel/mm/lru_gen/enabled has {value!r}, expected a value such as 0x0007: tierd "
            "cannot say which LRU is used",
            "please report this",
        )
    on = int(found[1], 16) & 1
    return ok(f"multi-generational LRU is {'on' if on else 'off'} ({value}); tierd works with both")


def _placers(facts: Facts) -> Outcome:
    found = [process for process in needed(facts.processes) if process.name in PLACERS]
    if not found:
        return ok(f"none of {', '.join(PLACERS)} runs")
    shown = ", ".join(f"{process.name} (pid {process.pid})" for process in found)
    return warn(
        f"{shown} moves memory too: it and tierd undo each other's work",
        "stop one of the two",
    )


def _bound(facts: Facts) -> Outcome:
    listed, topology = needed(facts.processes), facts.topology
    if isinstance(topology, Unreadable):
        return skip("the nodes could not be read: see TD005")
    heeded = _heeded(facts)
    known = tuple(node.id for node in topology.nodes)
    # A process does not tell its cgroup. What a cpuset of the unified tree binds is left alone.
    nodes = () if heeded else known
    bound = [text for process in listed if (text := _binding(process, nodes))]
    if not bound:
        more = "" if facts.is_root else "; only root can see bindings by mempolicy"
        if heeded:
            what = "1 cgroup is" if heeded == 1 else f"{heeded} cgroups are"
            return ok(f"{what} bound by a cpuset, and left alone{more}")
        return ok(f"no large program is bound to only some of the nodes{more}")
    rest = f" and {len(bound) - NAMED_MAX} more" if len(bound) > NAMED_MAX else ""
    return warn(
        f"bound to some of the nodes: {', '.join(bound[:NAMED_MAX])}{rest}; DAMON ignores that, "
        "and may move this memory to other nodes",
        "exclude the program's cgroup, as in `cgroups: {bound: {exclude: [/PATH]}}`, or "
        "`shares: {bound: {paths: [/PATH], moves: none}}` where groups have shares",
    )


def _heeded(facts: Facts) -> int:
    """Return how many cgroups are left alone because a cpuset binds them."""
    if isinstance(facts.bound, Unreadable) or isinstance(facts.config, Unreadable):
        return 0
    return len(facts.bound) if facts.config.cpusets is Cpusets.heed else 0


def _binding(process: Process, nodes: tuple[int, ...]) -> str | None:
    """Return how a program is bound; by its cpuset, if it may not use all of these nodes."""
    if process.rss_bytes < BOUND_BYTES_MIN:
        return None
    who = f"{process.name} (pid {process.pid}, {format_size(process.rss_bytes)})"
    if any(node not in process.mems_allowed for node in nodes):
        return f"{who} to nodes {format_ids(process.mems_allowed)} by its cpuset"
    if process.bound_bytes is not None and process.bound_bytes >= BOUND_BYTES_MIN:
        return f"{who} by mempolicy ({format_size(process.bound_bytes)})"
    return None


def _swap(facts: Facts) -> Outcome:
    areas = needed(facts.swaps)
    if not areas:
        return ok("no swap: cold memory stays on the slowest tier")
    if isinstance(facts.topology, Unreadable) or isinstance(facts.watermarks, Unreadable):
        return skip("the nodes could not be read: see TD005")
    zswap = ", through zswap, in compressed memory" if facts.zswap == "Y" else ""
    named = ", ".join(f"{area.name} (in memory)" if area.in_memory else area.name for area in areas)
    has = f"swap on {named}{zswap}"
    nodes = {one.node: one for one in needed(facts.nodes)}
    marks = {one.node: one.floor_bytes for one in facts.watermarks}
    room = {node: one.free_bytes - marks.get(node, 0) for node, one in nodes.items()}
    fast, roomy = _fast_nodes(facts.topology), _roomy(facts.topology, room)
    if not fast:
        return ok(f"{has}: no node has a slower one, so reclaim can only swap")
    gone = sum(nodes[node].swapped_pages for node in fast) * facts.topology.page_bytes
    since = f"; {format_size(gone)} left these nodes for swap since boot" if gone else ""
    if facts.demotion_enabled not in ("true", "1"):
        free = format_size(nodes[roomy].free_bytes)
        return warn(
            f"{has}: if node {format_ids(fast)} runs short, its cold pages are swapped out with "
            f"{free} free on node {roomy}, because demotion_enabled is off{since}",
            "set `neighbours.demotion_enabled: on`, or run "
            "`echo 1 > /sys/kernel/mm/numa/demotion_enabled`",
        )
    if room[roomy] <= 0:
        return warn(
            f"{has}: no slower node has room, so if node {format_ids(fast)} runs short, its cold "
            f"pages are swapped out{since}",
            "let tierd run with its tuner `demand`, which keeps room on the slowest node; if it "
            "does, the memory of this machine is too small for its programs",
        )
    return ok(
        f"{has}: if node {format_ids(fast)} runs short, its cold pages are demoted; node {roomy} "
        f"has {format_size(room[roomy])} of room{since}"
    )


def _fast_nodes(topology: Topology) -> tuple[int, ...]:
    """Return the nodes that have a slower one."""
    return tuple(sorted(node for tier in topology.tiers[:-1] for node in tier.nodes))


def _roomy(topology: Topology, room: Mapping[int, int]) -> int:
    """Return the node with the most room that is not in the fastest tier."""
    slower = [node for tier in topology.tiers[1:] for node in tier.nodes if node in room]
    return max(slower, key=lambda node: (room[node], -node), default=-1)


def _pressure(facts: Facts) -> Outcome:
    value = facts.pressure
    if isinstance(value, str) and "some" in value:
        return ok("this kernel measures how long programs wait for memory (PSI)")
    if value is None or isinstance(value, Unreadable):
        return warn(
            "no pressure stall information (PSI): tierd cannot see whether programs wait for "
            "memory, and so not whether headroom is too small",
            "put `psi=1` on the kernel's command line (needs CONFIG_PSI=y)",
        )
    return warn(
        f"/proc/pressure/memory has {value!r}, which tierd does not understand: it cannot see "
        "whether programs wait for memory",
        "please report this",
    )


def _thp(facts: Facts) -> Outcome:
    value = needed(facts.thp)
    if value is None:
        return ok("this kernel has no transparent huge pages")
    chosen = value.partition("[")[2].partition("]")[0]
    if chosen == "always":
        return ok(
            "transparent huge pages: always; such a page moves as a whole, so one hot 4 KiB can "
            "promote 2 MiB"
        )
    return ok(f"transparent huge pages: {chosen}")


def _cgroups(facts: Facts) -> Outcome:
    if isinstance(facts.config, Unreadable) or isinstance(facts.capabilities, Unreadable):
        return skip(
            "the configuration or the kernel's features could not be read: see TD002 and TD004"
        )
    classes = facts.config.cgroups
    if facts.config.shares:
        return _shares(facts.config.shares, needed(facts.cgroups))
    if not classes:
        return ok("no cgroup class is configured: memory of every program may move")
    found = scope(classes, needed(facts.cgroups), facts.capabilities)
    if found.degraded:
        return warn(
            "; ".join(found.degraded),
            "compare the paths with the output of `systemd-cgls`; if a class is too large, name "
            "fewer or smaller subtrees",
        )
    return ok("; ".join(describe_match(match) for match in found.matches))


def _shares(classes: tuple[ShareClass, ...], existing: Cgroups) -> Outcome:
    groups = match(classes, existing.own_bytes)
    said = [*unmatched(groups), *(f"cgroups left out: {why}" for why in existing.left_out)]
    if said:
        return warn("; ".join(said), "compare the paths with the output of `systemd-cgls`")
    return ok("; ".join(describe_group(group) for group in groups))


CHECKS = (
    Check(
        "TD009",
        "kdamonds",
        "Are there kdamonds that tierd did not make?",
        "A kdamond is a kernel thread that watches memory. The kernel has one list of them for "
        "everybody: a program that writes the length of the list deletes the kdamonds of all "
        "others. So tierd refuses to start (exit 75) while there is a kdamond that it did not "
        "make, running or not. This check says which program probably made it. With "
        "`on_conflict: take_over` in the configuration tierd deletes it.",
        _kdamonds,
        ExitCode.busy,
    ),
    Check(
        "TD010",
        "DAMON modules",
        "Does a DAMON module use DAMON exclusively?",
        "damon_stat, damon_reclaim and damon_lru_sort are modules that start their own kdamond. "
        "While one of them is on, no other kdamond can start. damon_stat only makes statistics, "
        "and newer kernels switch it on at boot. tierd switches it off while tierd runs. The "
        "other modules do work that somebody may need: tierd leaves them on, and cannot start.",
        _modules,
        ExitCode.busy,
    ),
    Check(
        "TD011",
        "NUMA balancing",
        "Does the kernel move pages too, and what set it so?",
        "With mode 2 of kernel.numa_balancing the kernel promotes pages that programs touch. "
        "That costs the programs time, and ignores how full the fast tier is. With mode 1 it "
        "moves pages to the CPUs that use them. tierd works beside both. But then its numbers "
        "show only a part of what moves. tierd reports the setting and where it comes from, and "
        "changes it only with `promoter: numa-balancing`, while it runs. The server profiles of "
        "TuneD set 0.",
        _numa_balancing,
    ),
    Check(
        "TD012",
        "demotion",
        "Does the kernel demote when memory runs short?",
        "tierd keeps some memory free on fast nodes. If programs allocate faster than tierd can "
        "demote, the kernel has to reclaim memory. With demotion_enabled it moves cold pages to "
        "a slower node; without it, it swaps them out or drops them. With "
        "`neighbours.demotion_enabled: on` in the configuration tierd switches it on while tierd "
        "runs.",
        _demotion,
    ),
    Check(
        "TD013",
        "zone reclaim",
        "If a node is full, is the next node used?",
        "With vm.zone_reclaim_mode set, an allocation on a full node first reclaims pages of that "
        "node. Only then is another node used. tierd keeps fast nodes nearly full, so programs "
        "would often wait.",
        _zone_reclaim,
    ),
    Check(
        "TD014",
        "MGLRU",
        "Which LRU does the kernel use to reclaim pages?",
        "tierd works with the classic and with the multi-generational LRU (MGLRU). This line helps "
        "to explain why two machines behave differently.",
        _mglru,
    ),
    Check(
        "TD015",
        "programs",
        "Does another program place memory?",
        "numad binds programs to nodes. memtierd and damo use DAMON, or move pages themselves. Two "
        "programs that place the same memory undo each other's work.",
        _placers,
    ),
    Check(
        "TD016",
        "bound programs",
        "Is a large program bound to only some of the nodes?",
        "DAMON moves physical pages and ignores cpusets and mempolicy. So memory of a program that "
        "is bound to one node by numactl may move to another node. If that matters, exclude the "
        "program's cgroup in the configuration. What a cpuset of the unified cgroup tree binds is "
        "left alone, unless `cpusets: ignore` is set. Programs smaller than 64 MiB "
        "are not checked. Bindings by mempolicy are checked for the 20 largest programs, and not "
        "for a program larger than 64 GiB.",
        _bound,
    ),
    Check(
        "TD017",
        "swap",
        "Is there swap, and can memory of a fast node be swapped out?",
        "A page of a fast node should be demoted, and only the coldest of the slowest node should "
        "be swapped out. The kernel does so if demotion_enabled is on (TD012) and a slower node "
        "has room. Else a fast node swaps its own cold pages. While tierd runs with its tuner "
        "`demand`, it keeps room on every node that something is demoted to: on the slowest node "
        "it evicts what is coldest there. Without swap, or with swap in memory itself (zram), "
        "this is page cache only. If pages are swapped out of a node while a slower one has room, "
        "tierd reports the event `inversion`.",
        _swap,
    ),
    Check(
        "TD018",
        "pressure",
        "Can tierd see whether programs wait for memory?",
        "Pressure stall information (PSI) tells how long programs waited for memory. tierd uses it "
        "to notice that headroom is too small. Without PSI tierd works, but cannot notice that.",
        _pressure,
    ),
    Check(
        "TD019",
        "huge pages",
        "How large are the pages that move?",
        "A transparent huge page moves as a whole. With the setting `always`, a few hot bytes can "
        "promote 2 MiB of mostly cold memory.",
        _thp,
    ),
    Check(
        "TD020",
        "cgroup classes",
        "Which cgroups do the cgroup classes of the configuration match?",
        "A class names subtrees of the cgroup tree. A path that does not exist is a warning: the "
        "cgroup may be made later, but often the path is misspelt. DAMON can filter single cgroups "
        "only, so tierd lists each cgroup of a subtree, at most 256. If there are more, it takes "
        "those with the most memory.",
        _cgroups,
    ),
)
