"""The checks of who else moves or watches memory on this machine, and how that mixes with tierd."""

from tierd.doctor.facts import NUMA_BALANCING_KEY, Facts, Hidden
from tierd.doctor.findings import Check, Judged, Verdict, fail, ok, seen, skip, warn
from tierd.errors import ExitCode
from tierd.kdamonds.ownership import Standing, describe_all
from tierd.machine.neighbours import NUMA_BALANCING_TIERING
from tierd.machine.processes import PLACERS, Process
from tierd.machine.sysctls import owner
from tierd.topology import Topology
from tierd.units import format_ids, format_size

# What a tier would notice: smaller programs may be bound as they like.
BOUND_BYTES_MIN = 64 << 20
NAMED_MAX = 3

# The bits of vm.zone_reclaim_mode: any of them makes a node reclaim before it looks elsewhere.
_RECLAIM = 1


def _kdamonds(facts: Facts) -> Judged:
    found = seen(facts.kdamonds)
    match found.standing:
        case Standing.none:
            return ok("nobody has made a kdamond")
        case Standing.ours:
            pids = ", ".join(str(kdamond.pid) for kdamond in found.listed)
            return ok(f"{len(found.listed)} kdamonds, all of them tierd's (pids {pids})")
        case Standing.foreign:
            return fail(
                f"not tierd's: {describe_all(found.listed)}",
                "stop who made them (`damo stop`), or set `on_conflict: take_over`",
            )


def _modules(facts: Facts) -> Judged:
    found = seen(facts.modules)
    on = [module.name for module in found if module.enabled]
    if not on:
        off = ", ".join(module.name for module in found) or "none is there"
        return ok(f"no DAMON module is on ({off})")
    if on != ["damon_stat"]:
        name = next(name for name in on if name != "damon_stat")
        return fail(
            f"{name} is on, and has DAMON for itself",
            f"echo N > /sys/module/{name}/parameters/enabled, if nobody needs it",
        )
    if isinstance(facts.config, Hidden) or facts.config.manage_damon_stat:
        return warn(
            "damon_stat is on, and has DAMON for itself: tierd stops it while it runs, and starts "
            "it again after",
            "nothing; `damon_stat=N` on the kernel's command line would keep it off",
        )
    return fail(
        "damon_stat is on, and has DAMON for itself; the configuration says to leave it alone",
        "set `neighbours.damon_stat: stop`, or echo N > /sys/module/damon_stat/parameters/enabled",
    )


def _numa_balancing(facts: Facts) -> Judged:
    value = seen(facts.numa_balancing)
    if value is None:
        return ok("this kernel has no NUMA balancing")
    said = f"{NUMA_BALANCING_KEY} is {value}, {_who_set(facts, value)}"
    if value & NUMA_BALANCING_TIERING:
        return warn(
            f"{said}: it promotes pages as well, at a rate of its own",
            f"sysctl {NUMA_BALANCING_KEY}={value - NUMA_BALANCING_TIERING}, and where it is set",
        )
    if value:
        return warn(
            f"{said}: pages also follow the CPUs that use them, up from a slow node too",
            f"sysctl {NUMA_BALANCING_KEY}=0 leaves all of it to tierd; on several sockets, measure",
        )
    return ok(f"{said}: only tierd promotes")


def _who_set(facts: Facts, value: int) -> str:
    claim = owner(facts.numa_balancing_claims, str(value))
    if claim is not None:
        return f"set by {claim.where}"
    if facts.numa_balancing_claims:
        last = facts.numa_balancing_claims[-1]
        return f"set by hand or a program, though {last.where} says {last.value}"
    return "the kernel's default or set by hand"


def _demotion(facts: Facts) -> Judged:
    value = seen(facts.demotion_enabled)
    if value is None:
        return ok("this kernel has no demotion in reclaim")
    if value in ("true", "1"):
        return ok("demotion_enabled is on: in a burst, reclaim demotes rather than swaps")
    return warn(
        "demotion_enabled is off: in a burst faster than tierd, the kernel swaps or drops pages "
        "of the fast node, with room below",
        "echo 1 > /sys/kernel/mm/numa/demotion_enabled, or `neighbours.demotion_enabled: on`",
    )


