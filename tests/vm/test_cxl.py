"""What a guest with a CXL device is booted with, and the order of the drivers, without a boot."""

import lzma
from pathlib import Path

import pytest

from tests.vm import apt, guest, kernels, machines
from tests.vm.errors import Missing, VmError
from tierd.sim import machine_model


@pytest.fixture(autouse=True)
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give the test a cache of its own."""
    monkeypatch.setenv("TIERD_VM_CACHE", str(tmp_path))
    return tmp_path


def test_modules_come_after_those_that_they_depend_on(empty: Path) -> None:
    kernel = kernels.Kernel("7.2", "7.2.9", Path("vmlinuz"), Path("initramfs"))
    folder = empty / "modules-7.2.9"
    folder.mkdir(parents=True)
    needs = {"a": "b,c", "b": "d", "c": "d", "d": ""}
    for name, listed in needs.items():
        text = f"\0license=GPL\0depends={listed}\0name={name}\0"
        (folder / f"{name}.ko.xz").write_bytes(lzma.compress(text.encode()))
    assert [name for name, _ in kernels.modules(kernel, ["c", "a"])] == ["d", "c", "b", "a"]
    with pytest.raises(VmError, match=r"modules-7\.2\.9 has no module e"):
        kernels.modules(kernel, ["e"])


def test_modules_that_the_mirror_has_dropped_are_said(
    empty: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apt, "ready", lambda **_: apt.Apt(empty))
    monkeypatch.setattr(apt.Apt, "versions", lambda *_: [])
    kernel = kernels.Kernel("7.2", "7.2.9", Path("vmlinuz"), Path("initramfs"))
    with pytest.raises(Missing, match=r"delete .*kernel-7\.2\.9 to get a newer kernel"):
        kernels.modules(kernel, ["a"])


def test_a_cxl_device_is_no_node_of_the_firmware() -> None:
    cxl = machines.load("cxl")
    words = guest.hardware(cxl)
    assert words[words.index("-machine") + 1] == "q35,cxl=on"
    assert [word for word in words if word.startswith("node,")] == ["node,nodeid=0,memdev=m0"]
    assert words[words.index("-m") + 1] == "1024M"
    assert "cxl-type3,bus=rp1,volatile-memdev=c1,id=device1" in words
    assert words[-1] == "cxl-fmw.0.targets.0=cxl.1,cxl-fmw.0.size=4096M"
    assert guest.slowness(cxl, None) == ["-cpu", "max,-hypervisor"]
    assert guest.slowness(machine_model.load("two-tier"), None) == ["-cpu", "max"]
