"""Packages from the machine's own mirror: how it is found, and what happens if it fails."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.vm import apt
from tests.vm.errors import Missing

DEBIAN_12 = """\
Types: deb deb-src
# a comment in the stanza
URIs: http://mirror.example/debian
Suites: bookworm bookworm-updates
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb
URIs: http://mirror.example/debian-security
Suites: bookworm-security
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
"""

DEBIAN_13_CLOUD = """\
Types: deb deb-src
URIs: mirror+file://{folder}/debian.list
Suites: trixie trixie-updates trixie-backports
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.pgp
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TIERD_VM_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv(apt.MIRROR_VARIABLE, raising=False)
    return tmp_path


Machine = Callable[[str, str], None]


@pytest.fixture
def machine(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Make a machine whose apt has one file of sources."""

    def make(name: str, text: str) -> None:
        (folder / name).write_text(text)
        monkeypatch.setattr(apt, "SOURCES", (folder / name, folder / "not-there"))

    return make


@pytest.fixture
def fake(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Return a function that puts a shell script first on PATH."""
    programs = folder / "programs"
    programs.mkdir()
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")

    def make(name: str, script: str) -> None:
        (programs / name).write_text(f"#!/bin/sh\n{script}\n")
        (programs / name).chmod(0o755)

    return make


def test_the_machines_mirror_is_the_archive_and_not_its_security_updates(machine: Machine) -> None:
    machine("debian.sources", DEBIAN_12)
    assert apt.machine_source() == apt.Source("http://mirror.example/debian", apt.KEYRING)


def test_a_list_of_mirrors_is_followed(machine: Machine, folder: Path) -> None:
    (folder / "debian.list").write_text("# ours\n\nhttp://near.example/debian priority:1\n")
    machine("debian.sources", DEBIAN_13_CLOUD.format(folder=folder))
    found = apt.machine_source()
    assert found.uri == "http://near.example/debian"
    assert found.signed_by.endswith("debian-archive-keyring.pgp")


def suites_of(folder: Path) -> set[str]:
    return {path.stem for path in (folder / "cache/apt/sources").iterdir()}


def test_a_suite_that_the_mirror_lacks_costs_only_that_suite(
    machine: Machine, fake: Callable[[str, str], None], folder: Path
) -> None:
    machine("debian.sources", DEBIAN_12)
    asked = folder / "asked"
    # A call with the list of one suite in its arguments is for that suite, any other for all.
    fake(
        "apt-get",
        f'echo run >> {asked}; case "$*" in\n'
        "*sourcelist=*forky.sources*) echo gone >&2; exit 100;;\n"
        f"*sourcelist=*) exit 0;;\n*) ! test -e {folder}/cache/apt/sources/forky.sources;;\nesac",
    )
    apt.ready()
    assert suites_of(folder) == set(apt.SUITES) - {"forky"}
    before = asked.read_text()
    apt.ready()
    assert asked.read_text() != before, "the mirror may have it later: asked again"


def test_fresh_lists_are_not_fetched_again(
    machine: Machine, fake: Callable[[str, str], None], folder: Path
) -> None:
    machine("debian.sources", DEBIAN_12)
    asked = folder / "asked"
    fake("apt-get", f"echo run >> {asked}")
    apt.ready()
    apt.ready()
    assert asked.read_text() == "run\n"
    apt.ready(refresh=True)
    assert asked.read_text() == "run\nrun\n"
    assert suites_of(folder) == set(apt.SUITES)


def test_no_network_is_a_sentence_that_names_the_mirror(
    machine: Machine, fake: Callable[[str, str], None]
) -> None:
    machine("debian.sources", DEBIAN_12)
    fake("apt-get", "echo 'E: Temporary failure resolving' >&2; exit 100")
    with pytest.raises(
        Missing, match=r"no package lists from http://mirror\.example/debian: .*E: T"
    ):
        apt.ready()


needs_apt = pytest.mark.skipif(shutil.which("apt-get") is None, reason="apt-get is not installed")


@needs_apt
def test_lists_without_a_signature_are_refused(
    machine: Machine, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apt, "SUITES", ("trixie",))
    packages = folder / "debian/dists/trixie/main/binary-amd64"
    packages.mkdir(parents=True)
    (packages / "Packages").touch()
    (folder / "debian/dists/trixie/Release").write_text(
        "Origin: Debian\nCodename: trixie\nComponents: main\nArchitectures: amd64\n"
    )
    machine("debian.sources", DEBIAN_12.replace("http://mirror.example", f"file:{folder}"))
    with pytest.raises(Missing, match="trixie Release' is not signed"):
        apt.ready()
    assert not (folder / "cache/apt/stamp").exists()


# Output of `apt-config dump`: WAYS are the settings to reach a mirror, HABITS are all others.
WAYS = """\
Acquire::http::Proxy "http://proxy.example:3128/";
Acquire::http::Proxy::near.example "DIRECT";
Acquire::https::near.example::CaInfo "/etc/ssl/ours.pem";
Acquire::http::Proxy-Auto-Detect "/usr/bin/find-proxy";
"""
HABITS = """\
Acquire::Check-Valid-Until "false";
Acquire::Check-Date "false";
Acquire::AllowInsecureRepositories "true";
Acquire::https::Verify-Peer "false";
APT::Get::AllowUnauthenticated "true";
APT::Update::Post-Invoke:: "touch /hooked";
APT::Default-Release "stable";
"""


def test_of_the_machines_apt_only_the_way_to_a_mirror_is_taken_over() -> None:
    assert apt.way(HABITS + WAYS) == WAYS


@needs_apt
def test_the_machines_apt_has_no_say_in_ours(
    machine: Machine,
    fake: Callable[[str, str], None],
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine("debian.sources", DEBIAN_12)
    fake("apt-get", "exit 0")
    # Stands for the files of /etc/apt/apt.conf.d.
    (folder / "machine.conf").write_text(f'Dir::Etc::parts "/dev/null";\n{HABITS}{WAYS}')
    monkeypatch.setenv("APT_CONFIG", str(folder / "machine.conf"))
    dump = apt.ready().run("apt-config", "dump").splitlines()
    assert set(WAYS.splitlines()) <= set(dump)
    assert not set(HABITS.splitlines()) & set(dump)
    assert f'Dir::State::lists "{folder}/cache/apt/lists";' in dump
    assert f'Dir::State::status "{folder}/cache/apt/status";' in dump
    assert 'Dir::Etc::parts "/dev/null";' in dump
