"""TLS for the metrics: the certificate is read at the start, and again when its file changes.

Only imported if the configuration names a certificate: the library takes 3 MiB of memory.
"""

import selectors
import socket
import ssl
from dataclasses import dataclass
from pathlib import Path

from tierd.errors import TierdError


class BadCertificate(TierdError):
    """A certificate that cannot be used."""


@dataclass(slots=True)
class Certificate:
    """A PEM file with a key and a certificate, for incoming connections."""

    path: Path
    _stamp: int = 0
    _context: ssl.SSLContext | None = None

    def wrapped(self, sock: socket.socket) -> socket.socket:
        """Return the connection with TLS. If the file has changed, its new certificate is used.

        The handshake is not done here, because it would wait for the other side.
        """
        return self._now().wrap_socket(sock, server_side=True, do_handshake_on_connect=False)

    def shake(self, sock: socket.socket) -> None:
        """Continue the handshake as far as possible without waiting."""
        assert isinstance(sock, ssl.SSLSocket)
        sock.do_handshake()

    def waits_for(self, error: OSError) -> int | None:
        """Return the selector event that the connection waits for; None if it is broken."""
        if isinstance(error, ssl.SSLWantReadError):
            return selectors.EVENT_READ
        return selectors.EVENT_WRITE if isinstance(error, ssl.SSLWantWriteError) else None

    def _now(self) -> ssl.SSLContext:
        """Return the file's certificate; the old one while the file is being replaced."""
        try:
            stamp = self.path.stat().st_mtime_ns
            if self._context is None or stamp != self._stamp:
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                context.minimum_version = ssl.TLSVersion.TLSv1_2
                context.load_cert_chain(self.path)
                self._context = context
                self._stamp = stamp
        except OSError as error:
            if self._context is None:
                raise BadCertificate(
                    f"cannot use the certificate {self.path}: {error.strerror or error}",
                    "it must hold a private key and its certificate, in PEM, for root to read",
                ) from error
        return self._context


def certificate(path: Path) -> Certificate:
    """Return the certificate in this file. Raise BadCertificate if it cannot be read or used."""
    made = Certificate(path)
    made._now()
    return made
