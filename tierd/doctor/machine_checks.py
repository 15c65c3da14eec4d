"""The checks of what tierd stands on: permission, kernel, configuration, nodes, tiers, room."""

from tierd.doctor.facts import Facts, Hidden
from tierd.doctor.findings import Check, Judged, fail, ok, seen, skip, warn
from tierd.errors import ExitCode, Unsupported
from tierd.machine.observe import MARKS, Capabilities, Feature, because, require_migration
from tierd.machine.override import require_tiers
from tierd.topology import Node, Topology
from tierd.units import format_ids, format_percent, format_size

# Without these tierd still works, but as a lesser thing: it says so in its plan as well.
STEERING = (Feature.user_input_goal, Feature.effective_bytes)


def _root(facts: Facts) -> Judged:
    if facts.is_root:
        return ok("runs as root")
    return warn("not root: checks of what only root may read are skipped", "sudo tierd doctor")


def _kernel(facts: Facts) -> Judged:
    found = seen(facts.capabilities)
    release = f"Linux {facts.release or '(unknown release)'}"
    try:
        require_migration(found)
    except Unsupported as error:
        return fail(f"{release}: {error}", error.hint)
    if {Feature.paddr, Feature.migrate} & found.unknown:
        return warn(
            f"{release} has DAMON, but shows no type information: what it can do is known only "
            "once tierd starts",
            "a kernel built with CONFIG_DEBUG_INFO_BTF=y shows it in /sys/kernel/btf/vmlinux",
        )
    return ok(f"{release}: DAMON can watch physical memory and move pages between nodes")


def _features(facts: Facts) -> Judged:
    found = seen(facts.capabilities)
    if not found.has(Feature.sysfs) or found.unknown:
        return skip("cannot be told, see above")
    missing = ", ".join(f"{feature} ({MARKS[feature].since})" for feature in found.missing)
    if not missing:
        return ok(f"all {len(MARKS)} features that tierd uses are there")
    lost = _worst_loss(found)
    if lost is None:
        return ok(f"{len(found.features)} of {len(MARKS)}; missing: {missing}")
    return warn(f"missing: {missing}; {because(lost)}", f"Linux {MARKS[lost].since} or later")


def _worst_loss(found: Capabilities) -> Feature | None:
    """The feature without which neither the kernel nor tierd can steer."""
    return next((f for f in STEERING if f in found.missing), None)


def _config(facts: Facts) -> Judged:
    if isinstance(facts.config, Hidden):
        return fail("; ".join(facts.config.why.splitlines()), "correct the file; `tierd check`")
    return ok(f"valid; mode {facts.config.mode}, tuner {facts.config.tuner}")


def _memory_online(facts: Facts) -> Judged:
    topology = facts.topology
    if isinstance(topology, Hidden) and facts.is_root:
        return fail(topology.why, topology.hint)
    topology = seen(topology)
    offline = [node for node in topology.empty_nodes if node.offline_bytes]
    if offline:
        shown = ", ".join(
            f"node {node.id} has {format_size(node.offline_bytes)} of memory, all of it offline"
            for node in offline
        )
        how = "daxctl online-memory, or write online_movable to the state of its memory blocks"
        return fail(shown, how) if len(topology.tiers) < 2 else warn(shown, how)
    sizes = ", ".join(f"node {node.id}: {format_size(node.size_bytes)}" for node in topology.nodes)
    without = ", ".join(f"; node {node.id} has CPUs only" for node in topology.empty_nodes)
    return ok(f"{sizes}{without}")


def _tiers(facts: Facts) -> Judged:
    topology = facts.topology
    if isinstance(topology, Hidden):
        return skip("the nodes could not be read, see above")
    try:
        require_tiers(topology)
    except Unsupported as error:
        return fail(str(error), error.hint)
    return ok("; ".join(_origin(topology, node) for node in topology.nodes))


def _origin(topology: Topology, node: Node) -> str:
    tier = topology.tier_of(node.id)
    where = "not managed" if tier is None else f"tier {tier.rank}"
    cpus = f"CPUs {format_ids(node.cpus)}" if node.cpus else "no CPUs"
    latency = node.performance.read_latency_ns if node.performance else None
    speed = "" if latency is None else f", {latency} ns"
    return f"node {node.id}: {where}, from {node.tier_origin} ({cpus}{speed})"


