"""The doctor: the result of each check on each machine, and the cause that it names first."""

import json
import tarfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures import machines
from tests.fixtures.machines import TextSysfs
from tierd.clock import SystemClock
from tierd.configuration.config import CgroupClass, CgroupMode, Config, Promoter, ShareClass
from tierd.doctor import bundle, checkup, doctor, facts
from tierd.doctor.facts import Facts, Unreadable
from tierd.doctor.findings import Finding, Verdict
from tierd.errors import ConfigError, ExitCode
from tierd.kdamonds.kernel import Kernel
from tierd.machine.cgroups import Cgroups
from tierd.machine.features import FEATURE_TABLE, KDAMONDS, Capabilities, Feature
from tierd.machine.processes import Process
from tierd.machine.sample import SWAPPED, NodeSample
from tierd.machine.swap import SwapArea
from tierd.machine.sysctls import Claim
from tierd.record.rundir import FileError, RunDir
from tierd.sim import machine_model
from tierd.sim.sim_kernel import SimKernel
from tierd.topology import Performance

ROOT = Path(__file__).parents[3]

DAMON_STAT = "sys/module/damon_stat/parameters/enabled"
NUMA_BALANCING = "proc/sys/kernel/numa_balancing"
KDAMOND = f"{KDAMONDS}/0"
PIDS = tuple(f"proc/{pid}/status" for pid in (1, 77))

FOREIGN: Mapping[str, str] = {
    f"{KDAMONDS}/nr_kdamonds": "1",
    f"{KDAMOND}/state": "on",
    f"{KDAMOND}/pid": "77",
    f"{KDAMOND}/contexts/nr_contexts": "1",
    f"{KDAMOND}/contexts/0/operations": "vaddr",
    f"{KDAMOND}/contexts/0/schemes/nr_schemes": "0",
}

# A machine on which every check is good.
GOOD: Mapping[str, str] = {
    DAMON_STAT: "N",
    NUMA_BALANCING: "0",
    "sys/kernel/mm/numa/demotion_enabled": "true",
    "proc/sys/vm/min_free_kbytes": "2509",
    "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never",
    "sys/kernel/mm/lru_gen/enabled": "0x0007",
    "proc/swaps": "Filename\tType\n/dev/sda2 partition 1000 10 -2\n",
    "sys/module/zswap/parameters/enabled": "Y",
}


@dataclass(frozen=True)
class Case:
    """A captured machine with changes."""

    machine: str = "two-tier-7.2"
    files: Mapping[str, str] = field(default_factory=dict)
    without: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    root: bool = True
    config: Callable[[], Config] = lambda: Config(headroom_bp=1000)

    def facts(self) -> Facts:
        captured = machines.load(self.machine).sysfs
        files = {**captured.files, **GOOD, **self.files}
        hidden = frozenset(p for p in files if any(p.startswith(r) for r in self.refused))
        kept = {
            path: text
            for path, text in files.items()
            if path not in hidden and not any(path.startswith(gone) for gone in self.without)
        }
        sysfs = TextSysfs(kept, captured.folders, hidden)
        kernel = Kernel.patient(sysfs, SystemClock())
        return facts.read(kernel, self.config, lambda: None, is_root=self.root)


def found(given: Facts, check: str) -> Finding:
    return next(finding for finding in doctor.examine(given) if finding.check.id == check)


def test_a_good_machine() -> None:
    findings = doctor.examine(Case().facts())
    assert {f.check.id: f.outcome for f in findings if f.verdict is not Verdict.ok} == {}
    assert doctor.cause(findings) is None
    assert doctor.exit_code(findings) is ExitCode.ok
    assert doctor.as_text(findings).startswith("tierd can run here (23 ok)\n")


