"""SHA-256 and SHA-1 without OpenSSL. Loading OpenSSL takes 5 MiB of memory, for a few digests.

Python's own implementations have no public name. The one of SHA-256 is what `random` uses, too.
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

try:
    from _sha1 import sha1 as _sha1  # type: ignore[import-not-found, unused-ignore]
except ImportError:
    # A Python that was built without it.
    from hashlib import sha1 as _sha1


def sha256(data: bytes) -> bytes:
    return bytes(_sha256(data).digest())


def sha1(data: bytes) -> bytes:
    """Return what identifies the data. It protects nothing."""
    return bytes(_sha1(data, usedforsecurity=False).digest())
