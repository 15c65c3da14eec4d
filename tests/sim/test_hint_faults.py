"""The real loop on the simulated kernel, while NUMA balancing is the one that promotes.

The simulated kernel has the settings of NUMA balancing, and no hint faults. The benchmark has them,
on a real kernel: its configuration `ally`.
"""

from dataclasses import replace
from errno import EPERM

import pytest

from tests.sim.loop import Disk, Loop, cold, hot, loop
from tierd.configuration.config import Config, Mode, OnStop, Promoter
from tierd.errors import ExitCode
from tierd.kdamonds import restore
from tierd.kdamonds.kernel import Kernel
from tierd.kdamonds.saved import SavedState
from tierd.machine.neighbours import NUMA_BALANCING
from tierd.machine.numa_balancing import PROMOTE_RATE_LIMIT
from tierd.serving.inbox import Verb
from tierd.sim.sim_kernel import SimClock
from tierd.sysfs import SysfsError

HINTED = Config(promoter=Promoter.numa_balancing)
MIB = 1 << 20
# 200 MB/s, in MiB.
LIMIT = "190"
KERNEL_LIMIT = "65536"


def settings(made: Loop) -> tuple[str, str]:
    return made.kernel.read(NUMA_BALANCING), made.kernel.read(PROMOTE_RATE_LIMIT)


def full(series: str = "7.2", config: Config = HINTED, disk: Disk | None = None) -> Loop:
    """Return a loop on a machine whose fast node is full of memory that nobody touches."""
    came = replace(hot("came", 0, 10), at_us=6_000_000)
    places = cold("cold", 0, 460), hot("hot", 1, 100), came
    return loop(series, "two-tier", *places, config=config, disk=disk, block_pages=512)


@pytest.mark.parametrize("series", ["6.12", "7.2"])
def test_hint_faults_promote_within_the_limit_and_both_settings_come_back(series: str) -> None:
    made = full(series)
    before = settings(made)
    seen: list[tuple[str, str]] = []
    made.do(10.5, lambda: seen.append(settings(made)))
    made.run(20)
    mode, limit = seen[0]
    assert before == ("1", KERNEL_LIMIT)
    assert mode == "2", "with one socket the other bit is of no use"
    assert 0 <= int(limit) <= int(LIMIT)
    assert settings(made) == before
    last = made.before(10)
    assert {one.action for one in last.schemes} == {"demote", "evict"}
    assert [one.numa_node for one in last.hint_faults] == [0]
    assert last.promoter == "numa-balancing"
    assert not last.conflicts


def asking(made: Loop, second: float, mib: int) -> None:
    """Have hint faults ask for so much, each second from that one on for 20 s."""

    def ask() -> None:
        made.kernel.memory.nodes[0].counters.pgpromote_candidate += mib * MIB // 4096

    for later in range(20):
        made.do(second + later, ask)


def test_demotion_keeps_room_for_what_hint_faults_ask_for() -> None:
    quiet, asked = full(), full()
    asking(asked, 5.0, 30)
    free = {}
    for name, made in (("quiet", quiet), ("asked", asked)):
        made.run(24)
        free[name] = made.before(23).nodes[0].free_bytes
    assert free["asked"] - free["quiet"] > 6 * MIB
    said = asked.before(23).hint_faults[0]
    assert said.rate_max_bytes_per_s > quiet.before(23).hint_faults[0].rate_max_bytes_per_s
    assert "soon after it was made to fault" in said.reason


def test_a_pause_stops_hint_faults_and_its_end_lets_them_go_on() -> None:
    made = full()
    seen: list[str] = []
    made.ask(5.5, Verb.pause)
    made.do(8, lambda: seen.append(made.kernel.read(PROMOTE_RATE_LIMIT)))
    made.ask(9, Verb.resume)
    made.do(19, lambda: seen.append(made.kernel.read(PROMOTE_RATE_LIMIT)))
    made.run(20)
    assert seen[0] == "0"
    assert int(seen[1]) > 0


def test_on_stop_keep_leaves_nothing_that_promotes_without_room() -> None:
    made = full(config=replace(HINTED, on_stop=OnStop.keep))
    made.run(10)
    assert settings(made) == ("2", "0")
    saved = made.disk.state
    assert saved is not None
    restored(made, saved)
    assert settings(made) == ("1", KERNEL_LIMIT)


