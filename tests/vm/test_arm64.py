"""What an arm64 guest is booted with, without a boot."""

import subprocess
from pathlib import Path

import pytest

from tests.vm import arm64, guest, kernels
from tests.vm.errors import Missing
from tierd.sim import machine_model


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give the test a cache of its own."""
    monkeypatch.setenv("TIERD_VM_CACHE", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("size", [0, 1, 2, 3, 4, 1000])
def test_a_file_is_joined_to_an_archive(tmp_path: Path, size: int) -> None:
    (tmp_path / "first").write_bytes(b"1")
    try:
        cpio = [kernels.static_busybox(), "cpio"]
    except Missing as error:
        pytest.skip(str(error))
    first = subprocess.run(
        [*cpio, "-o", "-H", "newc"], input=b"first", cwd=tmp_path, capture_output=True, check=True
    ).stdout
    content = bytes(range(256)) * 4
    joined = arm64.joined(first + bytes(size), "job.tar", content[:size])
    # Both archives begin at a multiple of four bytes, as the kernel wants it.
    second = joined[-len(arm64.joined(b"", "job.tar", content[:size])) :]
    assert (len(joined) - len(second)) % 4 == 0
    unpacked = tmp_path / "unpacked"
    unpacked.mkdir()
    subprocess.run([*cpio, "-i"], input=second, cwd=unpacked, capture_output=True, check=True)
    assert (unpacked / "job.tar").read_bytes() == content[:size]


def test_a_kernel_of_another_flavour_is_not_taken(empty: Path) -> None:
    for name in ("7.2.9+deb13-cloud-arm64", "7.2.8+deb13-arm64-16k", "7.2.13+deb13-cloud-amd64"):
        (empty / f"kernel-{name}").mkdir()
    assert kernels.kept("7.2", "arm64") is None
    (empty / "kernel-7.2.9+deb13-arm64").mkdir()
    (empty / "kernel-7.2.12+deb13-arm64").mkdir()
    assert kernels.kept("7.2", "arm64") == empty / "kernel-7.2.12+deb13-arm64"
    assert arm64.kernel("arm64-16k") == empty / "kernel-7.2.8+deb13-arm64-16k/vmlinuz"
    assert kernels.get("7.2").release == "7.2.13+deb13-cloud-amd64"


def test_the_board_has_the_nodes_and_figures_of_the_machine() -> None:
    two_tier = machine_model.load("two-tier")
    words = guest.hardware(two_tier, arm64.BOARD)
    assert words[:2] == ["-machine", "virt,gic-version=3,hmat=on"]
    assert words[2:] == guest.hardware(two_tier)[2:]
