"""Questions about the files around DAMON: its modules, settings and memory blocks."""

from tests.sim.answers.questions import STATE, Answers, Asked, modules, stage

BLOCKS = "sys/devices/system/memory"

# Parameters whose text depends on the machine or on the work of a module.
FIGURES = {
    "kdamond_pid",
    "memory_idle_ms_percentiles",
    "aggr_interval_us",
    "estimated_memory_bandwidth",
}
# A write to these makes a module act.
ACTIONS = {"enabled", "addr_unit", "commit_inputs"}
SETTINGS = (
    "sys/kernel/mm/numa/demotion_enabled",
    "sys/kernel/mm/lru_gen/enabled",
    "proc/sys/kernel/numa_balancing",
    "proc/sys/vm/zone_reclaim_mode",
    "proc/sys/vm/swappiness",
    "proc/sys/vm/watermark_scale_factor",
)
SETTING_VALUES = (
    *("1", "0", "2", "3", "4", "5", "7", "-1", "true", "false", "Y", "n", "x", "", " 1", "1 "),
    *("0x1", "200", "201", "3001"),
)
# memory0 has two zones; the kernel took nothing of memory7 on any series.
WHOLE_BLOCK = f"{BLOCKS}/memory7"
BLOCK_FILES = ("state", "online", "phys_index", "phys_device", "removable", "valid_zones")


def exclusion(asked: Asked) -> Answers:
    """One DAMON module at a time, and none beside a kdamond of sysfs."""
    for module in modules(asked):
        stage(asked)
        folder = f"sys/module/{module}/parameters"
        enabled = f"{folder}/enabled"
        yield f"{module} files", list(asked.sysfs.listdir(folder))
        yield f"{module} on", [asked.write(enabled, "Y"), asked.read(enabled)]
        yield f"{module} on twice", asked.write(enabled, "1")
        for other in modules(asked):
            if other != module:
                path = f"sys/module/{other}/parameters/enabled"
                seen = [asked.write(path, "Y"), asked.read(path), asked.write(path, "N")]
                yield f"{module} and {other}", seen
        yield f"{module} and sysfs", [asked.write(STATE, "on"), *asked.state()]
        yield f"{module} wrong", [asked.write(enabled, "x"), asked.write(enabled, "")]
        yield f"{module} off", [asked.write(enabled, "N"), asked.read(enabled)]
        yield f"{module} and sysfs again", [asked.write(STATE, "on"), asked.write(STATE, "off")]


def parameters(asked: Asked) -> Answers:
    """Which values each parameter of a module takes."""
    for module in modules(asked):
        folder = f"sys/module/{module}/parameters"
        for name in asked.sysfs.listdir(folder):
            path = f"{folder}/{name}"
            if name in ACTIONS:
                continue
            before = asked.read(path)
            answers = [asked.write(path, value) for value in ("7", "x", "-1", "Y")]
            yield f"{module} {name}", [answers, "" if name in FIGURES else asked.read(path)]
            asked.write(path, before)


def settings(asked: Asked) -> Answers:
    """Which values the settings take, and what they read then."""
    for path in SETTINGS:
        before = asked.read(path)
        yield (
            path,
            {value: [asked.write(path, value), asked.read(path)] for value in SETTING_VALUES},
        )
        asked.write(path, before)


def blocks(asked: Asked) -> Answers:
    """A memory block of one zone and no hole, and one of two zones."""
    for number in (0, 7):
        folder = f"{BLOCKS}/memory{number}"
        yield f"block {number}", {name: asked.read(f"{folder}/{name}") for name in BLOCK_FILES}
        nodes = (0, 1)
        yield (
            f"node of block {number}",
            [
                asked.sysfs.exists(f"sys/devices/system/node/node{nid}/memory{number}")
                for nid in nodes
            ],
        )
    yield "of two zones", asked.write(f"{BLOCKS}/memory0/state", "offline")
    for word in ("x", "online", "offline", "offline", "offline\n"):
        yield (
            f"state {word!r}",
            [
                asked.write(f"{WHOLE_BLOCK}/state", word),
                *(
                    asked.read(f"{WHOLE_BLOCK}/{name}")
                    for name in ("state", "online", "valid_zones")
                ),
            ],
        )
    for word in ("1", "1", "0", "x", "1"):
        yield (
            f"online {word!r}",
            [
                asked.write(f"{WHOLE_BLOCK}/online", word),
                asked.read(f"{WHOLE_BLOCK}/state"),
            ],
        )