def _tiers_agree(facts: Facts) -> Judged:
    topology = facts.topology
    if isinstance(topology, Hidden) or len(topology.tiers) < 2:
        return skip("there are no two tiers to compare")
    odd = [
        f"node {slow.id} (tier {below.rank}) is said to be slower than node {fast.id} "
        f"(tier {above.rank}), but has {ours} ns against {theirs} ns"
        for above, below in zip(topology.tiers, topology.tiers[1:], strict=False)
        for fast in map(topology.node, above.nodes)
        for slow in map(topology.node, below.nodes)
        if (ours := _latency(slow)) is not None
        and (theirs := _latency(fast)) is not None
        and ours < theirs
    ]
    if odd:
        return warn("; ".join(odd), "if firmware is right, set `tiers:` in the configuration")
    silent = [node.id for node in topology.nodes if _latency(node) is None]
    if silent:
        return ok(
            f"firmware gives no latency of nodes {format_ids(silent)}; nothing speaks against"
        )
    return ok("firmware's latencies (HMAT) rise from tier to tier")


def _latency(node: Node) -> int | None:
    return node.performance.read_latency_ns if node.performance else None


def _headroom(facts: Facts) -> Judged:
    topology, marks, config = facts.topology, seen(facts.watermarks), facts.config
    if isinstance(topology, Hidden) or isinstance(config, Hidden):
        return skip("nodes or configuration could not be read, see above")
    floors = {mark.node: mark.high_bytes + mark.reserve_bytes for mark in marks}
    managed = [node for node in topology.nodes if topology.demotion_targets(node.id)]
    if not managed:
        return skip("no node has a slower neighbour")
    higher = [
        f"node {node.id} keeps {format_size(floors[node.id])} free by itself "
        f"({format_percent(floors[node.id] * 10_000 / node.size_bytes)})"
        for node in managed
        if floors[node.id] * 10_000 > node.size_bytes * config.headroom_bp
    ]
    wanted = f"headroom {format_percent(config.headroom_bp)}"
    if higher:
        return warn(
            f"{'; '.join(higher)}, more than {wanted}: that counts instead",
            "nothing, or lower vm.watermark_scale_factor or vm.min_free_kbytes",
        )
    return ok(f"{wanted} lies above the kernel's watermarks on every fast node")


CHECKS = (
    Check(
        "TD001",
        "root",
        "May everything be read?",
        "`tierd doctor` works for everyone, but DAMON's files and what programs have bound are "
        "for root alone. The daemon itself must be root: DAMON's files are 0600.",
        _root,
        ExitCode.not_permitted,
    ),
    Check(
        "TD002",
        "kernel",
        "Can this kernel watch physical memory and move pages?",
        "It takes Linux 6.11 or later, built with CONFIG_DAMON_SYSFS and CONFIG_DAMON_PADDR. "
        "tierd looks for the features themselves, in the kernel's files and types, and goes by "
        "no version number: a kernel with backports counts for what it can do.",
        _kernel,
        ExitCode.unsupported,
    ),
    Check(
        "TD003",
        "features",
        "Which of DAMON's newer features are there?",
        "Each missing one is named with the release that has it. tierd does without: "
        "`tierd plan` says what is lost, and [kernel-support.md](kernel-support.md) has the whole "
        "table. Only where neither the kernel nor tierd could steer is this a warning.",
        _features,
    ),
    Check(
        "TD004",
        "config",
        "Is the configuration valid?",
        "A configuration with an error is not used, not even in part. `tierd check` shows every "
        "error with its file, line and column; [config.md](config.md) lists every key.",
        _config,
        ExitCode.config,
    ),
    Check(
        "TD005",
        "memory",
        "Is all memory online?",
        "CXL and PMEM modules often come up offline, or as a device (`daxctl list`). A node whose "
        "memory is offline cannot be in a tier. `daxctl reconfigure-device --mode=system-ram` and "
        "`daxctl online-memory` bring it up; tierd notices, and plans anew.",
        _memory_online,
        ExitCode.unsupported,
    ),
    Check(
        "TD006",
        "tiers",
        "Are there two tiers, and how did each node get its own?",
        "Tiers come from the kernel (/sys/devices/virtual/memory_tiering), which has them from "
        "firmware's HMAT table or the driver of the memory. Where firmware is silent, the kernel "
        "puts everything into one tier: then say in the configuration what you know, as in "
        "`tiers: [[0], [1]]`, fastest first. `tierd tiers` shows the result.",
        _tiers,
        ExitCode.unsupported,
    ),
    Check(
        "TD007",
        "tier order",
        "Does firmware agree that slower tiers are slower?",
        "A node in a slower tier with a lower latency than one above it is a mistake in firmware "
        "or in `tiers:`. tierd would demote to the faster node.",
        _tiers_agree,
    ),
    Check(
        "TD008",
        "headroom",
        "Can the wanted headroom be had?",
        "The kernel keeps memory free itself, up to its watermarks. A headroom below these would "
        "never be reached, so tierd takes the kernel's figure plus a little. On small nodes that "
        "is several percent, and normal. See vm.watermark_scale_factor and vm.min_free_kbytes.",
        _headroom,
    ),
)
