"""Guests with a shell script as the emulator: slots, kept consoles, and no left-overs."""

import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.vm import emulator, guest, kernels, rootfs, slot
from tests.vm.errors import LostGuest, Missing, Panicked, VmError
from tests.vm.guest import Command
from tierd.sim import machine_model

TWO_TIER = machine_model.load("two-tier")
LOOK = Command(("true",))

# A bound for what takes milliseconds. A test that reaches it has failed.
SOON_S = 60.0

pytestmark = pytest.mark.usefixtures("losses_expected")


@pytest.fixture(autouse=True)
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give the test a cache and slots of its own."""
    monkeypatch.setenv("TIERD_VM_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv(slot.COUNT_VARIABLE, raising=False)
    monkeypatch.setattr(slot, "FOLDER", tmp_path)
    return tmp_path


@pytest.fixture
def machine_is(own: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Return a function that puts a shell script in place of the emulator.

    The script finds the path of the console in $console.
    """

    def make(script: str) -> None:
        program = own / "emulator"
        program.write_text(
            f'#!/bin/sh\nfor last; do :; done; console="${{last#file:}}"\n{script}\n'
        )
        program.chmod(0o755)
        kernel = kernels.Kernel("7.2", "7.2.0", own / "vmlinuz", own / "initramfs")
        monkeypatch.setattr(emulator, "get", lambda: emulator.Emulator((str(program),)))
        monkeypatch.setattr(kernels, "get", lambda _: kernel)
        monkeypatch.setattr(rootfs, "get", lambda *_: own / "root.ext4")

    return make


def test_a_lost_guest_was_booted_twice_and_its_console_is_kept(
    own: Path, machine_is: Callable[[str], None]
) -> None:
    machine_is(f'echo boot >> {own}/boots; echo "last words" > "$console"; exit 3')
    with pytest.raises(LostGuest, match=r"(?s)lost 2 times.*ended with 3.*last words\nall of its"):
        guest.run("7.2", TWO_TIER, [LOOK])
    assert (own / "boots").read_text() == "boot\nboot\n"
    kept = list((own / "cache/consoles").iterdir())
    assert [path.read_text() for path in kept] == ["last words\n", "last words\n"]
    assert "7.2-two-tier" in kept[0].name


def test_a_guest_that_never_says_hello_is_lost(
    machine_is: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guest, "BOOT_S_MAX", 0.3)
    machine_is("exec sleep 1000")
    with pytest.raises(LostGuest, match="it never said hello"):
        guest.run("7.2", TWO_TIER, [LOOK])


def test_a_panic_is_not_tried_again(own: Path, machine_is: Callable[[str], None]) -> None:
    machine_is(f'echo boot >> {own}/boots; echo "Kernel panic - not syncing" > "$console"')
    with pytest.raises(Panicked, match=r"all of its console: .*/consoles/.*\.log"):
        guest.run("7.2", TWO_TIER, [LOOK])
    assert (own / "boots").read_text() == "boot\n"


def test_a_panic_with_a_long_trace_still_says_what_it_was() -> None:
    trace = "\n".join(f"frame {number}" for number in range(100))
    with pytest.raises(Panicked, match="panicked:\nKernel panic: so\nframe 0\n"):
        guest.verdict(b"", f"boots\nKernel panic: so\n{trace}", 1, "the emulator ended with 0")


def test_only_the_last_consoles_are_kept(
    own: Path, machine_is: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guest, "CONSOLES_KEPT", 3)
    folder = own / "cache/consoles"
    folder.mkdir(parents=True)
    for number in range(5):
        (folder / f"20200101-00000{number}-7.2-two-tier-1.log").touch()
    machine_is('echo "Kernel panic" > "$console"')
    with pytest.raises(Panicked):
        guest.run("7.2", TWO_TIER, [LOOK])
    names = sorted(path.name for path in folder.iterdir())
    assert len(names) == 3
    assert names[0].startswith("20200101-000003")
    assert not names[2].startswith("2020")


KILLED = """
import os
import sys
from pathlib import Path
from tests.vm import emulator, guest
emulator.get = lambda: emulator.Emulator(())
script = f"echo $$ > {sys.argv[1]}; exec sleep 1000"
argv = [*guest.ENDING_TOGETHER, "sh", "-c", script]
guest._wait(argv, Path("/tierd-no-such-file"), 0, os.environ)
"""


def test_no_emulator_outlives_a_runner_that_is_killed(own: Path) -> None:
    until_s = time.monotonic() + SOON_S
    with subprocess.Popen([sys.executable, "-c", KILLED, str(own / "pid")]) as runner:
        while not (own / "pid").exists() or not (own / "pid").read_text():
            assert time.monotonic() < until_s
            time.sleep(0.01)
        runner.send_signal(signal.SIGKILL)
    child = Path("/proc", (own / "pid").read_text().strip())
    while child.exists() and "State:\tZ" not in (child / "status").read_text():
        assert time.monotonic() < until_s, "the emulator runs on"
        time.sleep(0.01)


def take(path: Path) -> int:
    """Take a slot, as the guest of another process does. Return the descriptor of the lock."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return fd


def test_one_guest_at_a_time_and_the_wait_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slot, "WAIT_S_MAX", 0.01)
    with slot.held(), pytest.raises(VmError, match="at a time: 1; TIERD_VM_COUNT"), slot.held():
        pytest.fail("two at a time")
    with slot.held():
        pass


def test_more_slots_let_more_guests_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slot, "WAIT_S_MAX", 0.01)
    monkeypatch.setenv(slot.COUNT_VARIABLE, "2")
    with slot.held(), slot.held(), pytest.raises(VmError), slot.held():
        pytest.fail("three at a time")


def test_who_waits_goes_on_when_the_other_ends() -> None:
    (path,) = slot.paths()
    others = take(path)
    seen: list[str] = []

    def wait() -> None:
        with slot.held():
            seen.append("held")

    waiter = threading.Thread(target=wait)
    waiter.start()
    seen.append("ended")
    os.close(others)
    waiter.join(SOON_S)
    assert seen == ["ended", "held"]


@pytest.mark.parametrize("text", ["0", "-1", "many", ""])
def test_a_number_of_slots_that_is_none_is_said(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(slot.COUNT_VARIABLE, text)
    with pytest.raises(Missing, match=f"TIERD_VM_COUNT is '{text}'"), slot.held():
        pytest.fail("held")
