"""`/health` and `/ready` for the kubelet.

Alive is a process whose watches deliver; ready is one whose store is warm, whether it leads or waits to.
"""

from dataclasses import dataclass

import orjson

from inferplane_runtime.http.api import Exchange, Headers, Request, Response
from inferplane_runtime.http.errors import json_error

_JSON = Headers(((b"content-type", b"application/json"),))


@dataclass(slots=True)
class Health:
    """Set by who knows, served to who asks."""

    warm: bool = False
    leading: bool = False
    waiting_for: str = "the cluster"
    stuck: str = ""
    """Kinds whose watches did not deliver even after they were started anew."""

    def handle(self, request: Request, exchange: Exchange) -> None:
        if request.path == b"/health":
            exchange.respond(self._answer(problem=f"watches do not deliver: {self.stuck}" if self.stuck else ""))
        elif request.path == b"/ready":
            exchange.respond(self._answer(problem="" if self.warm else f"waiting for {self.waiting_for}"))
        else:
            exchange.respond(json_error(404, "only /health and /ready are served here"))

    def _answer(self, *, problem: str) -> Response:
        body = {"reason": problem} if problem else {"leading": self.leading}
        return Response(503 if problem else 200, _JSON, orjson.dumps(body))
