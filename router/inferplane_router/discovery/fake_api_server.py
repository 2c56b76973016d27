"""A small API server on loopback over a fake cluster: lists in pages, watches, and everything that breaks them.

For what the fake API in memory cannot show: paths, queries, forms of answers, lines cut anywhere, connections that
break or fall silent.
"""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qsl

import orjson

from inferplane_router.discovery.fake_cluster import FakeCluster, Object
from inferplane_router.discovery.kinds import KINDS
from inferplane_runtime.http.api import Exchange, Headers, Limits, Request, Response, ResponseHead
from inferplane_runtime.http.server import HttpServer
from inferplane_runtime.kube.errors import GoneError
from inferplane_runtime.kube.kinds import WatchedKind

_JSON: Final = Headers(((b"content-type", b"application/json"),))
_METADATA: Final = b"as=PartialObjectMetadata"


@dataclass
class _Watcher:
    kind: WatchedKind
    namespace: str
    last: int
    exchange: Exchange
    metadata_only: bool


@dataclass(frozen=True, slots=True)
class Asked:
    """One request."""

    path: str
    query: Mapping[str, str]
    accept: str


@dataclass
class FakeApiServer:
    cluster: FakeCluster
    asked: list[Asked] = field(default_factory=list[Asked])
    refusals: list[Response] = field(default_factory=list[Response])
    """Answers for the next requests, instead of what they ask for."""
    piece: int = 0
    """Bytes in one write of a watch; 0: whole events."""
    _watchers: list[_Watcher] = field(default_factory=list[_Watcher])
    _came: asyncio.Event = field(default_factory=asyncio.Event)

    @asynccontextmanager
    async def running(self, port: int = 0) -> AsyncGenerator[str]:
        """Serve until the block is left; the value is its URL."""
        server = HttpServer(self._handle, limits=Limits())
        await server.start("127.0.0.1", port)
        feeding = asyncio.create_task(self._feed(), name="feed watches")
        try:
            yield f"http://127.0.0.1:{server.port}"
        finally:
            feeding.cancel()
            await asyncio.gather(feeding, return_exceptions=True)
            server.close()
            self._watchers.clear()

    def refuse(self, status: int, message: str = "no", times: int = 1, **headers: str) -> None:
        pairs = tuple((name.replace("_", "-").encode(), value.encode()) for name, value in headers.items())
        body = orjson.dumps({"kind": "Status", "code": status, "message": message})
        self.refusals += [Response(status, _JSON.plus(*pairs), body)] * times

    def cut(self) -> None:
        """Reset the connection of every watch."""
        for watcher in self._watchers:
            watcher.exchange.abort()
        self._watchers.clear()

    def end(self) -> None:
        """End every watch as API servers do after some minutes."""
        for watcher in self._watchers:
            watcher.exchange.end()
        self._watchers.clear()

    def bookmark(self) -> None:
        for watcher in self._watchers:
            watcher.last = self.cluster.version
            self._write(watcher, {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": str(watcher.last)}}})

    async def watched(self, count: int = 1) -> None:
        """Return once so many watches run."""
        while sum(not watcher.exchange.closed for watcher in self._watchers) < count:
            self._came.clear()
            await self._came.wait()

    # Inside.

    def _handle(self, request: Request, exchange: Exchange) -> None:
        path, query = request.path.decode(), dict(parse_qsl(request.query.decode()))
        accept = (request.headers.get(b"accept") or b"").decode()
        self.asked.append(Asked(path, query, accept))
        if self.refusals:
            exchange.respond(self.refusals.pop(0))
            return
        found = _kind_at(path)
        if found is None or query.get("labelSelector", "") != found[0].selector:
            exchange.respond(Response(404, _JSON, b'{"kind":"Status","code":404,"message":"no such path"}'))
        elif "watch" in query:
            self._watch(*found, query, exchange, metadata_only=_METADATA.decode() in accept)
        else:
            exchange.respond(self._list(*found, query, metadata_only=_METADATA.decode() in accept))

    def _list(self, kind: WatchedKind, namespace: str, query: Mapping[str, str], *, metadata_only: bool) -> Response:
        version, _, start = query.get("continue", f"{self.cluster.version}/0").partition("/")
        end = int(start) + int(query["limit"])
        found = [_formed(each, metadata_only=metadata_only) for each in self.cluster.matching(kind, namespace)]
        metadata = {"resourceVersion": version, "continue": f"{version}/{end}" if end < len(found) else ""}
        items = found[int(start) : end] or (None if metadata_only else [])
        return Response(200, _JSON, orjson.dumps({"metadata": metadata, "items": items}))

    def _watch(
        self, kind: WatchedKind, namespace: str, query: Mapping[str, str], exchange: Exchange, *, metadata_only: bool
    ) -> None:
        exchange.start(ResponseHead(200, _JSON))
        watcher = _Watcher(kind, namespace, int(query["resourceVersion"]), exchange, metadata_only)
        self._watchers.append(watcher)
        self._came.set()
        self._tell(watcher)

    async def _feed(self) -> None:
        while True:
            await self.cluster.next_news()
            for watcher in [each for each in self._watchers if not each.exchange.closed]:
                self._tell(watcher)

    def _tell(self, watcher: _Watcher) -> None:
        try:
            for event in self.cluster.since(watcher.kind, watcher.last, watcher.namespace):
                watcher.last = int(event["object"]["metadata"]["resourceVersion"])
                self._write(watcher, event)
        except GoneError as error:
            self._write(watcher, {"type": "ERROR", "object": {"kind": "Status", "code": 410, "message": str(error)}})
            watcher.exchange.end()

    def _write(self, watcher: _Watcher, event: Object) -> None:
        shown = {**event, "object": _formed(event["object"], metadata_only=watcher.metadata_only)}
        line = orjson.dumps(shown) + b"\n"
        size = self.piece or len(line)
        for start in range(0, len(line), size):
            watcher.exchange.write(line[start : start + size])


def _kind_at(path: str) -> tuple[WatchedKind, str] | None:
    """Find the kind and namespace of a path."""
    for kind in KINDS:
        if path == kind.path(""):
            return kind, ""
        head, _, rest = path.partition("/namespaces/")
        namespace = rest.partition("/")[0]
        if namespace and path == kind.path(namespace) and head:
            return kind, namespace
    return None


def _formed(raw: Any, *, metadata_only: bool) -> Any:
    if not metadata_only:
        return raw
    version = {"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata"}
    return {**version, "metadata": raw["metadata"]} if "kind" in raw and raw["kind"] != "Status" else raw
