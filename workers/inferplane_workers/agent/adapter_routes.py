"""The control listener: what the operator asks about adapters, and nothing else."""

from typing import Any, Final, cast
from urllib.parse import unquote

import orjson

from inferplane_runtime.http.api import Exchange, Headers, Request, Response
from inferplane_workers.agent import body as bodies
from inferplane_workers.agent.adapters import AdapterEntry, AdapterPhase, Adapters, Wish
from inferplane_workers.agent.errors import JSON_HEADER, AgentError, BadRequestError, UnknownPathError, answer

_ALL: Final = b"/adapters"
_ONE: Final = b"/adapters/"
_LONGEST: Final = 4_096
_TEXTS: Final = {"path": "path", "hf": "hf", "revision": "revision", "tokenFile": "token_file"}
_MOST_RANK: Final = 65_536


class AdapterRoutes:
    """Handles one request of the control listener."""

    def __init__(self, adapters: Adapters, *, max_rank: int) -> None:
        self._adapters = adapters
        self._max_rank = max_rank

    def __call__(self, request: Request, exchange: Exchange) -> None:
        try:
            exchange.respond(self._answer(request))
        except AgentError as error:
            exchange.respond(answer(error))

    def _answer(self, request: Request) -> Response:
        if request.method == b"GET" and request.path == _ALL:
            return _json(200, self._listing())
        name = unquote(request.path.removeprefix(_ONE).decode("latin-1"))
        if not request.path.startswith(_ONE) or not name:
            raise UnknownPathError(f"no route for {request.method.decode('latin-1')} {request.path.decode('latin-1')}")
        if request.method == b"PUT":
            return self._put(_wish(name, bodies.parse(request.body)))
        if request.method == b"DELETE":
            return _json(200, {"name": name, "known": self._adapters.drop(name)})
        raise UnknownPathError(f"no route for {request.method.decode('latin-1')} /adapters/NAME")

    def _listing(self) -> dict[str, Any]:
        return {
            "adapters": [_entry(entry) for entry in self._adapters.entries()],
            "limit": self._adapters.limit,
            "maxRank": self._max_rank,
        }

    def _put(self, wish: Wish) -> Response:
        if wish.rank > self._max_rank:
            raise BadRequestError(f"rank {wish.rank} is more than the {self._max_rank} of this worker", param="rank")
        entry = self._adapters.want(wish)
        return _json(200 if entry.phase is AdapterPhase.LOADED else 202, _entry(entry))


def _wish(name: str, body: dict[str, Any]) -> Wish:
    """Read a wish; what is not known is ignored, since the operator may be newer."""
    texts = {field: _text(body, key) for key, field in _TEXTS.items()}
    rank: object = body.get("rank", 0)
    if not isinstance(rank, int) or isinstance(rank, bool) or not 0 <= rank <= _MOST_RANK:
        raise BadRequestError("rank must be a whole number", param="rank")
    if bool(texts["path"]) == bool(texts["hf"]):
        raise BadRequestError("give either path or hf", param="path")
    return Wish(name, rank=rank, **cast("dict[str, Any]", texts))


def _text(body: dict[str, Any], key: str) -> str:
    value: object = body.get(key) or ""
    if not isinstance(value, str) or len(value) > _LONGEST:
        raise BadRequestError(f"{key} must be a text of at most {_LONGEST} characters", param=key)
    return value


def _entry(entry: AdapterEntry) -> dict[str, Any]:
    told: dict[str, Any] = {"name": entry.name, "revision": entry.revision, "source": entry.source}
    told["state"] = entry.phase.value
    if entry.error:
        told["error"] = entry.error
    if entry.serving is not None:
        told["serving"] = entry.serving
    return told


def _json(status: int, body: dict[str, Any]) -> Response:
    return Response(status, Headers((JSON_HEADER,)), orjson.dumps(body))
