"""Packages from the machine's own mirror: which one that is, and what happens if it fails."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.vm import apt, cache
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
    """A machine whose apt has one file of sources."""

    def make(name: str, text: str) -> None:
        (folder / name).write_text(text)
        monkeypatch.setattr(apt, "SOURCES", (folder / name, folder / "not-there"))

    return make


@pytest.fixture
def fake(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Puts a shell script of ours first on PATH."""
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
    # With the list of one suite in its arguments it is about that suite, else about all.
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


@needs_apt
def test_the_machines_apt_has_no_say_in_ours(folder: Path) -> None:
    (folder / "cache/apt").mkdir(parents=True)
    (folder / "cache/apt/apt.conf").write_text(apt.CONFIGURATION.format(folder="/ours"))
    options = apt.Apt(cache.folder() / "apt").options
    hook = ["-o", "APT::Update::Post-Invoke::=true"]
    # The machine's configuration is read before ours, as these options are.
    dump = apt.run(["apt-config", *hook, *options, "dump"])
    assert 'APT::Update::Post-Invoke:: "true"' not in dump.split("\n")
    assert 'Dir::State::lists "/ours/lists";' in dump.split("\n")
    assert 'Dir::State::status "/ours/status";' in dump.split("\n")
