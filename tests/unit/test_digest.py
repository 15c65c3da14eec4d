"""The digest is that of the standard library, whichever implementation makes it."""

import hashlib

import pytest

from tierd.digest import sha256


@pytest.mark.parametrize("data", [b"", b"a", b"x" * 1000])
def test_it_is_sha256(data: bytes) -> None:
    assert sha256(data) == hashlib.sha256(data).digest()