def _zone_reclaim(facts: Facts) -> Judged:
    value = seen(facts.zone_reclaim_mode)
    if not value:
        return ok("vm.zone_reclaim_mode is 0: a full node lets allocations go to the next")
    return warn(
        f"vm.zone_reclaim_mode is {value}: a full fast node reclaims its own pages before an "
        "allocation may go below",
        "sysctl vm.zone_reclaim_mode=0",
    )


def _mglru(facts: Facts) -> Judged:
    value = seen(facts.lru_gen)
    if value is None:
        return ok("the classic LRU; tierd does not mind either")
    on = int(value, 16) & 1
    return ok(f"multi-generational LRU is {'on' if on else 'off'} ({value}); tierd works with both")


def _placers(facts: Facts) -> Judged:
    found = [process for process in seen(facts.processes) if process.name in PLACERS]
    if not found:
        return ok(f"none of {', '.join(PLACERS)} runs")
    shown = ", ".join(f"{process.name} (pid {process.pid})" for process in found)
    return warn(
        f"{shown} places memory too: two hands on one wheel", "stop it, or tierd, and compare"
    )


def _bound(facts: Facts) -> Judged:
    listed, topology = seen(facts.processes), facts.topology
    if isinstance(topology, Hidden):
        return skip("the nodes could not be read, see above")
    bound = [text for process in listed if (text := _binding(process, topology))]
    if not bound:
        more = "" if facts.is_root else "; what they bound by mempolicy, only root sees"
        return ok(f"no large program is bound to some of the nodes{more}")
    rest = f" and {len(bound) - NAMED_MAX} more" if len(bound) > NAMED_MAX else ""
    return warn(
        f"{', '.join(bound[:NAMED_MAX])}{rest}: DAMON moves pages whatever they are bound to",
        "keep them out with a class of `cgroups:` with `mode: exclude`",
    )


def _binding(process: Process, topology: Topology) -> str | None:
    if process.rss_bytes < BOUND_BYTES_MIN:
        return None
    who = f"{process.name} (pid {process.pid}, {format_size(process.rss_bytes)})"
    if any(node.id not in process.mems_allowed for node in topology.nodes):
        return f"{who} to nodes {format_ids(process.mems_allowed)} by its cpuset"
    if process.bound_bytes is not None and process.bound_bytes >= BOUND_BYTES_MIN:
        return f"{who} by mempolicy ({format_size(process.bound_bytes)})"
    return None


def _swap(facts: Facts) -> Judged:
    lines = (seen(facts.swaps) or "").splitlines()[1:]
    zswap = facts.zswap if isinstance(facts.zswap, str) else "N"
    if not lines:
        return ok("no swap: cold memory that fits nowhere else stays on the slowest tier")
    names = ", ".join(line.split()[0] for line in lines)
    how = " through zswap, in compressed memory" if zswap == "Y" else ""
    return ok(f"swap on {names}{how}: below the slowest tier, and no business of tierd's")


def _pressure(facts: Facts) -> Judged:
    value = facts.pressure
    if isinstance(value, str) and "some" in value:
        return ok("pressure stall information is there")
    if value is None or isinstance(value, Hidden):
        return warn(
            "no pressure stall information: tierd cannot see whether programs wait for memory",
            "psi=1 on the kernel's command line (CONFIG_PSI=y)",
        )
    return Judged(Verdict.warn, f"/proc/pressure/memory reads {value!r}", "psi=1")


def _thp(facts: Facts) -> Judged:
    value = seen(facts.thp)
    if value is None:
        return ok("this kernel has no transparent huge pages")
    chosen = value.partition("[")[2].partition("]")[0]
    if chosen == "always":
        return ok("transparent huge pages always: they move whole, so 4 KiB of heat lifts 2 MiB")
    return ok(f"transparent huge pages: {chosen}")


