"""The agent's HTTP routes: the data path first, then what kubelets, routers and other agents ask."""

from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

import orjson

from inferplane_runtime.http.api import Exchange, Headers, Request, Response
from inferplane_workers.agent import body as bodies
from inferplane_workers.agent.data_path import GENERATING, DataPath
from inferplane_workers.agent.drain import Left
from inferplane_workers.agent.errors import (
    JSON_HEADER,
    RETRY_HEADER,
    AgentError,
    BadRequestError,
    UnknownPathError,
    answer,
)
from inferplane_workers.agent.gate import Gate, Phase
from inferplane_workers.agent.model_files import ServedFiles
from inferplane_workers.agent.transfers import Transfers

_HANDOFF = b"/handoff/"
_FILES = b"/model/files/"


class Routes:
    """Dispatches one request; `start_drain` calls back when the drain has ended."""

    def __init__(
        self,
        *,
        data_path: DataPath,
        gate: Gate,
        transfers: Transfers,
        files: ServedFiles,
        start_drain: Callable[[Callable[[Left], None]], None],
    ) -> None:
        self._data_path = data_path
        self._gate = gate
        self._transfers = transfers
        self._files = files
        self._start_drain = start_drain

    def __call__(self, request: Request, exchange: Exchange) -> None:
        path = request.path
        if path in GENERATING or path.startswith(b"/v1/"):
            self._data_path(request, exchange)
            return
        try:
            self._other(request, exchange, path)
        except AgentError as error:
            exchange.respond(answer(error))

    def _other(self, request: Request, exchange: Exchange, path: bytes) -> None:
        match request.method, path:
            case b"GET", b"/health":
                exchange.respond(_json(200, {"status": "ok"}))
            case b"GET", b"/ready":
                exchange.respond(self._ready())
            case b"GET", b"/model/files":
                exchange.respond(self._files.current.listing())
            case b"POST", b"/drain":
                self._start_drain(lambda left: _drained(exchange, left))
            case b"GET", _ if path.startswith(_FILES):
                exchange.respond(self._files.current.file(path.removeprefix(_FILES).decode("latin-1")))
            case b"POST", _ if path.startswith(_HANDOFF):
                exchange.respond(self._handoff(request, unquote(path.removeprefix(_HANDOFF).decode("latin-1"))))
            case b"POST", b"/tokenize" | b"/detokenize":
                self._data_path(request, exchange)
            case _:
                raise UnknownPathError(f"no route for {request.method.decode('latin-1')} {path.decode('latin-1')}")

    def _ready(self) -> Response:
        if self._gate.phase is Phase.READY:
            return _json(200, {"status": "ready"})
        gate = self._gate
        return _json(503, {"status": gate.phase.name.lower(), "reason": gate.detail, "restart": gate.restart})

    def _handoff(self, request: Request, request_id: str) -> Response:
        state = bodies.parse(request.body).get("state")
        if state not in ("pulled", "abandoned"):
            raise BadRequestError('state must be "pulled" or "abandoned"', param="state")
        return _json(200, {"known": self._transfers.resolved(request_id)})


def _drained(exchange: Exchange, left: Left) -> None:
    if not exchange.closed:
        exchange.respond(_json(200, {"requests": left.requests, "transfers": left.transfers}))


def _json(status: int, body: dict[str, Any]) -> Response:
    headers = (JSON_HEADER, RETRY_HEADER) if status == 503 else (JSON_HEADER,)  # noqa: PLR2004 - HTTP
    return Response(status, Headers(headers), orjson.dumps(body))
