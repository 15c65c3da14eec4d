"""Kdamonds let programs go first, whoever turned them on; other processes keep their niceness."""

import os
from pathlib import Path

import pytest

from tests.sim.loop import loop
from tierd.kdamonds import niceness
from tierd.loop import service
from tierd.sysfs import RealSysfs

PID = 4711


def test_each_kdamond_that_is_turned_on_is_told() -> None:
    made = loop("7.3", "two-tier")
    made.do(4, lambda: made.kernel.end_kdamond(0))
    made.run(12)
    pids = {one.pid for shown in made.snapshots for one in shown.kdamonds if one.pid > 0}
    assert len(pids) == 3, "two kdamonds, and the one that came after a death"
    assert set(made.turned_on) == pids


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "setpriority", lambda _which, pid, value: found.append((pid, value)))
    return found


def process(root: Path, name: str) -> RealSysfs:
    folder = root / "proc" / str(PID)
    folder.mkdir(parents=True)
    (folder / "comm").write_text(f"{name}\n")
    return RealSysfs(root)


def test_a_kdamond_lets_programs_first(tmp_path: Path, asked: list[tuple[int, int]]) -> None:
    niceness.let_programs_first(process(tmp_path, "kdamond.0"), PID)
    assert asked == [(PID, niceness.NICENESS)]


@pytest.mark.parametrize("name", ["redis-server", "kdamondx", "my kdamond.0"])
def test_another_process_of_this_number_keeps_its_niceness(
    tmp_path: Path, asked: list[tuple[int, int]], name: str
) -> None:
    """As in a container, where DAMON tells the machine's number."""
    niceness.let_programs_first(process(tmp_path, name), PID)
    assert not asked


def test_a_number_of_no_process_is_left_alone(tmp_path: Path, asked: list[tuple[int, int]]) -> None:
    niceness.let_programs_first(RealSysfs(tmp_path), PID)
    assert not asked


@pytest.mark.parametrize("error", [PermissionError, ProcessLookupError])
def test_a_sandbox_may_forbid_it_and_a_kdamond_may_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[OSError]
) -> None:
    def refused(_which: int, _pid: int, _value: int) -> None:
        raise error

    monkeypatch.setattr(os, "setpriority", refused)
    niceness.let_programs_first(process(tmp_path, "kdamond.1"), PID)


def test_files_that_are_elsewhere_name_no_process_of_this_machine(
    tmp_path: Path, asked: list[tuple[int, int]]
) -> None:
    process(tmp_path, "kdamond.0")
    boot_id = tmp_path / service.BOOT_ID
    boot_id.parent.mkdir(parents=True)
    boot_id.write_text("a boot\n")
    service.real_stage(tmp_path).kdamond_started(PID)
    assert not asked
