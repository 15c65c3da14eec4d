"""Contexts that are wrong in one way each, started and committed."""

from tests.sim.answers.questions import (
    ATTRS,
    CONTEXT,
    KDAMONDS,
    SCHEME,
    START,
    TARGET,
    Answers,
    Asked,
    stage,
)

# After this time a kdamond that ends because of a commit has ended.
DIED_S = 0.3

_INTERVALS = f"{ATTRS}/intervals"
_GOAL = f"{_INTERVALS}/intervals_goal"
_REGIONS = f"{TARGET}/regions"
_FILTER = f"{SCHEME}/filters/0"
_QUOTA_GOAL = f"{SCHEME}/quotas/goals/0"

Writes = tuple[tuple[str, object], ...]


def _regions(*edges: int) -> Writes:
    pairs = list(zip(edges[::2], edges[1::2], strict=True))
    writes: list[tuple[str, object]] = [(f"{_REGIONS}/nr_regions", len(pairs))]
    for index, (start, end) in enumerate(pairs):
        writes += [
            (f"{_REGIONS}/{index}/start", START + start),
            (f"{_REGIONS}/{index}/end", START + end),
        ]
    return tuple(writes)


def _intervals_goal(aggrs: int, least: int, most: int) -> Writes:
    return (
        (f"{_GOAL}/aggrs", aggrs),
        (f"{_GOAL}/min_sample_us", least),
        (f"{_GOAL}/max_sample_us", most),
    )


def _filter(kind: str, **files: object) -> Writes:
    return ((f"{_FILTER}/type", kind), *((f"{_FILTER}/{name}", v) for name, v in files.items()))


def _goal(metric: str, target: int, **files: object) -> Writes:
    return (
        (f"{_QUOTA_GOAL}/target_metric", metric),
        (f"{_QUOTA_GOAL}/target_value", target),
        *((f"{_QUOTA_GOAL}/{name}", v) for name, v in files.items()),
    )


def _process(operations: str, pid: int) -> Writes:
    return ((f"{CONTEXT}/operations", operations), (f"{TARGET}/pid_target", pid))


CASES: dict[str, Writes] = {
    "min_nr_regions 2": ((f"{ATTRS}/nr_regions/min", 2),),
    "min_nr_regions 3": ((f"{ATTRS}/nr_regions/min", 3),),
    "min_nr_regions above max": ((f"{ATTRS}/nr_regions/min", 1001),),
    "sample above aggregation": ((f"{_INTERVALS}/sample_us", 100_001),),
    "sample as aggregation": ((f"{_INTERVALS}/sample_us", 100_000),),
    "sample below its goal": _intervals_goal(3, 6_000, 10_000),
    "goal upside down": _intervals_goal(3, 4_000, 3_000),
    "goal that is off": _intervals_goal(0, 6_000, 10_000),
    "region empty": _regions(0, 0),
    "region inverted": _regions(0x10000, 0),
    "region of a byte": _regions(0, 1),
    "regions overlap": _regions(0, 0x20000, 0x10000, 0x30000),
    "regions unsorted": _regions(0x20000, 0x30000, 0, 0x10000),
    "regions share a page": _regions(0, 0x10800, 0x10800, 0x20000),
    "regions touch": _regions(0, 0x10000, 0x10000, 0x20000),
    "two targets": ((f"{CONTEXT}/targets/nr_targets", 2),),
    "obsolete target": ((f"{TARGET}/obsolete_target", "Y"),),
    "addr_unit 3": ((f"{CONTEXT}/addr_unit", 3),),
    "addr_unit 8": ((f"{CONTEXT}/addr_unit", 8),),
    "addr_unit 8192": ((f"{CONTEXT}/addr_unit", 8192),),
    "memcg missing": _filter("memcg", memcg_path="/nosuch"),
    "memcg unset": _filter("memcg"),
    "memcg of all": _filter("memcg", memcg_path="/"),
    "addresses inverted": _filter("addr", addr_start=9, addr_end=8),
    "addresses empty": _filter("addr", addr_start=9, addr_end=9),
    "hugepage sizes inverted": _filter("hugepage_size", min=9, max=8),
    "pattern inverted": (
        (f"{SCHEME}/access_pattern/sz/min", 9),
        (f"{SCHEME}/access_pattern/sz/max", 8),
    ),
    "goal without target": _goal("user_input", 0),
    "goal of no memcg": _goal("node_memcg_used_bp", 5, path="/nosuch"),
    "goal of no memcg, without target": _goal("node_memcg_used_bp", 0, path="/nosuch"),
    "goal of a memcg": _goal("node_memcg_used_bp", 5, path="/", nid=0),
    "goal of eligible memory": _goal("node_eligible_mem_bp", 5),
    "probe weight": (
        (f"{ATTRS}/probes/nr_probes", 1),
        (f"{ATTRS}/probes/0/weight", 2**32 - 1),
    ),
    "probe of no memcg": (
        (f"{ATTRS}/probes/nr_probes", 1),
        (f"{ATTRS}/probes/0/filters/nr_filters", 1),
        (f"{ATTRS}/probes/0/filters/0/type", "memcg"),
    ),
    "vaddr of pid 0": _process("vaddr", 0),
    "vaddr of init": _process("vaddr", 1),
    "vaddr of nobody": _process("vaddr", 99_999),
    "vaddr and eligible memory": (*_process("vaddr", 1), *_goal("node_eligible_mem_bp", 5)),
    "two fvaddr targets": (
        (f"{CONTEXT}/targets/nr_targets", 2),
        (f"{CONTEXT}/targets/1/pid_target", 1),
        *_process("fvaddr", 1),
    ),
}


def starts(asked: Asked) -> Answers:
    """`on` with a context that is wrong or unusual."""
    for name, writes in CASES.items():
        stage(asked)
        if any(asked.write(path, value) != "ok" for path, value in writes):
            yield name, "no such file or word"
            continue
        yield name, [asked.command("on"), *asked.state(), asked.command("off")]


def commits(asked: Asked) -> Answers:
    """The same contexts, committed to a kdamond that runs."""
    for name, writes in CASES.items():
        stage(asked)
        if any(asked.write(path, value) != "ok" for path, value in writes):
            continue
        stage(asked)
        asked.command("on")
        pid = asked.read(f"{KDAMONDS}/0/pid")
        for path, value in writes:
            asked.write(path, value)
        answer = asked.command("commit")
        asked.clock.sleep(DIED_S)
        same = asked.read(f"{KDAMONDS}/0/pid") == pid
        goals = asked.command("commit_schemes_quota_goals")
        yield name, [answer, same, goals, *asked.state(), asked.command("off")]
