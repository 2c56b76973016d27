"""Questions that the agent itself asks its engine: health, models, metrics, the canary.

Awaitable on top of the data path's connection pool, always with a deadline, so that a hung engine costs one pending
question and never a loop.
"""

import asyncio
from dataclasses import dataclass
from typing import Any, cast

import orjson

from inferplane_runtime.http.api import Headers, Request, Response, ResponseHead, Upstream, UpstreamFailure

_JSON = Headers(((b"content-type", b"application/json"),))


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """Why a question got no answer."""

    failure: UpstreamFailure
    detail: str = ""


class EngineClient:
    """Asks one engine."""

    __slots__ = ("_address", "_upstream")

    def __init__(self, upstream: Upstream, address: str) -> None:
        self._upstream = upstream
        self._address = address

    async def get(self, path: bytes, *, timeout_s: float) -> Response | NoAnswer:
        return await self.send(Request(b"GET", path), timeout_s=timeout_s)

    async def post(self, path: bytes, body: dict[str, Any], *, timeout_s: float) -> Response | NoAnswer:
        return await self.send(Request(b"POST", path, headers=_JSON, body=orjson.dumps(body)), timeout_s=timeout_s)

    async def send(self, request: Request, *, timeout_s: float) -> Response | NoAnswer:
        """Send one request and wait for its whole answer."""
        sink = _Collector(asyncio.get_running_loop().create_future())
        call = self._upstream.send(self._address, request, sink, silence_s=timeout_s)
        try:
            # Not wait_for: before Python 3.12 it swallows a cancellation that meets the answer.
            async with asyncio.timeout(timeout_s):
                return await sink.result
        except TimeoutError:
            return NoAnswer(UpstreamFailure.TIMEOUT, f"no answer within {timeout_s:g} s")
        finally:
            call.cancel()


def json_object(response: Response | NoAnswer) -> dict[str, Any] | None:
    """Return the JSON object of a 200 answer, or None."""
    if isinstance(response, NoAnswer) or response.status != 200:  # noqa: PLR2004 - HTTP
        return None
    try:
        value: object = orjson.loads(response.body)
    except orjson.JSONDecodeError:
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


class _Collector:
    """Collects one answer into a future."""

    __slots__ = ("_head", "_pieces", "result")

    def __init__(self, result: "asyncio.Future[Response | NoAnswer]") -> None:
        self.result = result
        self._head: ResponseHead | None = None
        self._pieces: list[bytes] = []

    def on_head(self, head: ResponseHead) -> None:
        self._head = head

    def on_body(self, data: bytes) -> None:
        self._pieces.append(data)

    def on_end(self) -> None:
        if self._head is not None and not self.result.done():
            self.result.set_result(Response(self._head.status, self._head.headers, b"".join(self._pieces)))

    def on_failure(self, failure: UpstreamFailure, detail: str) -> None:
        if not self.result.done():
            self.result.set_result(NoAnswer(failure, detail))
