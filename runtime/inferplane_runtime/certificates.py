"""A server's certificate, which is renewed while the server runs.

Problem: certificates are replaced every few weeks, by whoever issues them, and a server that has to be restarted for it
will one day serve one that has expired.
Idea: one TLS context for the server's life; at each new connection its files are looked at, and read if they changed.
Invariant: the context always holds a chain and its key.  OpenSSL drops the key when it takes a chain that does not fit,
so a pair is tried on a context of its own first; what cannot be read, or does not fit yet, leaves the former in force.
"""

import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import structlog

_log = structlog.get_logger("inferplane.tls")
_Seen = tuple[int, int]


@dataclass(frozen=True, slots=True)
class CertificateFiles:
    """PEM files: a certificate with its chain, and its key; one file may hold both."""

    chain: Path
    key: Path

    def context(self, protocols: Sequence[str]) -> ssl.SSLContext:
        """Make a server's context of what the files hold; `protocols` are offered by ALPN.

        A file that cannot be read, or two that do not belong together, are an `OSError`.
        """
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.set_alpn_protocols(list(protocols))
        try:
            context.load_cert_chain(self.chain, self.key)
        except ssl.SSLError as error:
            raise OSError(f"{self.chain} and {self.key} are not a certificate and its key: {error}") from error
        return context

    def seen(self) -> tuple[_Seen, _Seen]:
        """Return what tells this content of the two files from another one."""
        return _seen(self.chain), _seen(self.key)


class ServedCertificate:
    """The context of a server, and what its files were when it was made."""

    def __init__(self, files: CertificateFiles, *, protocols: Sequence[str]) -> None:
        """Read the files, or raise `OSError`."""
        self._files = files
        self._seen = files.seen()
        self.context = files.context(protocols)

    def renew(self) -> None:
        """Read the files again where they changed."""
        try:
            seen = self._files.seen()
            if seen == self._seen:
                return
            self._seen = seen
            self._files.context([])
            self.context.load_cert_chain(self._files.chain, self._files.key)
        except OSError as error:
            _log.error(
                "a new certificate cannot be used, the former stays", chain=str(self._files.chain), error=str(error)
            )
        else:
            _log.info("certificate renewed", chain=str(self._files.chain))


def _seen(path: Path) -> _Seen:
    found = path.stat()  # follows links: a mounted Secret changes by a link that leads elsewhere
    return found.st_mtime_ns, found.st_ino
