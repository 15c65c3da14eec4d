"""The ways to place memory that are compared. Each is set up as an operator would do it.

All of them get the same cap, unless a method has no cap of that kind.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from bench.phase import PHASES

CAP_BYTES_PER_S = 20_000_000
SERIES = ("6.12", "6.16", "6.18", "7.2", "7.3")


class Kind(StrEnum):
    """What moves the pages."""

    nobody = "nobody"
    numab = "numab"
    damo = "damo"
    tierd = "tierd"
    oracle = "oracle"
    recorder = "recorder"
    reported = "reported"


@dataclass(frozen=True, slots=True)
class Configuration:
    """One way to place memory, and the first kernel series that can run it."""

    name: str
    title: str
    kind: Kind
    since: str = "6.12"
    tuner: str = ""
    promoter: str = ""

    @property
    def has_kdamonds(self) -> bool:
        """True if it uses DAMON."""
        return self.kind in (Kind.damo, Kind.tierd, Kind.recorder, Kind.reported)


CONFIGURATIONS = (
    Configuration("none", "no tiering", Kind.nobody),
    Configuration("numab2", "NUMA balancing mode 2, with demotion by reclaim", Kind.numab),
    Configuration("damo", "the cover letter's damo command, at the cap", Kind.damo, since="6.16"),
    Configuration("hmsdk", "the policy that HMSDK generates, through damo", Kind.damo),
    Configuration(
        "kernel",
        "tierd, `tuner: kernel`: `consist` until 7.0, `temporal` from 7.2 on",
        Kind.tierd,
        "6.16",
        tuner="kernel",
    ),
    Configuration("emulated", "tierd, `tuner: emulated`", Kind.tierd, tuner="emulated"),
    Configuration("demand", "tierd, `tuner: demand`", Kind.tierd, tuner="demand"),
    Configuration(
        "ally",
        "tierd, `promoter: numa-balancing`: hint faults promote, tierd demotes",
        Kind.tierd,
        tuner="demand",
        promoter="numa-balancing",
    ),
    Configuration("oracle", "move_pages of the known hot set, at the cap", Kind.oracle),
)
# It only watches, so it has no part in comparisons: bench.prediction_vm gives it a turn of its own.
RECORD = Configuration("record", "tierd record, which moves nothing", Kind.recorder)
# tierd with its own report beside it, which pauses and resumes it: bench.report_vm compares both.
REPORTED = Configuration(
    "reported", "tierd, and `tierd report --ab` beside it", Kind.reported, tuner="demand"
)
BY_NAME = {one.name: one for one in (*CONFIGURATIONS, RECORD, REPORTED)}

# The phases that read a store. What its best placement would serve is computed, so they need no
# oracle that moves pages.
STORES = tuple(one.name for one in PHASES if one.skew is not None)

# The phases that a kind does not run. The oracle knows which pages are hot, which is of no use in
# some phases. Only tierd has a daemon that can be killed.
_NOT_IN = {
    Kind.oracle: {"big-uniform", "big-zipf", "scan", "burst", "restart", *STORES},
    Kind.nobody: {"restart"},
    Kind.numab: {"restart"},
    Kind.damo: {"restart"},
}


def runs(configuration: Configuration, series: str, phase: str) -> bool:
    """True if this kernel can run the configuration, and the phase makes sense for it."""
    known = SERIES.index(series) >= SERIES.index(configuration.since)
    return known and phase not in _NOT_IN.get(configuration.kind, set())


def tierd_config(configuration: Configuration, cap: int) -> str:
    """Return the text of the configuration file for `tierd run`."""
    promoter = f"promoter: {configuration.promoter}\n" if configuration.promoter else ""
    return f"tuner: {configuration.tuner}\n{promoter}rate_limit: {cap // 1_000_000}MB/s\n"


def cover_letter(cap: int, fast: int, slow: int) -> tuple[str, ...]:
    """Return the arguments to damo from the cover letter of "auto-tune DAMOS for NUMA setups
    including tiered memory" (April 2025), with this cap in place of its 200 MB.
    """
    return tuple(
        f"""start
        --numa_node {fast} --monitoring_intervals_goal 4% 3 5ms 10s
            --damos_action migrate_cold {slow} --damos_access_rate 0% 0%
            --damos_apply_interval 1s
            --damos_quota_interval 1s --damos_quota_space {cap}B
            --damos_quota_goal node_mem_free_bp 0.5% {fast}
            --damos_filter reject young
        --numa_node {slow} --monitoring_intervals_goal 4% 3 5ms 10s
            --damos_action migrate_hot {fast} --damos_access_rate 5% max
            --damos_apply_interval 1s
            --damos_quota_interval 1s --damos_quota_space {cap}B
            --damos_quota_goal node_mem_used_bp 99.7% {fast}
            --damos_filter allow young
            --damos_nr_quota_goals 1 1 --damos_nr_filters 1 1
        --nr_targets 1 1 --nr_schemes 1 1 --nr_ctxs 1 1""".split()
    )


def hmsdk(
    fast: int, slow: int, ranges: Mapping[int, tuple[tuple[int, int], ...]]
) -> dict[str, Any]:
    """Return what gen_migpol.py of HMSDK 4.0 writes for `-g -m FAST SLOW`.

    Its quotas limit the time. Their limit of bytes is only 50 GiB in 20 s.
    """
    nothing = {"memcg_path": None, "address_range": None, "damon_target_idx": None}

    def kdamond(source: int, target: int, *, promote: bool) -> dict[str, Any]:
        regions = [{"start": str(start), "end": str(end)} for start, end in ranges[source]]
        pattern = {
            "sz_bytes": {"min": "4.000 KiB", "max": "max"},
            "nr_accesses": {"min": "5 %", "max": "100 %"}
            if promote
            else {"min": "0 %", "max": "0 %"},
            "age": {"min": "0 ns" if promote else "30 s", "max": "max"},
        }
        quotas: dict[str, Any] = {
            "time_ms": "2 s" if promote else "1 s",
            "sz_bytes": "50.000 GiB",
            "reset_interval_ms": "20 s",
            "goals": [],
            "weights": {"sz_permil": "0 %", "nr_accesses_permil": "0 %", "age_permil": "1 %"},
        }
        scheme = {
            "action": "migrate_hot" if promote else "migrate_cold",
            "target_nid": target,
            "access_pattern": pattern,
            "apply_interval_us": "0 ns",
            "quotas": quotas,
            "watermarks": {
                "metric": "none",
                "interval_us": "0 ns",
                "high_permil": "0 %",
                "mid_permil": "0 %",
                "low_permil": "0 %",
            },
            "filters": [
                {"filter_type": "young", "matching": not promote, "allow": False, **nothing}
            ],
        }
        context = {
            "ops": "paddr",
            "targets": [{"pid": None, "regions": regions}],
            "intervals": {"sample_us": "100 ms", "aggr_us": "2 s", "ops_update_us": "20 s"},
            "nr_regions": {"min": "100", "max": "10,000"},
            "schemes": [scheme],
        }
        return {"contexts": [context]}

    return {"kdamonds": [kdamond(fast, slow, promote=False), kdamond(slow, fast, promote=True)]}
