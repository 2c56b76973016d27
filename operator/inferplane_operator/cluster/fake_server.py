"""`FakeCluster` behind HTTP on loopback, with discovery, lists and watches: what a client library needs to run.

A watch sends what happens from its resource version on.  A test may cut all of them, and may forget history, after
which an old version is answered with 410 as an API server does after a restart.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qsl, unquote

import orjson

from inferplane_operator.cluster.kinds import Kind
from inferplane_operator.cluster.testing import FakeCluster
from inferplane_operator.cluster.transport import Answer, Call
from inferplane_runtime.http.api import Exchange, Headers, Limits, Request, Response, ResponseHead
from inferplane_runtime.http.server import HttpServer

_JSON = Headers(((b"content-type", b"application/json"),))
_VERBS = ["get", "list", "watch", "create", "patch", "update", "delete"]
_CORE = ({"name": "namespaces", "singularName": "", "kind": "Namespace", "namespaced": False, "verbs": _VERBS},)
_DEFINITIONS = "apiextensions.k8s.io/v1"


class FakeApiServer:
    """One server; `port` is what it got."""

    def __init__(self, cluster: FakeCluster) -> None:
        self.cluster = cluster
        self.refuse = False
        """Answer nothing but 503, as a proxy in front of a dead server does."""
        self._history: list[tuple[int, str, dict[str, Any]]] = []
        self._oldest = 0
        self._watches: dict[Exchange, tuple[Kind, str]] = {}
        self.listen()
        self._http = HttpServer(self._handle, limits=Limits(idle_timeout_s=600.0))

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[str]:
        """Serve until the block ends; gives the URL."""
        await self._http.start("127.0.0.1", 0)
        try:
            yield f"http://127.0.0.1:{self._http.port}"
        finally:
            self._http.close()

    def listen(self) -> None:
        """Hear of what happens from now on."""
        self.cluster.listeners.append(self._happened)

    def cut(self) -> None:
        """End every watch in the middle."""
        for exchange in list(self._watches):
            exchange.abort()
        self._watches.clear()

    def forget(self) -> None:
        """Know nothing of the past, as after a restart."""
        self._history.clear()
        self._oldest = self.cluster.version

    def _handle(self, request: Request, exchange: Exchange) -> None:
        path, query = unquote(request.path.decode()), dict(parse_qsl(request.query.decode()))
        if self.refuse:
            exchange.respond(Response(503, _JSON, b"{}"))
        elif (found := self._discovery(path)) is not None:
            exchange.respond(Response(200, _JSON, orjson.dumps(found)))
        elif query.get("watch") == "true":
            self._watch(path, int(query.get("resourceVersion") or 0), exchange)
        else:
            answer = self._ask(request, path, query)
            exchange.respond(Response(answer.status, _JSON, answer.body))

    def _ask(self, request: Request, path: str, query: dict[str, str]) -> Answer:
        def header(name: bytes) -> str:
            return (request.headers.get(name) or b"application/json").decode()

        call = Call(
            request.method.decode(),
            path,
            tuple(query.items()),
            request.body,
            header(b"content-type"),
            header(b"accept"),
        )
        return self.cluster.answer(call)

    def _discovery(self, path: str) -> dict[str, Any] | None:
        versions = sorted({kind.api_version for kind in self.cluster.kinds} | {_DEFINITIONS})
        if path == "/api":
            return {"versions": ["v1"]}
        if path == "/apis":
            return {"groups": [_group(version) for version in versions if "/" in version]}
        root = path.removeprefix("/apis/").removeprefix("/api/")
        if root not in versions:
            return None
        resources = [_resource(kind) for kind in self.cluster.kinds if kind.api_version == root]
        resources += _CORE if root == "v1" else ()
        if root == _DEFINITIONS:
            resources.append({**_CORE[0], "name": "customresourcedefinitions", "kind": "CustomResourceDefinition"})
        return {"resources": resources}

    def _watch(self, path: str, since: int, exchange: Exchange) -> None:
        kind, namespace = self.cluster.collection(path)
        exchange.start(ResponseHead(200, _JSON))
        if since < self._oldest:
            gone = {"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired"}}
            exchange.write(orjson.dumps(gone) + b"\n")
            exchange.end()
            return
        self._watches[exchange] = (kind, namespace)
        exchange.on_disconnect(lambda: self._left(exchange))
        for version, what, manifest in self._history:
            if version > since:
                _send(exchange, kind, namespace, what, manifest)

    def _left(self, exchange: Exchange) -> None:
        self._watches.pop(exchange, None)

    def _happened(self, what: str, manifest: dict[str, Any]) -> None:
        self._history.append((int(manifest["metadata"]["resourceVersion"]), what, manifest))
        for exchange, (kind, namespace) in list(self._watches.items()):
            _send(exchange, kind, namespace, what, manifest)


def _send(exchange: Exchange, kind: Kind, namespace: str, what: str, manifest: dict[str, Any]) -> None:
    if (manifest["apiVersion"], manifest["kind"]) != (kind.api_version, kind.kind):
        return
    if namespace and manifest["metadata"]["namespace"] != namespace:
        return
    exchange.write(orjson.dumps({"type": what, "object": manifest}) + b"\n")


def _group(api_version: str) -> dict[str, Any]:
    name, _, version = api_version.partition("/")
    found = {"groupVersion": api_version, "version": version}
    return {"name": name, "versions": [found], "preferredVersion": found}


def _resource(kind: Kind) -> dict[str, Any]:
    return {
        "name": kind.plural,
        "singularName": kind.kind.lower(),
        "kind": kind.kind,
        "namespaced": True,
        "verbs": _VERBS,
    }
