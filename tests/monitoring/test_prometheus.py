"""A real Prometheus lints, tests and evaluates what ships, and scrapes a tierd.

promtool tests the rules as they ship. The running Prometheus has faster ones (hastened.py). The
tests of the scene build on one another: each leaves a tierd that is active. Alerts with a long
range, such as the deaths within an hour, resolve during the next tests.
"""

import json
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from errno import EINVAL, ENOMEM
from pathlib import Path

import pytest

from tests.monitoring.machine import COLD, COLD_MIB, FAST, HOT, HOT_HZ, MIB, NEXT, SLOW, Served
from tests.monitoring.scene import BAD, GOOD, Scene, get, scene, wait_for
from tests.monitoring.shipped import MONITORING, advised, queries, rules
from tests.prometheus import programs
from tierd.errors import ExitCode
from tierd.record.rundir import COUNTERS
from tierd.serving import client
from tierd.serving.metrics import METRICS, MetricType
from tierd.sim.memory import PageSet
from tierd.sim.workload import ChangeRate, Place, Release, Shift

pytestmark = [pytest.mark.thorough, pytest.mark.alone, pytest.mark.timeout(600)]

KDAMOND = "sys/kernel/mm/damon/admin/kdamonds/1/state"
NUMA_BALANCING = "proc/sys/kernel/numa_balancing"

# The counters may differ from the pages by this share. This share of a set has to arrive.
AGREE = 0.05
ARRIVED = 0.95

# More than the machine has, so that it fills both nodes.
ALL_MIB = 4096

# Two sets of this size are more than the fast node holds. An exchange of them takes two thirds of
# this time, by the machine's clock. So each exchange is seen to help, and tierd goes on.
JUMP_MIB = 280
JUMP_EVERY_S = 22.0

# All of these tests together take less than an hour.
EVER = "[1h]"


def promtool(*words: str, given: bytes | None = None) -> None:
    done = subprocess.run(
        [str(programs().promtool), *words],
        input=given, capture_output=True, check=False, cwd=MONITORING,
    )  # fmt: skip
    assert (done.returncode, b"") == (0, done.stderr), (done.stdout + done.stderr).decode()


def test_the_rules_are_well_formed() -> None:
    promtool("check", "rules", "--lint=all", "--lint-fatal", "alerts.yaml", "recording.yaml")


def test_every_alert_fires_and_resolves_as_it_ships() -> None:
    promtool("test", "rules", "alerts_test.yaml")


# Only a machine with swap has this counter. The simulated one has none.
OF_SWAP = "tierd_evicted_bytes_total"
# Only groups of cgroups that share the fast memory have these.
OF_GROUPS = "tierd_group_"


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with scene(tmp_path_factory.mktemp("prometheus")) as made:
        yield made


@pytest.fixture(scope="module")
def machine(live: Scene) -> Served:
    return live.served()


def test_promoted_bytes_agree_with_pages_counted_on_nodes(live: Scene, machine: Served) -> None:
    """Test a set that is hot from the start, and a second one that becomes hot later."""
    placed = machine.bytes_on(HOT, FAST) + machine.bytes_on(HOT, SLOW)
    arrives_and_is_told(live, machine, placed, before=0.0, there=0)
    before, there = told(live, "promoted"), machine.bytes_on(NEXT, FAST)
    machine.happen(Shift(HOT, NEXT, 1.0, 0))
    wait_for("the jump", lambda: machine.bytes_on(HOT, FAST) < ARRIVED * placed)
    arrives_and_is_told(live, machine, placed, before, there)


def arrives_and_is_told(
    live: Scene, machine: Served, placed: int, before: float, there: int
) -> None:
    """Wait until the set has arrived and the totals agree with the pages that moved."""
    wait_for("the pages", lambda: machine.bytes_on(HOT, FAST) >= ARRIVED * placed)
    gained = machine.bytes_on(HOT, FAST) - there
    wait_for("their count", lambda: told(live, "promoted") - before >= (1 - AGREE) * gained)
    moved = machine.moved_for_schemes_bytes()
    wait_for("all that moved", lambda: told_at_all(live) >= (1 - AGREE) * moved)
    # Pages may still move, so the total is read before the pages.
    said = told_at_all(live)
    assert said <= machine.moved_for_schemes_bytes()


def told_at_all(live: Scene) -> float:
    return told(live, "promoted") + told(live, "demoted")


def told(live: Scene, direction: str) -> float:
    return live.value(f"tierd_{direction}_bytes_total")


