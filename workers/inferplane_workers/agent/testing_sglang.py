"""A pair of SGLang's servers as their documentation describes them: halves meet in a room, or wait for each other.

A half whose client goes is forgotten.  A room is used once: a second half of the same side is an error, as is a half
without a room.  Nothing is computed.
"""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

import orjson

from inferplane_runtime.http.api import Exchange, Headers, Limits, Request, Response, ResponseHead
from inferplane_runtime.http.server import HttpServer

MODEL: Final = "tiny"
_JSON: Final = Headers(((b"content-type", b"application/json"),))
_STREAM: Final = Headers(((b"content-type", b"text/event-stream"),))
_MODELS: Final = {"object": "list", "data": [{"id": MODEL, "object": "model", "max_model_len": 4096}]}
METRICS: Final = b"""\
sglang:num_running_reqs{model_name="tiny",engine_type="prefill",tp_rank="0",pp_rank="0",dp_rank="1",priority=""} 3.0
sglang:num_running_reqs{model_name="tiny",engine_type="prefill",tp_rank="0",pp_rank="0",dp_rank="1",priority="5"} 3.0
sglang:num_queue_reqs{model_name="tiny",engine_type="prefill",tp_rank="0",pp_rank="0",dp_rank="1"} 2.0
sglang:num_prefill_bootstrap_queue_reqs{model_name="tiny",dp_rank="1"} 1.0
sglang:token_usage{model_name="tiny",dp_rank="1"} 0.25
sglang:page_size{model_name="tiny"} 16.0
sglang:num_pages{model_name="tiny"} 512.0
sglang:num_transfer_failed_reqs_total{model_name="tiny"} 4.0
sglang:generation_tokens_total{model_name="tiny"} 70.0
"""


class Side(StrEnum):
    PREFILL = "prefill"
    DECODE = "decode"


class Fault(StrEnum):
    """What one request meets."""

    REFUSE = "refuse"
    """503, before anything was done."""
    REJECT = "reject"
    """400: the request itself is at fault."""
    FAIL = "fail"
    """500, once the other half is there."""
    DIE = "die"
    """The connection is lost once the other half is there."""
    ERROR_IN_STREAM = "error in stream"
    """200, and then an error where the first token should be."""


@dataclass(slots=True)
class _Half:
    body: Mapping[str, Any]
    exchange: Exchange
    server: "FakeSglang"


@dataclass(slots=True)
class Rooms:
    """Who waits where."""

    waiting: dict[int, dict[Side, _Half]] = field(default_factory=dict[int, dict[Side, _Half]])
    entered: set[tuple[int, Side]] = field(default_factory=set[tuple[int, Side]])
    met: list[tuple[Mapping[str, Any], Mapping[str, Any]]] = field(
        default_factory=list[tuple[Mapping[str, Any], Mapping[str, Any]]]
    )
    """Bodies of the halves that met, prefill first."""

    @property
    def in_force(self) -> int:
        return sum(len(halves) for halves in self.waiting.values())

    def enter(self, room: int, side: Side, half: _Half) -> None:
        if (room, side) in self.entered:
            half.exchange.respond(_error(500, "the room was used before"))
            return
        self.entered.add((room, side))
        halves = self.waiting.setdefault(room, {})
        halves[side] = half
        if len(halves) == len(Side):
            del self.waiting[room]
            self._meet(halves[Side.PREFILL], halves[Side.DECODE])

    def leave(self, room: int, side: Side) -> None:
        halves = self.waiting.get(room, {})
        halves.pop(side, None)
        if not halves:
            self.waiting.pop(room, None)

    def _meet(self, prefill: _Half, decode: _Half) -> None:
        self.met.append((prefill.body, decode.body))
        for side, half, other in ((Side.PREFILL, prefill, decode), (Side.DECODE, decode, prefill)):
            fault = half.server.late_fault()
            if fault is not None:
                room = int(half.body["bootstrap_room"])
                half.server.spoil(half, fault)
                # The other engine waits on: it learns nothing.
                rest = Side.DECODE if side is Side.PREFILL else Side.PREFILL
                self.waiting[room] = {rest: other}
                return
        decode.server.answer(decode)
        prefill.server.answer(prefill)


class FakeSglang:
    """One server; `faults` are met one request each, in order."""

    def __init__(self, side: Side, rooms: Rooms) -> None:
        self.side = side
        self.rooms = rooms
        self.faults: list[Fault] = []
        self.requests: list[Request] = []
        self.port = 0

    @asynccontextmanager
    async def running(self) -> AsyncGenerator["FakeSglang"]:
        server = HttpServer(self._handle, limits=Limits())
        await server.start("127.0.0.1", 0)
        self.port = server.port
        try:
            yield self
        finally:
            server.close()

    def late_fault(self) -> Fault | None:
        late = (Fault.FAIL, Fault.DIE, Fault.ERROR_IN_STREAM)
        return self.faults.pop(0) if self.faults and self.faults[0] in late else None

    def spoil(self, half: _Half, fault: Fault) -> None:
        if fault is Fault.FAIL:
            half.exchange.respond(_error(500, "KV transfer failed"))
        elif fault is Fault.ERROR_IN_STREAM:
            half.exchange.start(
                ResponseHead(200, _STREAM), b'data: {"error": {"message": "transfer", "code": 500}}\n\n'
            )
            half.exchange.end()
        else:
            half.exchange.start(ResponseHead(200, Headers(((b"content-length", b"1000"),))))
            half.exchange.abort()

    def answer(self, half: _Half) -> None:
        cached = {"cached_tokens": 16}
        usage = {"prompt_tokens": 40, "completion_tokens": 2, "total_tokens": 42, "prompt_tokens_details": cached}
        if half.body.get("stream"):
            half.exchange.start(ResponseHead(200, _STREAM))
            for text in ("a", "b"):
                half.exchange.write(b"data: " + orjson.dumps({"choices": [{"text": text}], "usage": usage}) + b"\n\n")
            half.exchange.write(b"data: [DONE]\n\n")
            half.exchange.end()
        else:
            answer = {"id": self.side.value, "choices": [{"text": "ab"}], "usage": usage}
            half.exchange.respond(Response(200, _JSON, orjson.dumps(answer)))

    def _handle(self, request: Request, exchange: Exchange) -> None:
        match request.path:
            case b"/health":
                exchange.respond(Response(200))
            case b"/v1/models":
                exchange.respond(Response(200, _JSON, orjson.dumps(_MODELS)))
            case b"/metrics":
                exchange.respond(Response(200, Headers(), METRICS))
            case b"/v1/completions" | b"/v1/chat/completions":
                self._generate(request, exchange)
            case _:
                exchange.respond(_error(404, "Not Found"))

    def _generate(self, request: Request, exchange: Exchange) -> None:
        body: dict[str, Any] = orjson.loads(request.body)
        room = body.get("bootstrap_room")
        if not isinstance(room, int):
            exchange.respond(_error(400, "Disaggregated request received without bootstrap room id"))
            return
        self.requests.append(request)
        if self.faults and self.faults[0] in (Fault.REFUSE, Fault.REJECT):
            status = 503 if self.faults.pop(0) is Fault.REFUSE else 400
            exchange.respond(_error(status, "refused"))
            return
        exchange.on_disconnect(lambda: self.rooms.leave(room, self.side))
        self.rooms.enter(room, self.side, _Half(body, exchange, self))


def _error(status: int, message: str) -> Response:
    error = {"object": "error", "message": message, "code": status}
    return Response(status, _JSON, orjson.dumps({"error": error}))
