"""How one simulated engine's KV reaches another: a small TCP protocol of the simulator's own.

One JSON object a line.  `read` asks a producer for the contents of blocks, `confirm` lets it free them, `heartbeat`
renews leases.  A producer answers only for itself (`engine_id`) and for what it holds; a consumer that gets a refusal
has stale or forged parameters, and its engine dies of it, as the real one does.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

import orjson

from inferplane_engine.sim.cache import Contents
from inferplane_engine.sim.events import RemoteSource

_LINE_LIMIT = 64 * 1024 * 1024
_CONNECT_S = 5.0
_ANSWER_S = 30.0


class PeerRefusedError(Exception):
    """The producer says that these parameters are not its own, or not any more."""


@dataclass(frozen=True, slots=True)
class Producer:
    """What the channel asks its own engine."""

    engine_id: str
    read: Callable[[str, tuple[tuple[int, ...], ...]], Contents | None]
    confirm: Callable[[str], None]
    renew: Callable[[Sequence[str]], None]


class SideChannel:
    """The producer's end."""

    def __init__(self, producer: Producer) -> None:
        self._producer = producer
        self._server: asyncio.Server | None = None

    async def start(self, host: str, port: int) -> None:
        self._server = await asyncio.start_server(self._serve, host, port, limit=_LINE_LIMIT)

    @property
    def port(self) -> int:
        if self._server is None:
            raise RuntimeError("the side channel is not open")
        return int(self._server.sockets[0].getsockname()[1])

    def close(self) -> None:
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                writer.write(orjson.dumps(self._answer(line)) + b"\n")
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError, ValueError):
            pass  # a peer that went, or sent more than a line holds: its own loss
        finally:
            writer.close()

    def _answer(self, line: bytes) -> dict[str, object]:
        try:
            message = orjson.loads(line)
            operation = message["op"]
            if operation == "read":
                return self._read(message)
            if operation == "confirm":
                self._producer.confirm(str(message["request_id"]))
            elif operation == "heartbeat":
                self._producer.renew([str(name) for name in message["request_ids"]])
            else:
                return {"ok": False, "error": f"unknown operation {operation!r}"}
        except (orjson.JSONDecodeError, KeyError, TypeError, ValueError) as error:
            return {"ok": False, "error": f"malformed: {error}"}
        return {"ok": True}

    def _read(self, message: dict[str, object]) -> dict[str, object]:
        if message["engine_id"] != self._producer.engine_id:
            return {"ok": False, "error": "this is another engine, or another start of it"}
        blocks = cast("list[list[int]]", message["blocks"])
        contents = self._producer.read(str(message["request_id"]), tuple(tuple(group) for group in blocks))
        if contents is None:
            return {"ok": False, "error": "these blocks are not held for this request"}
        return {"ok": True, "contents": contents}


async def _ask(host: str, port: int, message: dict[str, object]) -> dict[str, object]:
    """One question to a producer; OSError and TimeoutError when it cannot be reached."""
    async with asyncio.timeout(_CONNECT_S):
        reader, writer = await asyncio.open_connection(host, port, limit=_LINE_LIMIT)
    try:
        async with asyncio.timeout(_ANSWER_S):
            writer.write(orjson.dumps(message) + b"\n")
            await writer.drain()
            line = await reader.readline()
    finally:
        writer.close()
    if not line:
        raise ConnectionError("the producer closed the side channel")
    return cast("dict[str, object]", orjson.loads(line))


async def fetch(source: RemoteSource, blocks: tuple[tuple[int, ...], ...]) -> Contents:
    """Contents of a producer's blocks."""
    answer = await _ask(
        source.host,
        source.port,
        {"op": "read", "engine_id": source.engine_id, "request_id": source.request_id, "blocks": blocks},
    )
    if not answer.get("ok"):
        raise PeerRefusedError(str(answer.get("error")))
    return tuple(tuple(group) for group in cast("list[list[int]]", answer["contents"]))


async def confirm(source: RemoteSource) -> None:
    await _ask(source.host, source.port, {"op": "confirm", "request_id": source.request_id})


async def heartbeat(host: str, port: int, request_ids: Sequence[str]) -> None:
    await _ask(host, port, {"op": "heartbeat", "request_ids": list(request_ids)})
