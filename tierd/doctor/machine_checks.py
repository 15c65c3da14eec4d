"""The checks of what tierd needs: permission, kernel, configuration, memory, tiers, headroom."""

from tierd.doctor.facts import Facts, Unreadable
from tierd.doctor.findings import Check, Outcome, fail, needed, ok, skip, warn
from tierd.errors import ExitCode, Unsupported
from tierd.machine.features import FEATURE_TABLE, Feature, because, require_migration
from tierd.machine.override import require_tiers
from tierd.topology import Node, Topology
from tierd.units import format_ids, format_percent, format_size

# Without one of these tierd cannot steer how much moves. The plan says so too.
STEERING = (Feature.user_input_goal, Feature.effective_bytes)


def _root(facts: Facts) -> Outcome:
    if facts.is_root:
        return ok("runs as root")
    return warn(
        "not root: checks that need root are skipped, so a problem may stay hidden",
        "run `sudo tierd doctor`",
    )


def _kernel(facts: Facts) -> Outcome:
    found = needed(facts.capabilities)
    release = f"Linux {facts.release or '(unknown release)'}"
    try:
        require_migration(found)
    except Unsupported as error:
        return fail(f"{release}: {error}", error.hint)
    if {Feature.paddr, Feature.migrate} & found.unknown:
        return warn(
            f"{release} has DAMON, but no type information (BTF): its features are not known "
            "before tierd starts, and tierd may refuse to start",
            "use a kernel built with CONFIG_DEBUG_INFO_BTF=y, which has /sys/kernel/btf/vmlinux",
        )
    return ok(f"{release}: DAMON can watch physical memory and move pages between nodes")


def _features(facts: Facts) -> Outcome:
    found = needed(facts.capabilities)
    if not found.has(Feature.sysfs) or found.unknown:
        return skip("the features are not known: see TD002")
    missing = ", ".join(f"{feature} ({FEATURE_TABLE[feature].since})" for feature in found.missing)
    if not missing:
        return ok(f"this kernel has all {len(FEATURE_TABLE)} features that tierd uses")
    lost = next((feature for feature in STEERING if feature in found.missing), None)
    if lost is None:
        return ok(
            f"this kernel has {len(found.features)} of {len(FEATURE_TABLE)} features; missing, "
            f"with the first Linux release that has it: {missing}"
        )
    return warn(
        f"missing: {missing}; {because(lost)}", f"use Linux {FEATURE_TABLE[lost].since} or later"
    )


def _config(facts: Facts) -> Outcome:
    if isinstance(facts.config, Unreadable):
        return fail(
            "; ".join(facts.config.why.splitlines()),
            "correct the file, then run `tierd check`: tierd does not start with an error",
        )
    return ok(f"valid; mode {facts.config.mode}, tuner {facts.config.tuner}")


def _memory_online(facts: Facts) -> Outcome:
    topology = facts.topology
    if isinstance(topology, Unreadable) and facts.is_root:
        return fail(topology.why, topology.hint)
    topology = needed(topology)
    offline = [node for node in topology.empty_nodes if node.offline_bytes]
    if offline:
        shown = ", ".join(
            f"node {node.id} has {format_size(node.offline_bytes)} of memory, all of it offline: "
            "nothing can use it"
            for node in offline
        )
        how = (
            "run `daxctl online-memory`, or write online_movable to the state of its memory blocks"
        )
        return fail(shown, how) if len(topology.tiers) < 2 else warn(shown, how)
    sizes = ", ".join(f"node {node.id}: {format_size(node.size_bytes)}" for node in topology.nodes)
    without = "".join(
        f"; node {node.id} has {'CPUs only' if node.cpus else 'no memory yet'}"
        for node in topology.empty_nodes
    )
    return ok(f"{sizes}{without}")


def _tiers(facts: Facts) -> Outcome:
    topology = facts.topology
    if isinstance(topology, Unreadable):
        return skip("the nodes could not be read: see TD005")
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


def _tiers_agree(facts: Facts) -> Outcome:
    topology = facts.topology
    if isinstance(topology, Unreadable) or len(topology.tiers) < 2:
        return skip("there are fewer than two tiers to compare")
    odd = [
        f"node {slow.id} is in slower tier {below.rank}, but firmware says it is faster than node "
        f"{fast.id} in tier {above.rank} (it has {ours} ns against {theirs} ns): tierd would "
        "demote to the faster node"
        for above, below in zip(topology.tiers, topology.tiers[1:], strict=False)
        for fast in map(topology.node, above.nodes)
        for slow in map(topology.node, below.nodes)
        if (ours := _latency(slow)) is not None
        and (theirs := _latency(fast)) is not None
        and ours < theirs
    ]
    if odd:
        return warn(
            "; ".join(odd),
            "if firmware is right, set `tiers:` in the configuration; if not, ignore this",
        )
    silent = [node.id for node in topology.nodes if _latency(node) is None]
    if silent:
        return ok(
            f"firmware gives no latency for nodes {format_ids(silent)}; the known latencies agree "
            "with the tiers"
        )
    return ok("each slower tier has a higher latency, as firmware (HMAT) gives it")