def test_the_endpoint_is_as_prometheus_wants_it(live: Scene) -> None:
    """The linter accepts all metrics. It does not complain that `quota_exceeded` counts windows."""
    raw = get(live.metrics)
    assert raw is not None
    promtool("check", "metrics", given=raw)


def test_every_query_of_the_dashboard_finds_samples(live: Scene) -> None:
    # One panel needs an event within its range.
    assert (live.tierd("pause"), live.tierd("resume")) == (0, 0)
    asked = [
        query.replace("$__rate_interval", "1m").replace("$instance", ".*")
        for query in queries()
        if OF_SWAP not in query and OF_GROUPS not in query
    ]
    wait_for("every panel", lambda: all(map(live.query, asked)))


def test_what_stops_a_rollout_is_understood_and_not_true(live: Scene) -> None:
    """The stop conditions of docs/monitoring.md are comparisons. The other queries show values."""
    assert len(advised()) > 5
    compare = [query for query in advised() if any(sign in query for sign in (">", "<", "=="))]
    for query in compare:
        live.query(query)  # which fails by itself where Prometheus refuses it
    # After the resume of the last test, there is no sensed memory until DAMON has sampled.
    show = [query for query in advised() if query not in compare]
    wait_for("what shows", lambda: all(map(live.query, show)))
    assert not live.query("job:tierd_degraded:ratio > 0.01 or job:tierd_up:ratio < 0.99")


def test_every_rule_is_healthy(live: Scene) -> None:
    def health() -> list[str]:
        raw = get(f"{live.prometheus}/api/v1/rules")
        assert raw is not None
        groups = json.loads(raw)["data"]["groups"]
        return [rule["health"] for group in groups for rule in group["rules"]]

    wait_for("every rule to be judged", lambda: "unknown" not in health())
    assert health() == ["ok"] * len([*rules("alerts.yaml"), *rules("recording.yaml")])


def test_what_prometheus_has_is_what_tierd_says(live: Scene) -> None:
    """The totals still grow, so the scraped total lies between two answers of tierd."""
    before = said_bytes(live)
    wait_for("a later scrape", lambda: told(live, "promoted") >= before)
    scraped = told(live, "promoted")
    assert before <= scraped <= said_bytes(live)


def said_bytes(live: Scene) -> int:
    schemes = live.status()["schemes"]
    return sum(one["applied_bytes_total"] for one in schemes if one["action"] == "promote")


def fires(live: Scene, *wanted: str, meanwhile: Callable[[], None] = lambda: None) -> None:
    """Wait until these alerts fire, and check that no others do."""
    before = live.firing()
    assert not before & set(wanted)

    def begun() -> bool:
        meanwhile()
        return live.firing() >= set(wanted)

    wait_for(f"{', '.join(wanted)} to fire", begun)
    assert live.firing() <= before | set(wanted)


def resolves(live: Scene, *wanted: str) -> None:
    """Wait until these alerts have resolved. The others may take until the end."""
    wait_for(f"{', '.join(wanted)} to resolve", lambda: not live.firing() & set(wanted))
    live.wait_until_active()


def test_a_neighbour(live: Scene, machine: Served) -> None:
    """It is there when tierd starts. tierd sees within a minute that it has gone."""
    wait_for("the alert", lambda: live.firing() == {"TierdConflict numa_balancing"})
    machine.write(NUMA_BALANCING, "0")


def test_heat_that_jumps_and_jumps(live: Scene, machine: Served) -> None:
    """Heat changes between two sets, and the fast node holds only one."""
    machine.happen(
        Place(PageSet(HOT, HOT_HZ), JUMP_MIB * MIB, (SLOW,)),
        Place(PageSet(NEXT), JUMP_MIB * MIB, (SLOW,)),
        Place(PageSet(COLD), ALL_MIB * MIB, (FAST,)),
    )
    jump_s = 0.0

    def jump() -> None:
        nonlocal jump_s
        if machine.monotonic() >= jump_s:
            machine.happen(Shift(HOT, NEXT, 1.0, 0))
            jump_s = machine.monotonic() + JUMP_EVERY_S

    fires(live, "TierdThrash", meanwhile=jump)
    # Put back the old workload for the next tests.
    machine.happen(
        Release(HOT, JUMP_MIB * MIB, 0),
        Release(NEXT, JUMP_MIB * MIB, 0),
        Release(COLD, ALL_MIB * MIB, 0),
        Place(PageSet(COLD), COLD_MIB * MIB, (FAST,)),
    )
    resolves(live, "TierdThrash")


def test_a_configuration_that_is_refused(live: Scene) -> None:
    live.configure(BAD)
    assert live.tierd("reload") == ExitCode.config
    fires(live, "TierdConfigReloadFailed")
    live.configure(GOOD)
    assert live.tierd("reload") == ExitCode.ok
    resolves(live, "TierdConfigReloadFailed")


