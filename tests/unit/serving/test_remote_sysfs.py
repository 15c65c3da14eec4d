"""Files of a simulated kernel from another process: the same content, and no writes."""

import threading
from collections.abc import Iterator
from errno import EINVAL, ENOENT, EROFS
from pathlib import Path

import pytest

from tierd.errors import ExitCode, NotRunning
from tierd.machine import btf, discovery
from tierd.machine.features import KDAMONDS
from tierd.serving import api, remote_sysfs
from tierd.serving.api import Sources
from tierd.serving.remote_sysfs import RemoteSysfs
from tierd.sim import machine_model
from tierd.sim.shared_kernel import SharedKernel
from tierd.sim.sim_kernel import SimKernel
from tierd.sysfs import SysfsError

NR = f"{KDAMONDS}/nr_kdamonds"


@pytest.fixture
def kernel() -> SimKernel:
    return SimKernel("7.3", machine_model.load("two-tier"))


@pytest.fixture
def served(kernel: SimKernel, tmp_path: Path) -> Iterator[RemoteSysfs]:
    path = tmp_path / "kernel.sock"
    answers = remote_sysfs.answers(SharedKernel(kernel), "two-tier (Linux 7.3)")
    server = api.serve(path, Sources(answers, lambda _event: False))
    yield RemoteSysfs(path)
    server.stop()


def test_it_answers_as_the_kernel_does(served: RemoteSysfs, kernel: SimKernel) -> None:
    assert served.name == "two-tier (Linux 7.3)"
    assert served.read("proc/zoneinfo") == kernel.read("proc/zoneinfo")
    assert served.reread(NR) == "0"
    assert served.read_bytes(btf.PATH) == kernel.read_bytes(btf.PATH)
    assert served.listdir("sys/kernel/mm/damon/admin") == ("kdamonds",)
    assert (served.exists(NR), served.exists("sys/none")) == (True, False)
    assert discovery.discover(served, None) == discovery.discover(kernel, None)
    kernel.write(NR, "1")
    assert served.read(NR) == "1"


@pytest.mark.parametrize("path", ["sys/none", "etc/passwd", "../etc/passwd", ""])
def test_what_cannot_be_read_is_refused_as_the_kernel_does(path: str, served: RemoteSysfs) -> None:
    with pytest.raises(SysfsError) as caught:
        served.read(path)
    assert (caught.value.errno, caught.value.path) == (ENOENT, path)


@pytest.mark.parametrize("path", ["proc/a b", "proc/a?b", "proc/a\r\n\r\n", "proc/\xe4"])
def test_a_name_that_would_be_another_question_is_not_asked(path: str, served: RemoteSysfs) -> None:
    with pytest.raises(SysfsError) as caught:
        served.read(path)
    assert caught.value.errno == EINVAL


def test_nobody_writes(served: RemoteSysfs, kernel: SimKernel) -> None:
    with pytest.raises(SysfsError) as caught:
        served.write(NR, "1")
    assert (caught.value.errno, kernel.read(NR)) == (EROFS, "0")
    assert kernel.journal == []


def test_a_machine_that_is_gone_is_said(tmp_path: Path) -> None:
    (tmp_path / "kernel.sock").touch()
    with pytest.raises(NotRunning, match="simulated machine is gone") as caught:
        RemoteSysfs(tmp_path / "kernel.sock")
    assert caught.value.exit_code == ExitCode.not_running
    assert "tierd run --simulate" in caught.value.hint


def test_who_reads_waits_while_time_passes(
    kernel: SimKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If not, it would see the tree in the middle of a change."""
    shared = SharedKernel(kernel)
    order: list[str] = []
    reader = threading.Thread(target=lambda: order.append(shared.read(NR)))

    def advance(_seconds: float) -> None:
        reader.start()
        # Until this ends, nobody else can read.
        reader.join(0.1)
        order.append("passed")

    monkeypatch.setattr(kernel, "advance", advance)
    shared.sleep(1.0)
    reader.join()
    assert order == ["passed", "0"]
