"""The doctor on hotplug and on pinned memory: each verdict, with the fix that fits."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from tests.fixtures import machines, topologies
from tests.fixtures.machines import TextSysfs
from tierd.clock import SystemClock
from tierd.configuration.config import Config
from tierd.doctor import facts as facts_module
from tierd.doctor import memory_checks
from tierd.doctor.facts import Facts, Unreadable
from tierd.doctor.findings import Verdict, run_check
from tierd.errors import TierdError
from tierd.kdamonds.kernel import Kernel
from tierd.machine import discovery, hotplug, processes
from tierd.machine.hotplug import Hotplug

GIB = 1 << 30
HOTPLUG, PINNED = memory_checks.CHECKS
MOVABLE = Hotplug({0: 0, 1: GIB}, "online_movable", "N", "contig-zones", by_driver=True)


def facts_of(name: str) -> Facts:
    kernel = Kernel.patient(machines.load(name).sysfs, SystemClock())
    return facts_module.read(kernel, Config, lambda: None, is_root=True)


def found(facts: Facts, told: Hotplug | Unreadable | None) -> tuple[Verdict, str, str]:
    finding = run_check(HOTPLUG, replace(facts, hotplug=told))
    return finding.verdict, finding.outcome.evidence, finding.outcome.fix


def test_movable_memory_is_as_it_should_be() -> None:
    verdict, evidence, _ = found(facts_of("two-tier-7.2"), MOVABLE)
    assert verdict is Verdict.ok
    assert "node 1: 1 GiB movable of" in evidence
    assert "memory that appears: online_movable" in evidence


def test_memory_of_the_kernel_on_a_slow_node_is_named_with_the_line_to_add() -> None:
    fixed = replace(MOVABLE, movable_bytes={0: 0, 1: 0})
    verdict, evidence, fix = found(facts_of("two-tier-7.2"), fixed)
    assert verdict is Verdict.warn
    assert "memory of node 1 came online as memory of the kernel" in evidence
    assert "memhp_default_state=online_movable" in fix
    assert 'ATTR{state}="online_movable"' in fix


def test_memory_that_was_there_at_boot_is_not_judged() -> None:
    at_boot = replace(MOVABLE, movable_bytes={}, by_driver=False, new_blocks="online")
    assert found(facts_of("two-tier-7.2"), at_boot)[0] is Verdict.ok


@pytest.mark.parametrize("word", ["online", "online_kernel"])
def test_a_setting_that_gives_new_memory_to_the_kernel_is_named(word: str) -> None:
    verdict, evidence, _ = found(facts_of("two-tier-7.2"), replace(MOVABLE, new_blocks=word))
    assert verdict is Verdict.warn
    assert f"comes online as `{word}`" in evidence


def test_offline_memory_that_stays_so_is_named() -> None:
    told = replace(MOVABLE, new_blocks="offline", by_driver=False)
    verdict, evidence, _ = found(facts_of("slow-offline-7.2"), told)
    assert verdict is Verdict.warn
    assert "stays offline until somebody" in evidence
    # Where no memory waits, `offline` is a choice like others.
    assert found(facts_of("two-tier-7.2"), told)[0] is Verdict.ok


def test_what_is_a_choice_is_told_and_not_judged() -> None:
    chosen = replace(MOVABLE, memmap_on_memory="Y", online_policy="auto-movable")
    verdict, evidence, _ = found(facts_of("two-tier-7.2"), chosen)
    assert verdict is Verdict.ok
    assert "memmap_on_memory" in evidence
    assert "auto-movable" in evidence


def test_descriptions_that_take_much_of_the_fast_memory_are_named() -> None:
    # The fast node of the machine has half a GiB. 64 bytes describe a page.
    large = replace(MOVABLE, movable_bytes={0: 0, 1: 2 * GIB})
    verdict, evidence, fix = found(facts_of("two-tier-7.2"), large)
    assert verdict is Verdict.warn
    assert "take 32 MiB of faster nodes, 6% of the fastest tier" in evidence
    assert fix == (
        "boot with memory_hotplug.memmap_on_memory=1, so that new memory holds its own descriptions"
    )
    for other in ("Y", "force", None):
        told = replace(large, memmap_on_memory=other)
        assert found(facts_of("two-tier-7.2"), told)[0] is Verdict.ok
    # What was there at boot is described where the kernel likes.
    assert found(facts_of("two-tier-7.2"), replace(large, by_driver=False))[0] is Verdict.ok


def test_both_problems_have_their_fix() -> None:
    told = replace(MOVABLE, movable_bytes={0: 0, 1: 2 * GIB}, new_blocks="online")
    verdict, evidence, fix = found(facts_of("two-tier-7.2"), told)
    assert verdict is Verdict.warn
    assert "comes online as `online`" in evidence
    assert "descriptions" in evidence
    assert "memhp_default_state=online_movable" in fix
    assert "memmap_on_memory=1" in fix


def test_a_kernel_without_hotplug_is_ok() -> None:
    assert found(facts_of("two-tier-7.2"), None)[0] is Verdict.ok
    assert found(facts_of("two-tier-7.2"), Unreadable("why"))[0] is Verdict.skip


ZONEINFO_MOVABLE = """\
Node 1, zone  Movable
  pages free     1000
        min      1
        low      2
        high     3
        spanned  262144
        present  262144
        managed  262144
