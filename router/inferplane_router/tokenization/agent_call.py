"""One request to an agent, awaited as a whole: for the slow paths, over the same connections as everything else."""

import asyncio
from collections.abc import Mapping
from typing import Any

import orjson

from inferplane_runtime.http.api import Headers, Request, ResponseHead, Upstream, UpstreamFailure


class AgentCallError(Exception):
    """An agent gave no usable answer; the message says which one and why."""


class AgentCalls:
    """GET and POST with a bound on time and size."""

    def __init__(self, upstream: Upstream, *, timeout_s: float, max_bytes: int) -> None:
        self._upstream = upstream
        self._timeout_s = timeout_s
        self._max_bytes = max_bytes

    async def get(self, address: str, path: str) -> bytes:
        return await self._call(address, Request(b"GET", path.encode(), headers=_headers(address)))

    async def post(self, address: str, path: str, body: Mapping[str, Any]) -> bytes:
        payload = orjson.dumps(body)
        headers = _headers(address).plus(
            (b"content-type", b"application/json"), (b"content-length", b"%d" % len(payload))
        )
        return await self._call(address, Request(b"POST", path.encode(), headers=headers, body=payload))

    async def _call(self, address: str, request: Request) -> bytes:
        sink = _WholeAnswer(address, request.path.decode(), self._max_bytes)
        call = self._upstream.send(address, request, sink, silence_s=self._timeout_s)
        try:
            async with asyncio.timeout(self._timeout_s):
                return await sink.answer
        except TimeoutError as error:
            raise AgentCallError(f"{sink.what} took longer than {self._timeout_s} s") from error
        finally:
            if not sink.over:
                call.cancel()


class _WholeAnswer:
    """A `ResponseSink` that collects a bounded body into a future."""

    def __init__(self, address: str, path: str, max_bytes: int) -> None:
        self.what = f"{address}{path}"
        self.answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self.over = False
        self._max_bytes = max_bytes
        self._status = 0
        self._pieces: list[bytes] = []
        self._size = 0

    def on_head(self, head: ResponseHead) -> None:
        self._status = head.status

    def on_body(self, data: bytes) -> None:
        self._size += len(data)
        if self._size <= self._max_bytes:
            self._pieces.append(data)
        else:
            self._fail(f"{self.what} answered with more than {self._max_bytes} bytes")

    def on_end(self) -> None:
        self.over = True
        body = b"".join(self._pieces)
        if self._status != 200:  # noqa: PLR2004  # HTTP
            self._fail(f"{self.what} answered {self._status}: {body[:200]!r}")
        elif not self.answer.done():
            self.answer.set_result(body)

    def on_failure(self, failure: UpstreamFailure, detail: str) -> None:
        self.over = True
        self._fail(f"{self.what}: {failure.value}: {detail}")

    def _fail(self, reason: str) -> None:
        if not self.answer.done():
            self.answer.set_exception(AgentCallError(reason))


def _headers(address: str) -> Headers:
    return Headers(((b"host", address.encode()), (b"accept", b"application/json")))
