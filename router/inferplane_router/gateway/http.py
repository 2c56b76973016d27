"""Routes of the gateway: which paths exist, and what each is answered with."""

from collections.abc import Callable
from typing import Final
from urllib.parse import unquote

import orjson

from inferplane_router.gateway.errors import GatewayError, UnknownRouteError, WrongMethodError, answer, unknown_model
from inferplane_router.gateway.forward import Forward, ForwardContext
from inferplane_router.gateway.headers import read_hints, request_id_of
from inferplane_router.gateway.meters import NO_SERVICE
from inferplane_router.gateway.parse import ROUTES, Route
from inferplane_runtime.http.api import Exchange, Headers, Request, Response
from inferplane_runtime.http.errors import json_error

_JSON: Final = Headers(((b"content-type", b"application/json"),))
_READABLE: Final = (b"GET", b"HEAD")


def _no_console(_request: Request, _exchange: Exchange) -> bool:
    return False


class Gateway:
    """The HTTP handler of the router's public port."""

    def __init__(
        self,
        context: ForwardContext,
        *,
        unready: Callable[[], str],
        catalogue: Callable[[], int],
        console: Callable[[Request, Exchange], bool] = _no_console,
    ) -> None:
        self._context = context
        self._unready = unready
        """Why the gateway is not ready, or an empty text."""
        self._catalogue = catalogue
        """The number of the catalogue that requests are routed by."""
        self._console = console
        """Answers a request that is for it, and says whether it was."""

    def __call__(self, request: Request, exchange: Exchange) -> None:
        try:
            route = ROUTES.get(request.path)
            if route is None:
                if not self._console(request, exchange):
                    exchange.respond(self.local(request))
            elif request.method != b"POST":
                raise WrongMethodError(f"{request.path.decode()} takes POST")
            else:
                self._post(route, request, exchange)
        except GatewayError as error:
            self._context.meters.of(NO_SERVICE).ended("", "bad_request")
            request_id = request_id_of(request.headers)
            shown = ((b"x-request-id", request_id.encode()),) if request_id else ()
            exchange.respond(answer(error, headers=shown))

    def _post(self, route: Route, request: Request, exchange: Exchange) -> None:
        wish = self._context.plane.read(request.path, route, request.body, read_hints(request.headers))
        Forward(self._context, request, exchange, wish).begin()

    def local(self, request: Request) -> Response:
        """Answer what needs no worker; raises `GatewayError` for routes that do not exist."""
        if request.path == b"/v1/models":
            _readable(request)
            return Response(200, _JSON, self._models())
        if request.path.startswith(b"/v1/models/"):
            _readable(request)
            return self._model(unquote(request.path.removeprefix(b"/v1/models/").decode("ascii")))
        if request.path == b"/health":
            _readable(request)
            return Response(200, _JSON, b'{"status":"ok"}')
        if request.path == b"/ready":
            _readable(request)
            return self._ready()
        raise UnknownRouteError(f"no route {request.path.decode('latin-1')}")

    def _ready(self) -> Response:
        if reason := self._unready():
            return json_error(503, reason)
        return Response(200, _JSON, orjson.dumps({"status": "ready", "catalogue": self._catalogue()}))

    def _models(self) -> bytes:
        names = self._context.plane.core.model_names()
        return orjson.dumps({"object": "list", "data": [_model_object(name) for name in names]})

    def _model(self, name: str) -> Response:
        names = self._context.plane.core.model_names()
        if name not in names:
            raise unknown_model(name, names)
        return Response(200, _JSON, orjson.dumps(_model_object(name)))


def _model_object(name: str) -> dict[str, object]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "inferplane"}


def _readable(request: Request) -> None:
    if request.method not in _READABLE:
        raise WrongMethodError(f"{request.path.decode('latin-1')} takes GET")
