"""Asks an API server as its administrator, with what Python itself has: also while it starts, again and again."""

import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

from e2e.cluster.certificates import Certificates
from e2e.cluster.control_plane import ADMIN, SERVER


@dataclass(frozen=True, slots=True)
class Administrator:
    """Who may ask everything."""

    tls: ssl.SSLContext

    @classmethod
    def of(cls, certificates: Certificates) -> Self:
        context = ssl.create_default_context(cafile=certificates.path("ca.crt"))
        context.load_cert_chain(certificates.path(f"{ADMIN.name}.crt"), certificates.path(f"{ADMIN.name}.key"))
        return cls(context)

    def get(self, path: str, read: Callable[[bytes], Any] = json.loads) -> Any:
        """Return what is there; None while there is no good answer."""
        try:
            with urllib.request.urlopen(SERVER + path, context=self.tls, timeout=5) as answer:  # noqa: S310 - https
                return read(answer.read())
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return None

    def finds_ready(self) -> bool:
        return bool(self.get("/readyz", bytes) == b"ok")