def restored(made: Loop, saved: SavedState) -> restore.Restored:
    return restore.restore_all(Kernel.patient(made.kernel, SimClock(made.kernel)), saved)


def test_after_a_kill_the_limit_is_parked_and_the_next_tierd_takes_over() -> None:
    made = full(config=replace(HINTED, on_stop=OnStop.keep))
    made.run(5)
    saved = made.disk.state
    assert saved is not None
    made.kernel.write(PROMOTE_RATE_LIMIT, "57")
    restore.park_quotas(Kernel.patient(made.kernel, SimClock(made.kernel)), saved)
    assert settings(made) == ("2", "0")
    made.config = HINTED
    made.snapshots.clear()
    seen: list[tuple[str, str]] = []
    made.do(made.kernel.now_us / 1e6 + 10, lambda: seen.append(settings(made)))
    made.run(12)
    assert "adopted" in made.snapshots[0].reason
    mode, limit = seen[0]
    assert mode == "2"
    assert 0 < int(limit) <= int(LIMIT)
    assert settings(made) == ("1", KERNEL_LIMIT)


def test_what_somebody_else_has_set_is_left_at_the_end() -> None:
    made = full()
    made.do(5, lambda: made.kernel.write(NUMA_BALANCING, "0"))
    made.do(19.9, lambda: made.kernel.write(PROMOTE_RATE_LIMIT, "1000"))
    made.run(20)
    assert settings(made) == ("0", "1000")
    told = [event.text for event in made.events if event.event == "left"]
    assert len(told) == 2


def test_a_limit_that_was_set_lower_before_comes_back() -> None:
    made = full()
    made.kernel.write(PROMOTE_RATE_LIMIT, "3")
    made.run(10)
    assert settings(made) == ("1", "3")


def test_a_mode_that_was_changed_during_the_run_is_reported() -> None:
    made = full()
    made.do(5, lambda: made.kernel.write(NUMA_BALANCING, "0"))
    made.run(70)
    assert any("nothing promotes" in text for text in made.snapshots[-1].conflicts)


def test_auto_takes_what_the_operator_has_set_and_follows_it() -> None:
    made = full(config=Config(promoter=Promoter.auto))
    made.kernel.write(NUMA_BALANCING, "2")
    made.do(30, lambda: made.kernel.write(NUMA_BALANCING, "0"))
    made.run(130)
    assert made.before(29).promoter == "numa-balancing"
    assert made.snapshots[-1].promoter == "damon"
    assert {"promote", "demote"} <= {one.action for one in made.snapshots[-1].schemes}
    assert settings(made) == ("0", KERNEL_LIMIT)


def test_auto_does_not_take_its_own_mode_for_the_operators() -> None:
    """The mode is tierd's own after `promoter: numa-balancing`, so `auto` gives it back."""
    made = full()
    made.read_config = lambda: Config(promoter=Promoter.auto)
    made.ask(5, Verb.reload)
    made.run(10)
    assert made.snapshots[-1].promoter == "damon"
    assert settings(made) == ("1", KERNEL_LIMIT)


def test_observe_changes_neither_setting() -> None:
    made = full(config=replace(HINTED, mode=Mode.observe))
    seen: list[tuple[str, str]] = []
    made.do(5, lambda: seen.append(settings(made)))
    made.run(6)
    assert seen == [("1", KERNEL_LIMIT)]
    assert {one.action for one in made.snapshots[-1].schemes} == {"promote", "demote", "evict"}


@pytest.mark.parametrize("path", [NUMA_BALANCING, PROMOTE_RATE_LIMIT])
def test_a_service_that_may_not_write_says_what_to_do(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = full()
    write = made.kernel.write

    def refuse(at: str, value: str) -> None:
        if at == path:
            raise SysfsError("write", at, EPERM, value)
        write(at, value)

    monkeypatch.setattr(made.kernel, "write", refuse)
    with pytest.raises(SysfsError) as caught:
        made.run(1)
    assert "numa-balancing.conf" in caught.value.hint
    assert caught.value.exit_code is ExitCode.not_permitted
    assert settings(made) == ("1", KERNEL_LIMIT)
