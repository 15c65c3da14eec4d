"""The Debian package under a real systemd: its whole life, and what is left after each step."""

from typing import Any

import pytest

from tests.e2e import debian
from tests.e2e.boots import told
from tests.e2e.unit import PLACES, PORTS
from tests.vm.rootfs import NEWER_SUITE, SUITE, SYSTEMD
from tierd.errors import ExitCode
from tierd.kdamonds.niceness import NICENESS
from tierd.loop import journal
from tierd.sim import machine_model

pytestmark = pytest.mark.vm

# The scraped and the counted bytes may differ by this share.
AGREE = 0.05

# The bound of the resident set, with Debian's own Python and packages.
RESIDENT_BYTES_MAX = 32 << 20

COUNTED = ("started", "after_good", "after_bad", "after_kill", "after_freeze", "after_upgrade")


@pytest.mark.parametrize(
    ("series", "suite"),
    [
        pytest.param("6.12", SUITE, marks=pytest.mark.rare),
        pytest.param("7.2", SUITE, marks=pytest.mark.rare),
        pytest.param("7.2", NEWER_SUITE, marks=pytest.mark.rare),
    ],
)
def test_the_unit_lives_through_all_that_systemd_does(series: str, suite: str) -> None:
    package = debian.package()
    files = {"tierd.deb": package, "upgrade.deb": debian.newer(package)}
    facts = told(
        series, machine_model.load("two-tier"), "unit", append=SYSTEMD, suite=suite, files=files
    )
    assert facts["install"] == 0
    assert facts["installed"] == ["disabled", "inactive"]
    assert (facts["config_is_valid"], facts["manual"]) == (0, True)
    assert facts["start"] == 0
    assert all(facts[when]["active"] == "active" for when in COUNTED)
    assert all(facts[when]["status"] == "active" for when in COUNTED)
    assert facts["status_text"].startswith("active: ")
    # The kernel lets only CAP_SYS_NICE change a kernel thread, and the drop-in gives it.
    assert facts["niceness"] == [0] * len(facts["started"]["pids"])
    assert facts["niceness_with_drop_in"] == [NICENESS] * len(facts["started"]["pids"])
    reloads(facts)
    counts(facts["promoted"])
    # After a kill, a freeze and an upgrade the same kdamonds run.
    pids = facts["after_good"]["pids"]
    assert -1 not in pids
    for when in ("after_bad", "after_kill", "after_freeze", "after_upgrade"):
        assert facts[when]["pids"] == pids, when
    for when in ("after_kill", "after_freeze", "after_upgrade"):
        assert facts[when]["reason"] == "adopted as it runs"
    assert [facts[when]["restarts"] for when in ("after_kill", "after_freeze")] == [1, 2]
    assert facts["upgrade"] == 0
    assert facts["stop"] == 0
    assert facts["stopped"] == ["inactive", "success"]
    assert facts["left_by_stop"] == facts["neighbourhood"]
    assert facts["start_bad"] != 0
    assert facts["start_bad_ended"] == ["78", "0", "failed"]
    assert facts["gave_up"] == "78"
    assert facts["left_by_giving_up"] == facts["neighbourhood"]
    counters_never_go_back(facts)
    weights = {when: facts[when]["resident"] for when in COUNTED}
    assert max(weights.values()) <= RESIDENT_BYTES_MAX, weights
    ports = {port: facts["probe"].pop(str(port)) for port in PORTS}
    assert all(ports.values()), ports
    # A file that this kernel lacks says nothing about permissions.
    assert {path: may for path, may in facts["probe"].items() if may is not None} == {
        path: may for path, may in PLACES.items() if facts["probe"][path] is not None
    }
    assert (facts["start_before_purge"], facts["restart"], facts["purge"]) == (0, 0, 0)
    who_may(facts)
    assert facts["purged"] == []
    assert facts["left_by_purge"] == facts["neighbourhood"]
    # tierd was killed twice by the test, and once by the watchdog.
    assert facts["parked"] == ["kdamonds with parked quotas until tierd is back: 0-1"] * 3
    starts = facts["journal"]
    assert len(starts) == 7
    assert {entry["MESSAGE_ID"] for entry in starts} == {journal.message_id("running")}


def who_may(facts: dict[str, Any]) -> None:
    assert facts["socket"] == [True, "0o660"]
    assert facts["as_member"] == [ExitCode.ok, ExitCode.unknown]
    assert facts["as_other"] == ExitCode.unknown


def reloads(facts: dict[str, Any]) -> None:
    assert facts["reload_good"] == 0
    assert facts["reload_bad"] != 0
    assert facts["after_bad"]["metrics"]["tierd_config_last_reload_successful"] == 0
    assert facts["reload_again"] == 0


def counts(promoted: dict[str, float]) -> None:
    """Check the scraped bytes: at least what the workload saw move, at most what the kernel moved.

    Other programs have hot pages too, so only the kernel's own count bounds the sum.
    """
    assert promoted["moved"] >= 0.9 * promoted["placed"]
    assert promoted["told"] >= (1 - AGREE) * promoted["moved"]
    assert promoted["told"] + promoted["told_down"] <= promoted["migrated"]


def counters_never_go_back(facts: dict[str, Any]) -> None:
    before: dict[str, float] = {}
    for when in COUNTED:
        now = facts[when]["metrics"]
        for name, value in before.items():
            if name.partition("{")[0].endswith("_total"):
                assert now[name] >= value, (when, name)
        before = now
    assert before['tierd_events_total{event="reload_failed"}'] == 1