"""


def text(files: Mapping[str, str]) -> TextSysfs:
    return TextSysfs(dict(files))


def test_the_settings_are_read() -> None:
    sysfs = text(
        {
            hotplug.AUTO_ONLINE: "online_movable\n",
            f"{hotplug.PARAMETERS}/memmap_on_memory": "N\n",
            f"{hotplug.PARAMETERS}/online_policy": "contig-zones\n",
            "proc/zoneinfo": ZONEINFO_MOVABLE,
            "proc/iomem": "00000000-00000000 : dax0.0\n  00000000-00000000 : System RAM (kmem)\n",
        }
    )
    assert hotplug.read(sysfs, 4096) == Hotplug(
        {1: GIB}, "online_movable", "N", "contig-zones", by_driver=True
    )
    assert hotplug.read(text({}), 4096) is None


def test_a_recorded_machine_has_its_settings() -> None:
    sysfs = machines.load("slow-offline-7.2").sysfs
    told = hotplug.read(sysfs, discovery.survey(sysfs, None).page_bytes)
    assert told is not None
    assert (told.new_blocks, told.by_driver) == ("offline", False)


STATUS = "Name:\tqemu\nVmPin:\t  {pin} kB\nVmRSS:\t 2097152 kB\nMems_allowed_list:\t0-1\n"


def test_pinned_memory_is_read_and_reported() -> None:
    listed = processes.processes(
        text(
            {
                "proc/7/status": STATUS.format(pin=1 << 20),
                "proc/8/status": STATUS.format(pin=0),
                "proc/9/status": "Name:\told\nVmRSS:\t 4 kB\nMems_allowed_list:\t0\n",
            }
        )
    )
    assert [process.pinned_bytes for process in listed] == [GIB, 0, 0]
    facts = replace(facts_of("two-tier-7.2"), processes=listed)
    finding = run_check(PINNED, facts)
    assert finding.verdict is Verdict.warn
    assert "qemu (pid 7) has pinned 1 GiB" in finding.outcome.evidence
    assert "exclude" in finding.outcome.fix
    few = replace(facts, processes=listed[1:])
    assert run_check(PINNED, few).verdict is Verdict.ok


def test_pinned_memory_in_another_form_is_an_error() -> None:
    with pytest.raises(TierdError, match="many"):
        processes.processes(text({"proc/7/status": STATUS.format(pin="many")}))


def test_a_pool_that_appears_later_makes_the_setting_matter() -> None:
    sysfs = topologies.load("09-gpu-memory").sysfs()
    facts = replace(facts_of("two-tier-7.2"), topology=discovery.survey(sysfs, None))
    told = replace(MOVABLE, by_driver=False, new_blocks="online")
    assert found(facts, told)[0] is Verdict.warn
