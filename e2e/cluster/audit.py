"""What was asked of the API server, read from its audit log: the only witness of writes that nothing keeps.

The log is written before an answer is sent, so whatever a client has been told is in it.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

WRITES: Final = frozenset({"create", "update", "patch", "delete", "deletecollection"})


@dataclass(frozen=True, slots=True)
class Request:
    """One finished request."""

    verb: str
    user: str
    agent: str
    resource: str
    subresource: str
    namespace: str
    name: str
    code: int

    @classmethod
    def parse(cls, line: str) -> Self:
        event: dict[str, Any] = json.loads(line)
        about: dict[str, Any] = event.get("objectRef", {})
        return cls(
            verb=event["verb"],
            user=event["user"].get("username", ""),
            agent=event.get("userAgent", ""),
            resource=about.get("resource", ""),
            subresource=about.get("subresource", ""),
            namespace=about.get("namespace", ""),
            name=about.get("name", ""),
            code=event.get("responseStatus", {}).get("code", 0),
        )

    @property
    def writes(self) -> bool:
        return self.verb in WRITES


@dataclass(slots=True)
class AuditLog:
    """The log from some moment on: `since_now` begins at the present end of its last whole line."""

    path: Path
    offset: int = 0

    @classmethod
    def since_now(cls, path: Path) -> Self:
        return cls(path, path.read_bytes().rfind(b"\n") + 1)

    def requests(self) -> Iterator[Request]:
        """Yield every finished request since the beginning, in the order in which they ended."""
        with self.path.open("rb") as log:
            log.seek(self.offset)
            for line in log:
                if line.endswith(b"\n"):
                    yield Request.parse(line.decode())

    def writes(self, user: str) -> list[Request]:
        """Return what a user has written; a service account is `system:serviceaccount:NAMESPACE:NAME`."""
        return [request for request in self.requests() if request.writes and request.user == user]