BROKEN = {
    "one tier": (Case("one-tier-7.2"), "TD006", 69, "all memory is in one tier"),
    "damon_stat on": (Case(files={DAMON_STAT: "Y"}), "TD010", 0, "damon_stat is on"),
    "foreign kdamond": (Case(files=FOREIGN), "TD009", 75, "damo, which watches a program"),
    "no DAMON": (Case(without=("sys/kernel/mm/damon",)), "TD002", 69, "DAMON has no interface"),
    "not root": (
        Case(root=False, refused=(f"{KDAMONDS}/nr_kdamonds", DAMON_STAT)),
        "TD001",
        0,
        "not root",
    ),
    "node without memory": (Case("slow-offline-7.2"), "TD005", 69, "all of it offline"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_the_right_cause_comes_first(name: str) -> None:
    case, check, code, evidence = BROKEN[name]
    findings = doctor.examine(case.facts())
    first = doctor.cause(findings)
    assert first is not None
    assert first.check.id == check
    assert evidence in first.outcome.evidence
    assert first.outcome.fix
    assert doctor.exit_code(findings) == code
    assert f"first: {check} " in doctor.as_text(findings).splitlines()[0]


def changed(given: Facts, **fields: Any) -> tuple[NodeSample, ...]:
    """Return the nodes with other figures."""
    assert not isinstance(given.nodes, Unreadable)
    return tuple(replace(one, **fields) for one in given.nodes)


def bad_config() -> Config:
    raise ConfigError("tierd.yaml:3:1: unknown key 'hedroom'")


WITHOUT_STEERING = Capabilities(
    frozenset(FEATURE_TABLE) - {Feature.user_input_goal, Feature.effective_bytes}
)
ZRAM = (SwapArea("/dev/zram0", 1 << 30, 0),)
WITHOUT_GOALS = Capabilities(frozenset(FEATURE_TABLE) - {Feature.node_goals})
BIG = 1 << 30

# The change, the check, its verdict, and a part of its text.
SECRET = Config(cgroups=(CgroupClass("payroll", CgroupMode.exclude, ("/payroll.slice",)),))

SHARED = Config(shares=(ShareClass("wages", ("/payroll.slice",), floor_bp=2000),))

VERDICTS: list[tuple[str, Callable[[Facts], Facts], str, Verdict, str]] = [
    ("no BTF", lambda f: f, "TD002", Verdict.ok, "Linux 7.2"),
    (
        "unknown features",
        lambda f: replace(
            f, capabilities=Capabilities(frozenset({Feature.sysfs}), frozenset(FEATURE_TABLE))
        ),
        "TD002",
        Verdict.warn,
        "no type information",
    ),
    (
        "nothing steers",
        lambda f: replace(f, capabilities=WITHOUT_STEERING),
        "TD003",
        Verdict.warn,
        "user_input_goal (6.9)",
    ),
    (
        "no goals of nodes",
        lambda f: replace(f, capabilities=WITHOUT_GOALS),
        "TD003",
        Verdict.ok,
        "node_goals (6.16)",
    ),
    (
        "headroom below the watermarks",
        lambda f: replace(f, config=Config(headroom_bp=1)),
        "TD008",
        Verdict.warn,
        "on node 0 the kernel itself keeps",
    ),
    (
        "tiering by hint faults, by sysctl.d",
        lambda f: replace(
            f, numa_balancing=3, numa_balancing_claims=(Claim("/etc/sysctl.d/9.conf", "3"),)
        ),
        "TD011",
        Verdict.warn,
        "is 3, set by /etc/sysctl.d/9.conf",
    ),
    (
        "set by hand in spite of tuned",
        lambda f: replace(
            f, numa_balancing=1, numa_balancing_claims=(Claim("the tuned profile oracle", "0"),)
        ),
        "TD011",
        Verdict.warn,
        "set by hand or by a program, although the tuned profile oracle says 0",
    ),
    (
        "mode 2, and another choice",
        lambda f: replace(f, numa_balancing=2),
        "TD011",
        Verdict.warn,
        "tierd cannot limit how much moves in all",
    ),
    (
        "mode 2, chosen",
        lambda f: replace(f, numa_balancing=2, config=Config(promoter=Promoter.numa_balancing)),
        "TD011",
        Verdict.ok,
        "has tierd set bit 2 while it runs",
    ),
    (
        "mode 2, adopted",
        lambda f: replace(f, numa_balancing=2, config=Config(promoter=Promoter.auto)),
        "TD011",
        Verdict.ok,
        "leaves promotion to the kernel",
    ),
    (
        "chosen, and not there",
        lambda f: replace(f, numa_balancing=None, config=Config(promoter=Promoter.numa_balancing)),
        "TD011",
        Verdict.fail,
        "has no NUMA balancing",
    ),
    (
        "no NUMA balancing",
        lambda f: replace(f, numa_balancing=None),
        "TD011",
        Verdict.ok,
        "has no NUMA balancing",
    ),
    (
        "demotion off",
        lambda f: replace(f, demotion_enabled="false"),
        "TD012",
        Verdict.warn,
        "demotion_enabled is off",
    ),
    ("zone reclaim", lambda f: replace(f, zone_reclaim_mode=1), "TD013", Verdict.warn, "is 1"),
    ("MGLRU off", lambda f: replace(f, lru_gen="0x0000"), "TD014", Verdict.ok, "is off"),
    (
        "numad",
        lambda f: replace(f, processes=(Process(9, "numad", 1, (0, 1)),)),
        "TD015",
        Verdict.warn,
        "numad (pid 9)",
    ),
    (
        "a cpuset",
        lambda f: replace(f, processes=(Process(9, "db", BIG, (0,)),)),
        "TD016",
        Verdict.warn,
        "db (pid 9, 1 GiB) to nodes 0 by its cpuset",
    ),
    (
        "a mempolicy",
        lambda f: replace(f, processes=(Process(9, "db", BIG, (0, 1), BIG // 2),)),
        "TD016",
        Verdict.warn,
        "by mempolicy (512 MiB)",
    ),
    (
        "a small one in a cpuset",
        lambda f: replace(f, processes=(Process(9, "db", 4096, (0,)),)),
        "TD016",
        Verdict.ok,
        "no large program",
    ),
    ("no swap", lambda f: replace(f, swaps=()), "TD017", Verdict.ok, "no swap"),
    ("zswap", lambda f: f, "TD017", Verdict.ok, "zswap"),
    ("zram", lambda f: replace(f, swaps=ZRAM), "TD017", Verdict.ok, "/dev/zram0 (in memory)"),
    (
        "swap from a fast node",
        lambda f: replace(f, demotion_enabled="false"),
        "TD017",
        Verdict.warn,
        "MiB free on node 1, because demotion_enabled is off",
    ),
    (
        "swap with the slow node full",
        lambda f: replace(f, nodes=changed(f, free_bytes=4096)),
        "TD017",
        Verdict.warn,
        "no slower node has room",
    ),
    (
        "pages that went to swap",
        lambda f: replace(f, nodes=changed(f, counters=((SWAPPED, 256),))),
        "TD017",
        Verdict.ok,
        "1 MiB left these nodes for swap since boot",
    ),
    ("no PSI", lambda f: replace(f, pressure=None), "TD018", Verdict.warn, "psi=1"),
    (
        "huge pages always",
        lambda f: replace(f, thp="[always] madvise never"),
        "TD019",
        Verdict.ok,
        "2 MiB",
    ),
    ("no class", lambda f: f, "TD020", Verdict.ok, "no cgroup class"),
    (
        "a misspelt class",
        lambda f: replace(f, config=SECRET),
        "TD020",
        Verdict.warn,
        "cgroup class payroll: none of /payroll.slice exists now",
    ),
    (
        "a class and what it stands for",
        lambda f: replace(f, config=SECRET, cgroups=Cgroups({"/payroll.slice": 1})),
        "TD020",
        Verdict.ok,
        "cgroup class payroll (exclude /payroll.slice): 1 cgroup now: /payroll.slice",
    ),
    (
        "a class of too many",
        lambda f: replace(
            f,
            config=SECRET,
            cgroups=Cgroups({f"/payroll.slice/{number}": 1 for number in range(257)}),
        ),
        "TD020",
        Verdict.warn,
        "more than 256 cgroups",
    ),
    (
        "a group without cgroups",
        lambda f: replace(f, config=SHARED),
        "TD020",
        Verdict.warn,
        "shares: wages: no cgroup matches /payroll.slice now",
    ),
    (
        "a group and what it stands for",
        lambda f: replace(f, config=SHARED, cgroups=Cgroups({"/payroll.slice": 1})),
        "TD020",
        Verdict.ok,
        "wages: /payroll.slice (floor 20%, weight 100): 1 cgroup now",
    ),
]


@pytest.mark.parametrize(
    ("change", "check", "verdict", "text"),
    [row[1:] for row in VERDICTS],
    ids=[row[0] for row in VERDICTS],
)
def test_verdicts(
    change: Callable[[Facts], Facts], check: str, verdict: Verdict, text: str
) -> None:
    outcome = found(change(Case().facts()), check).outcome
    assert outcome.verdict is verdict
    assert text in f"{outcome.evidence} {outcome.fix}"


def test_a_bad_configuration_fails_and_the_rest_is_still_judged() -> None:
    findings = doctor.examine(Case(config=bad_config).facts())
    first = doctor.cause(findings)
    assert first is not None
    assert (first.check.id, doctor.exit_code(findings)) == ("TD004", ExitCode.config)
    assert found(Case(config=bad_config).facts(), "TD006").verdict is Verdict.ok


def test_another_module_that_holds_damon_is_a_failure() -> None:
    case = Case(files={"sys/module/damon_reclaim/parameters/enabled": "Y"})
    assert "damon_reclaim is on" in found(case.facts(), "TD010").outcome.evidence
    assert found(case.facts(), "TD010").verdict is Verdict.fail


def test_damon_stat_that_is_to_be_left_alone_is_a_failure() -> None:
    case = Case(files={DAMON_STAT: "Y"}, config=lambda: Config(manage_damon_stat=False))
    assert found(case.facts(), "TD010").verdict is Verdict.fail


def test_a_slower_tier_that_is_faster_is_noticed() -> None:
    given = Case().facts()
    assert not isinstance(given.topology, Unreadable)
    fast, slow = given.topology.nodes
    swapped = replace(slow, performance=Performance(1, 1, None, None))
    given = replace(given, topology=replace(given.topology, nodes=(fast, swapped)))
    outcome = found(given, "TD007").outcome
    assert outcome.verdict is Verdict.warn
    assert "has 1 ns against 100 ns" in outcome.evidence


def test_what_is_hidden_is_skipped_with_the_way_to_see_it() -> None:
    case = Case(root=False, refused=(KDAMONDS, "sys/module/"))
    for check in ("TD009", "TD010"):
        outcome = found(case.facts(), check).outcome
        assert (outcome.verdict, outcome.fix) == (Verdict.skip, "run `sudo tierd doctor`")


@pytest.mark.parametrize("series", ["6.12", "6.16", "6.18", "7.2", "7.3"])
@pytest.mark.parametrize("name", machine_model.names())
def test_every_simulated_machine_can_be_examined(series: str, name: str) -> None:
    kernel = SimKernel(series, machine_model.load(name), block_pages=512)
    given = facts.read(Kernel.patient(kernel, SystemClock()), Config, lambda: None, is_root=True)
    findings = doctor.examine(given)
    assert (doctor.exit_code(findings) == 0) == (name != "one-tier"), doctor.as_text(findings)
    assert not [
        f for f in findings if f.verdict in (Verdict.warn, Verdict.fail) and not f.outcome.fix
    ]


def test_ids_are_apart_and_the_page_is_made_from_them() -> None:
    ids = [check.id for check in doctor.CHECKS]
    assert len(set(ids)) == len(ids)
    page = (ROOT / doctor.PAGE).read_text(encoding="utf-8")
    assert page == doctor.page(), "run tools/write_doctor_docs.py"


def test_the_document_points_at_the_page() -> None:
    document = doctor.as_document(doctor.examine(Case("one-tier-7.2").facts()))
    assert (document["schema"], document["can_run"]) == ("tierd.doctor/1", False)
    assert document["cause"] == "TD006"
    assert document["checks"][0]["page"] == "docs/doctor.md#td001"
    json.dumps(document)


# The report for a bug tracker


def packed(tmp_path: Path, case: Case) -> dict[str, str]:
    captured = machines.load(case.machine).sysfs
    sysfs = TextSysfs({**captured.files, **GOOD, **case.files}, captured.folders)
    folder = RunDir(tmp_path / "run", tmp_path / "state")
    looked = checkup.look(sysfs, SystemClock(), folder, case.config, is_root=True)
    path = tmp_path / "report.tar.gz"
    checkup.write_bundle(looked, folder, path)
    with tarfile.open(path) as archive:
        # A folder has no text. Files are read from the archive, because `extractall(filter=)` needs
        # Python 3.11.4.
        files = {entry: archive.extractfile(entry) for entry in archive}
        return {
            f"{entry.name}/" if file is None else entry.name: (
                "" if file is None else file.read().decode(errors="replace")
            )
            for entry, file in files.items()
        }


def test_the_report_has_no_names_in_it(tmp_path: Path) -> None:
    status = "Name:\tsecretd\nVmRSS:\t 1048576 kB\nMems_allowed_list:\t0\n"
    files = {
        "proc/4711/status": status,
        "proc/iomem": "00000000-3fffffff : System RAM\n  01000000-01ffffff : Kernel code\n",
        "proc/swaps": "Filename\n/dev/mapper/secretd-swap partition 1000 10 -2\n",
        "sys/fs/cgroup/cgroup.procs": "",
        "sys/fs/cgroup/payroll.slice/memory.current": "4096\n",
        "sys/fs/cgroup/payroll.slice/secretd-\udcff/memory.current": "4096\n",
    }
    case = Case(files=files, config=lambda: SECRET)
    report = packed(tmp_path, case)
    assert "program-1" in report["doctor.txt"]
    everything = "\n".join([*report, *report.values()])
    assert not [
        word for word in ("secretd", "payroll", "4711", "Kernel code") if word in everything
    ]
    assert report["README.txt"] == bundle.README


def test_the_report_holds_the_machine(tmp_path: Path) -> None:
    report = packed(tmp_path, Case())
    assert "promote-1-0" in report["plan.txt"]
    assert "mode: manage" in report["config.yaml"]
    again = machines.load("two-tier-7.2").sysfs
    assert (
        report["machine/sys/devices/system/node/node1/distance"]
        == again.read("sys/devices/system/node/node1/distance") + "\n"
    )
    assert any(name.startswith("machine/sys/devices/system/node/node1/") for name in report)


def test_a_report_of_a_machine_without_a_plan_says_why(tmp_path: Path) -> None:
    assert (
        "no plan: all memory is in one tier" in packed(tmp_path, Case("one-tier-7.2"))["plan.txt"]
    )


def test_a_report_replaces_no_file(tmp_path: Path) -> None:
    path = tmp_path / "there"
    path.write_text("mine")
    with pytest.raises(FileError, match="exists already"):
        bundle.write(path, {}, ())
    assert path.read_text() == "mine"
