"""What the guide shows without a machine: every verb works on the simulated one."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tierd import cli
from tierd.record.rundir import KERNEL_SOCKET, SOCKET

QUIET = "metrics: {address: off}\n"
SHOWN = "on the SIMULATED machine two-tier (Linux 7.3)"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return the folder of a daemon that runs on the simulated machine."""
    made = tmp_path_factory.mktemp("simulated")
    (made / "quiet.yaml").write_text(QUIET)
    words = f"run --simulate --config {made}/quiet.yaml --run-dir {made}"
    with subprocess.Popen(
        [sys.executable, "-m", "tierd", *words.split()],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as daemon:
        assert daemon.stdout is not None
        # Three lines: the name of the machine, the command for the second terminal, the first look.
        for _ in range(3):
            daemon.stdout.readline()
        yield made
        daemon.send_signal(signal.SIGTERM)
        daemon.communicate(timeout=120)
    assert daemon.returncode == 0
    assert not (made / KERNEL_SOCKET).exists()
    assert not (made / SOCKET).exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("tiers", (SHOWN, "tier 0 (fastest): memory_tier4", "promotes".upper())),
        ("plan", (SHOWN, "promote-1-0", "`tierd plan --run-dir ")),
        ("plan --writes", (f"# {SHOWN}", "nr_kdamonds = 2")),
        # The running plan is the planned one.
        ("plan --diff", (f"# {SHOWN}",)),
        ("doctor", (SHOWN, "all 2 kdamonds are tierd's")),
        ("restore --print", (f"# {SHOWN}", "echo 0 > /sys/kernel/mm/damon/admin/kdamonds/nr_")),
        ("status", ("ACTIVE: ", "the SIMULATED machine two-tier", "tierd top --run-dir ")),
        ("why node1", ("promotion from node1 to node0",)),
        ("pause", ("",)),
        ("resume", ("",)),
        ("events", ("running: ",)),
        ("history", ("reading",)),
    ],
)
def test_a_verb_finds_it(
    words: str, said: tuple[str, ...], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = ["--config", f"{folder}/quiet.yaml"] if words.startswith(("tiers", "plan")) else []
    code = cli.main([*words.split(), *config, "--run-dir", str(folder)])
    captured = capsys.readouterr()
    assert (code, captured.err) == (0, "")
    # The length of the directory's path decides where lines are wrapped.
    flowing = " ".join(captured.out.split())
    assert all(text.strip() in flowing for text in said), captured.out
    if words == "plan --diff":
        assert captured.out.count("\n") == 1


def test_another_root_is_another_machine(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["tiers", "--root", str(folder), "--run-dir", str(folder)]) == 69
    assert "SIMULATED" not in capsys.readouterr().out


def test_without_a_daemon_it_is_made(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIERD_RUN_DIR", str(tmp_path))
    assert cli.main(["tiers", "--simulate", "three-tier"]) == 0
    assert "tier 2" in capsys.readouterr().out
    assert os.listdir(tmp_path) == []  # noqa: PTH208 - names, not paths


def test_a_folder_that_cannot_be_looked_into_has_none(capsys: pytest.CaptureFixture[str]) -> None:
    """Its name may be too long, or only root may enter it."""
    cli.main(["tiers", "--run-dir", "/" + "a" * 300])
    assert "SIMULATED" not in capsys.readouterr().out
