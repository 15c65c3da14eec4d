"""SHA-256 without OpenSSL. Loading OpenSSL takes 3.5 MiB of memory, for two digests at a start.

Python's own implementation has no public name. It is what `random` uses, too.
"""

try:
    from _sha2 import sha256 as _sha256  # type: ignore[import-not-found, unused-ignore]
except ImportError:
    try:
        # Python 3.11.
        from _sha256 import sha256 as _sha256  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        # A Python that was built without it.
        from hashlib import sha256 as _sha256


def sha256(data: bytes) -> bytes:
    return bytes(_sha256(data).digest())
