"""A certificate for what we serve: read at the start, and again when its file changes."""

import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tierd.errors import TierdError


class BadCertificate(TierdError):
    """A certificate that cannot be used."""


@dataclass(slots=True)
class Certificate:
    """A PEM file with a key and a certificate; calling it gives what is valid now."""

    path: Path
    _stamp: int = 0
    _context: ssl.SSLContext | None = None

    def __call__(self) -> ssl.SSLContext:
        """What the file says; what it said before, while it is being replaced."""
        try:
            stamp = self.path.stat().st_mtime_ns
            if self._context is None or stamp != self._stamp:
                self._context = _read(self.path)
                self._stamp = stamp
        except OSError as error:
            if self._context is None:
                raise BadCertificate(
                    f"cannot use the certificate {self.path}: {error.strerror or error}",
                    "it holds a private key and its certificate, in PEM, for root to read",
                ) from error
        return self._context


def certificate(path: Path) -> Callable[[], ssl.SSLContext]:
    """What this file holds, now and later; it has to be good now."""
    made = Certificate(path)
    made()
    return made


def _read(path: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(path)
    return context