CHECKS = (
    Check(
        "TD009",
        "kdamonds",
        "Has somebody else made kdamonds?",
        "DAMON's kdamonds are one list that has no owners: whoever writes its length removes those "
        "of all others. So tierd refuses to start (exit 75) while there is one that it did not "
        "make, running or not, and this check says whose it looks like. "
        "`on_conflict: take_over` in the configuration lets tierd remove them.",
        _kdamonds,
        ExitCode.busy,
    ),
    Check(
        "TD010",
        "DAMON modules",
        "Does a DAMON module hold DAMON?",
        "damon_stat, damon_reclaim and damon_lru_sort start a kdamond of their own and take DAMON "
        "for themselves: while one is on, no other can start. damon_stat only counts, is on at "
        "boot in newer kernels, and tierd stops and restarts it. The others do work that "
        "somebody may want, so tierd leaves them alone and cannot start.",
        _modules,
        ExitCode.busy,
    ),
    Check(
        "TD011",
        "NUMA balancing",
        "Does the kernel promote pages too, and who told it to?",
        "Mode 2 of kernel.numa_balancing promotes what programs touch, in their own time, and "
        "does not know how full the fast tier is; mode 1 moves pages towards the CPUs that use "
        "them. Both work beside tierd, but then tierd is not the only one that moves pages, and "
        "its numbers are not the whole story. TuneD sets 0 in its server profiles. tierd reports "
        "the setting and where it comes from, and changes nothing.",
        _numa_balancing,
    ),
    Check(
        "TD012",
        "demotion",
        "Does the kernel demote when memory runs short?",
        "tierd keeps some room on fast nodes, and makes more at its own pace. A burst that is "
        "faster meets the kernel's reclaim: with demotion_enabled it moves cold pages down, "
        "without it swaps or drops them. tierd switches it on while it runs if the configuration "
        "says `neighbours.demotion_enabled: on`.",
        _demotion,
    ),
    Check(
        "TD013",
        "zone reclaim",
        "May allocations go to the next node?",
        "With vm.zone_reclaim_mode a full node reclaims its own pages before it lets an "
        "allocation go to another, which turns a full fast tier into stalls.",
        _zone_reclaim,
    ),
    Check(
        "TD014",
        "MGLRU",
        "Which page reclaim does the kernel use?",
        "tierd works with the classic and with the multi-generational LRU. It is listed because "
        "it explains differences between machines.",
        _mglru,
    ),
    Check(
        "TD015",
        "programs",
        "Does a program place memory as well?",
        "numad binds programs to nodes, memtierd and damo drive DAMON or move pages themselves. "
        "Two that place the same memory undo each other's work.",
        _placers,
    ),
    Check(
        "TD016",
        "bound programs",
        "Is a large program bound to some of the nodes?",
        "DAMON moves physical pages, and asks neither cpusets nor mempolicy: memory of a program "
        "that numactl or a cpuset bound to a node may be moved to another. Where that matters, "
        "exclude its cgroup in the configuration. Programs of less than 64 MiB do not count, and "
        "what programs bound by mempolicy is looked at for the twenty largest, up to 64 GiB each.",
        _bound,
    ),
    Check(
        "TD017",
        "swap",
        "Is there swap below the slowest tier?",
        "Swap and zswap take what does not fit in any tier. tierd does not steer them.",
        _swap,
    ),
    Check(
        "TD018",
        "pressure",
        "Can tierd see whether programs wait for memory?",
        "Pressure stall information (PSI) is how tierd notices that headroom is too small. Without "
        "it everything works, and that is not seen.",
        _pressure,
    ),
    Check(
        "TD019",
        "huge pages",
        "How large are the pages that move?",
        "A transparent huge page moves whole. With `always`, a little heat can lift a lot of cold "
        "memory with it.",
        _thp,
    ),
)
