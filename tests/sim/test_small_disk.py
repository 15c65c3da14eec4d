"""`tierd run` on a disk that is really full or read-only, each in a mount of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

UNSHARE = ["unshare", "--mount", "--propagation", "private"]

# Sixteen pages; the directory and a filler file use all of them.
FULL = "mount -t tmpfs -o size=64k,mode=755 none {lib}; cat /dev/zero > {lib}/filler 2>/dev/null"
READ_ONLY = "mount -t tmpfs -o ro,size=64k,mode=755 none {lib}"
RUN = "exec {tierd} run --simulate --for 3s --run-dir {run} --state-dir {lib} --config {config}"


def may_mount() -> bool:
    """Mounts in a separate namespace, which end with the process."""
    if os.geteuid() != 0:
        return False
    mounts = [*UNSHARE, "mount", "-t", "tmpfs", "none", "/mnt"]
    try:
        return subprocess.run(mounts, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


@pytest.mark.skipif(not may_mount(), reason="no mounts of its own here")
@pytest.mark.parametrize("broken", [FULL, READ_ONLY], ids=["full", "read-only"])
def test_it_runs_and_says_what_is_lost(broken: str, tmp_path: Path) -> None:
    run, lib, config = tmp_path / "run", tmp_path / "lib", tmp_path / "tierd.yaml"
    lib.mkdir()
    config.write_text("metrics: {address: off}\n")
    script = f"{broken}; {RUN}".format(
        tierd=f"{sys.executable} -m tierd", run=run, lib=lib, config=config
    )
    argv = [*UNSHARE, "sh", "-c", script]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert "Traceback" not in said
    assert "bookkeeping_failed" in said
    assert "restored" in said
    assert not (run / "state.json").exists()
