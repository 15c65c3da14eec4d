"""Digests are those of the standard library, whichever implementation makes them."""

import hashlib
import subprocess
import sys

import pytest

from tierd.digest import sha1, sha256

DATA = (b"", b"a", b"x" * 1000)


@pytest.mark.parametrize("data", DATA)
def test_it_is_sha256(data: bytes) -> None:
    assert sha256(data) == hashlib.sha256(data).digest()


@pytest.mark.parametrize("data", DATA)
def test_it_is_sha1(data: bytes) -> None:
    assert sha1(data) == hashlib.sha1(data, usedforsecurity=False).digest()


def test_what_the_service_loads_and_logs_loads_no_openssl() -> None:
    """The service has 32 MiB, and OpenSSL alone would take 5 of them."""
    text = (
        "import sys, tierd.loop.service, tierd.serving.metrics_output\n"
        "from tierd.loop import journal\n"
        "journal.message_id('running')\n"
        "print([name for name in ('_hashlib', '_ssl', 'uuid') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