def test_a_kdamond_that_dies_and_cannot_be_started(live: Scene, machine: Served) -> None:
    machine.refuse("kdamonds/1/state", ENOMEM)
    machine.end_kdamond(1)
    fires(live, "TierdKdamondDown 1", "TierdDegraded", "TierdKdamondDies")
    machine.heal()
    resolves(live, "TierdKdamondDown 1", "TierdDegraded")


def test_a_kernel_that_refuses(live: Scene, machine: Served) -> None:
    machine.refuse("/state", EINVAL)

    def pause() -> None:
        """Ask for more refusals, but only while there are too few.

        After each one tierd starts anew, and is not degraded until the next one.
        """
        if "TierdWritesRefused EINVAL" not in live.firing():
            client.post(live.socket, "/v1/pause")

    fires(live, "TierdWritesRefused EINVAL", "TierdDegraded", meanwhile=pause)
    machine.heal()
    resolves(live, "TierdDegraded")


def test_own_files_that_cannot_be_kept(live: Scene) -> None:
    """Not even root can replace a folder by a file."""
    paths = [folder / COUNTERS for folder in live.folders]
    wait_for("folders in their places", lambda: all(map(replaced_by_a_folder, paths)))
    fires(live, f"TierdBookkeepingFails {COUNTERS}")
    for path in paths:
        path.rmdir()
    resolves(live, f"TierdBookkeepingFails {COUNTERS}")


def replaced_by_a_folder(path: Path) -> bool:
    """Return whether it is a folder now. tierd may write its file between our two steps."""
    if not path.is_dir():
        path.unlink(missing_ok=True)
        with suppress(FileExistsError):
            path.mkdir()
    return path.is_dir()


def test_a_kernel_that_answers_no_more(live: Scene) -> None:
    """The loop waits for the kernel, but scrapes do not."""
    live.started["machine"].send_signal(signal.SIGSTOP)
    fires(live, "TierdLoopStalled")
    live.started["machine"].send_signal(signal.SIGCONT)
    resolves(live, "TierdLoopStalled")


def test_a_daemon_that_is_killed(live: Scene) -> None:
    """It is started again, then stopped and started once more."""
    live.end("tierd", signal.SIGKILL)
    fires(live, "TierdDown")
    live.start_tierd()
    resolves(live, "TierdDown")
    assert live.reason() == "adopted as it runs"
    live.end("tierd", signal.SIGTERM)
    live.start_tierd()
    wait_for("another tierd", lambda: get(live.metrics) is not None)
    live.wait_until_active()


def test_a_daemon_that_starts_again_and_again(live: Scene) -> None:
    """Each start is scraped, so TierdDown does not fire."""

    def restart() -> None:
        live.end("tierd", signal.SIGTERM)
        live.start_tierd()
        wait_for("another tierd", lambda: live.value("tierd_kdamond_up") > 0)

    fires(live, "TierdRestarts", meanwhile=restart)
    live.wait_until_active()


def test_a_fast_node_that_is_full_of_heat(live: Scene, machine: Served) -> None:
    machine.happen(
        ChangeRate(COLD, HOT_HZ, 0), ChangeRate(NEXT, HOT_HZ, 0),
        Place(PageSet("more", HOT_HZ), ALL_MIB * MIB, (FAST, SLOW)),
    )  # fmt: skip
    fires(live, "TierdFastNodeFull 0")
    machine.happen(
        Release("more", ALL_MIB * MIB, 0), ChangeRate(COLD, 0.0, 0), ChangeRate(NEXT, 0.0, 0)
    )
    resolves(live, "TierdFastNodeFull 0")


def test_every_alert_has_fired_and_is_resolved(live: Scene) -> None:
    wait_for("every alert to resolve", lambda: not live.firing())
    fired = live.query(f'max_over_time(ALERTS{{alertstate="firing"}}{EVER})')
    assert {one["metric"]["alertname"] for one in fired} == {
        rule["alert"] for rule in rules("alerts.yaml")
    }


def test_no_counter_has_ever_gone_back(live: Scene) -> None:
    """After all tests above, in which kdamonds died and a daemon was killed and stopped."""
    for metric in METRICS:
        absent = metric.full_name == OF_SWAP or metric.full_name.startswith(OF_GROUPS)
        if metric.kind is MetricType.counter and not absent:
            assert live.query(f"resets({metric.full_name}{EVER})"), metric.name
            assert live.value(f"resets({metric.full_name}{EVER})") == 0, metric.name