def _latency(node: Node) -> int | None:
    return node.performance.read_latency_ns if node.performance else None


def _headroom(facts: Facts) -> Outcome:
    topology, marks, config = facts.topology, needed(facts.watermarks), facts.config
    if isinstance(topology, Unreadable) or isinstance(config, Unreadable):
        return skip("the nodes or the configuration could not be read: see TD004 and TD005")
    floors = {mark.node: mark.high_bytes + mark.reserve_bytes for mark in marks}
    managed = [node for node in topology.nodes if topology.demotion_targets(node.id)]
    if not managed:
        return skip("no node can demote to a slower one")
    higher = [
        f"on node {node.id} the kernel itself keeps {format_size(floors[node.id])} free "
        f"({format_percent(floors[node.id] * 10_000 / node.size_bytes)})"
        for node in managed
        if floors[node.id] * 10_000 > node.size_bytes * config.headroom_bp
    ]
    wanted = f"headroom {format_percent(config.headroom_bp)}"
    if higher:
        return warn(
            f"{'; '.join(higher)}, more than {wanted}: tierd aims at the kernel's figure instead, "
            "so less of the fast memory is used",
            "normal on a small node; to use more of it, lower vm.watermark_scale_factor or "
            "vm.min_free_kbytes",
        )
    return ok(f"{wanted} is more than the kernel itself keeps free on every fast node")


CHECKS = (
    Check(
        "TD001",
        "root",
        "Can everything be read?",
        "Any user can run `tierd doctor`. But only root can read DAMON's files, and to which nodes "
        "a program is bound; without root these checks are skipped. The daemon must run as root.",
        _root,
        ExitCode.not_permitted,
    ),
    Check(
        "TD002",
        "kernel",
        "Can this kernel watch physical memory and move pages?",
        "tierd needs Linux 6.11 or later, built with CONFIG_DAMON_SYSFS and CONFIG_DAMON_PADDR. "
        "It looks for the features in the kernel's files and type information, not at the version "
        "number. So an older kernel with backported features works too.",
        _kernel,
        ExitCode.unsupported,
    ),
    Check(
        "TD003",
        "features",
        "Which of DAMON's newer features does this kernel have?",
        "Each missing feature is named with the first Linux release that has it. tierd works "
        "without them: `tierd plan` says what is lost, and "
        "[kernel-support.md](kernel-support.md) lists every feature. A feature without which "
        "nothing can steer how much moves is a warning.",
        _features,
    ),
    Check(
        "TD004",
        "config",
        "Is the configuration valid?",
        "tierd does not start with an error in its configuration, and uses no part of it. `tierd "
        "check` shows every error with its file, line and column; [config.md](config.md) lists "
        "every key.",
        _config,
        ExitCode.config,
    ),
    Check(
        "TD005",
        "memory",
        "Is all memory online?",
        "After boot, CXL and PMEM modules are often offline, or are a device and not memory "
        "(`daxctl list` shows it). A node whose memory is offline is in no tier. `daxctl "
        "reconfigure-device --mode=system-ram` and `daxctl online-memory` bring it online. tierd "
        "notices this and makes a new plan.",
        _memory_online,
        ExitCode.unsupported,
    ),
    Check(
        "TD006",
        "tiers",
        "Are there at least two tiers, and how did each node get its tier?",
        "The kernel assigns the tiers (/sys/devices/virtual/memory_tiering). It uses firmware's "
        "HMAT table, or the driver of the memory. If firmware gives no figures, the kernel puts "
        "all memory into one tier. Then set the tiers in the configuration, fastest first, as in "
        "`tiers: [[0], [1]]`. `tierd tiers` shows the result.",
        _tiers,
        ExitCode.unsupported,
    ),
    Check(
        "TD007",
        "tier order",
        "Does firmware agree that a slower tier is slower?",
        "A node in a slower tier should not have a lower latency than a node in a faster tier. If "
        "it has, firmware or `tiers:` is wrong. tierd would demote cold memory to the faster node.",
        _tiers_agree,
    ),
    Check(
        "TD008",
        "headroom",
        "Is the headroom larger than what the kernel itself keeps free?",
        "The kernel itself keeps memory free, up to its watermarks. A smaller headroom cannot be "
        "reached, so tierd then uses the kernel's figure plus a little. On a small node this is "
        "several percent, which is normal. vm.watermark_scale_factor and vm.min_free_kbytes set "
        "the watermarks.",
        _headroom,
    ),
)
