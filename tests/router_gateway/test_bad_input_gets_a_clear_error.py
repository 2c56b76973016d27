"""Bodies and headers that cannot be served: the status, the field, and that no worker was bothered."""

import asyncio
from typing import Any

import numpy as np
import orjson
import pytest
import uvloop
from hypothesis import given, settings
from hypothesis import strategies as st

from inferplane_api.catalogue import CatalogueService
from inferplane_router.core.values import Ask
from inferplane_router.gateway.data_plane import DataPlane
from inferplane_router.gateway.errors import BadRequestError
from inferplane_router.gateway.forward import ForwardContext
from inferplane_router.gateway.headers import HeaderWriter
from inferplane_router.gateway.http import Gateway
from inferplane_router.gateway.meters import GatewayMeters
from inferplane_router.gateway.parse import Route, parse
from inferplane_router.gateway.seams import EncodedPrompt, PromptRejectedError
from inferplane_router.gateway.testing import ByteEncoder, NotedAnnouncements, ScriptedCore
from inferplane_runtime.clock import FakeClock
from inferplane_runtime.http.api import Headers, Limits, Request
from inferplane_runtime.http.server import HttpServer
from inferplane_runtime.http.testing import PlayedUpstream, RecordedExchange
from inferplane_runtime.metrics.instruments import Instruments

CHAT: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
TEXT: dict[str, Any] = {"model": "m", "prompt": "hi"}


def gateway(encoder: ByteEncoder | None = None) -> tuple[Gateway, ScriptedCore, PlayedUpstream]:
    core = ScriptedCore({"m": CatalogueService(name="s", served_names=("m",))})
    meters = GatewayMeters(Instruments())
    upstream = PlayedUpstream()
    plane = DataPlane(
        core=core,
        prompts=encoder or ByteEncoder(),
        announcer=NotedAnnouncements(),
        clock=FakeClock(),
        draw_id=lambda: "id",
        meters=meters,
    )
    context = ForwardContext(plane, upstream, HeaderWriter(subscriber_epoch=7), meters)
    return Gateway(context, unready=lambda: "", catalogue=lambda: 7), core, upstream


def ask(path: bytes, raw: bytes, *headers: tuple[bytes, bytes], encoder: ByteEncoder | None = None) -> tuple[int, Any]:
    handler, core, upstream = gateway(encoder)
    exchange = RecordedExchange()
    handler(Request(b"POST", path, headers=Headers(headers), body=raw), exchange)

    assert upstream.calls == []
    assert core.asks == []
    assert exchange.status is not None
    return exchange.status, orjson.loads(exchange.body)["error"]


BODIES: dict[str, tuple[bytes, bytes, int, str | None]] = {
    "empty": (b"/v1/chat/completions", b"", 400, None),
    "not JSON": (b"/v1/chat/completions", b"{", 400, None),
    "invalid UTF-8": (b"/v1/chat/completions", b'{"model": "\xff"}', 400, None),
    "lone surrogate": (b"/v1/chat/completions", b'{"model": "\\ud800"}', 400, None),
    "NaN": (b"/v1/chat/completions", b'{"temperature": NaN}', 400, None),
    "too deep": (b"/v1/chat/completions", b"[" * 100_000, 400, None),
    "not an object": (b"/v1/chat/completions", b"[]", 400, None),
    "no model": (b"/v1/chat/completions", orjson.dumps({"messages": CHAT["messages"]}), 400, "model"),
    "model not text": (b"/v1/chat/completions", orjson.dumps(CHAT | {"model": 3}), 400, "model"),
    "unknown model": (b"/v1/chat/completions", orjson.dumps(CHAT | {"model": "x"}), 404, "model"),
    "no messages": (b"/v1/chat/completions", orjson.dumps({"model": "m"}), 400, "messages"),
    "empty messages": (b"/v1/chat/completions", orjson.dumps(CHAT | {"messages": []}), 400, "messages"),
    "messages as text": (b"/v1/chat/completions", orjson.dumps(CHAT | {"messages": "hi"}), 400, "messages"),
    "message as text": (b"/v1/chat/completions", orjson.dumps(CHAT | {"messages": ["hi"]}), 400, "messages[0]"),
    "no role": (b"/v1/chat/completions", orjson.dumps(CHAT | {"messages": [{}]}), 400, "messages[0].role"),
    "no prompt": (b"/v1/completions", orjson.dumps({"model": "m"}), 400, "prompt"),
    "empty prompt list": (b"/v1/completions", orjson.dumps(TEXT | {"prompt": []}), 400, "prompt"),
    "mixed prompt list": (b"/v1/completions", orjson.dumps(TEXT | {"prompt": ["a", 1]}), 400, "prompt"),
    "negative token id": (b"/v1/completions", orjson.dumps(TEXT | {"prompt": [-1]}), 400, "prompt"),
    "huge token id": (b"/v1/completions", orjson.dumps(TEXT | {"prompt": [2**40]}), 400, "prompt"),
    "negative max_tokens": (b"/v1/chat/completions", orjson.dumps(CHAT | {"max_tokens": -1}), 400, "max_tokens"),
    "max_tokens beyond int32": (b"/v1/chat/completions", orjson.dumps(CHAT | {"max_tokens": 2**40}), 400, "max_tokens"),
    "max_tokens beyond model": (b"/v1/chat/completions", orjson.dumps(CHAT | {"max_tokens": 1001}), 400, "max_tokens"),
    "max_tokens as text": (b"/v1/chat/completions", orjson.dumps(CHAT | {"max_tokens": "9"}), 400, "max_tokens"),
    "max_tokens true": (b"/v1/chat/completions", orjson.dumps(CHAT | {"max_tokens": True}), 400, "max_tokens"),
    "n zero": (b"/v1/chat/completions", orjson.dumps(CHAT | {"n": 0}), 400, "n"),
    "stream as text": (b"/v1/chat/completions", orjson.dumps(CHAT | {"stream": "yes"}), 400, "stream"),
    "salt not text": (b"/v1/chat/completions", orjson.dumps(CHAT | {"cache_salt": 1}), 400, "cache_salt"),
    "salt empty": (b"/v1/chat/completions", orjson.dumps(CHAT | {"cache_salt": ""}), 400, "cache_salt"),
    "prompt too long": (b"/v1/completions", orjson.dumps(TEXT | {"prompt": "x" * 1001}), 400, "input_tokens"),
    "unknown route": (b"/v1/nothing", b"{}", 404, None),
    "path above": (b"/v1/../metrics", b"{}", 404, None),
}


@pytest.mark.parametrize(("path", "raw", "status", "param"), BODIES.values(), ids=BODIES.keys())
def test_a_bad_body_is_refused_with_the_field_named(path: bytes, raw: bytes, status: int, param: str | None) -> None:
    got, error = ask(path, raw)

    assert (got, error["param"]) == (status, param)
    assert error["message"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (b"x-inferplane-priority", b"high"),
        (b"x-inferplane-priority", b"9999999999999999999999"),
        (b"x-inferplane-ttft-ms", b"-5"),
        (b"x-inferplane-ttft-ms", b"nan"),
        (b"x-inferplane-tpot-ms", b"soon"),
    ],
)
def test_a_bad_header_is_refused_with_its_name(name: bytes, value: bytes) -> None:
    status, error = ask(b"/v1/chat/completions", orjson.dumps(CHAT), (name, value))

    assert (status, error["param"]) == (400, name.decode())


def test_a_template_that_refuses_is_the_clients_error() -> None:
    encoder = ByteEncoder(error=PromptRejectedError("roles must alternate", param="messages"))
    status, error = ask(b"/v1/chat/completions", orjson.dumps(CHAT), encoder=encoder)

    assert (status, error["message"], error["param"]) == (400, "roles must alternate", "messages")


@pytest.mark.parametrize("path", [b"/v1/chat/completions", b"/v1/models", b"/health", b"/ready"])
def test_the_wrong_method_is_told_the_right_one(path: bytes) -> None:
    handler, _, _ = gateway()
    exchange = RecordedExchange()
    handler(Request(b"PUT", path), exchange)

    assert exchange.status == 405


@pytest.mark.parametrize(
    "field",
    [
        {"kv_transfer_params": {"do_remote_prefill": True}},
        {"ec_transfer_params": {"do_remote_encode": True}},
        {"vllm_xargs": {"kv_transfer_params": {"do_remote_prefill": True}}},
        {"vllm_xargs": {"ec_transfer_params": {"do_remote_encode": True}}},
        {"vllm_xargs": {"kv_cache_report_mode": "x"}},
    ],
    ids=["KV transfer", "encoder transfer", "KV transfer in xargs", "encoder transfer in xargs", "report mode"],
)
@pytest.mark.parametrize("path", [b"/v1/chat/completions", b"/v1/embeddings"])
def test_a_forged_engine_parameter_never_leaves_the_gateway(path: bytes, field: dict[str, Any]) -> None:
    handler, _, upstream = gateway()
    handler(Request(b"POST", path, body=orjson.dumps(CHAT | field)), RecordedExchange())

    assert orjson.loads(upstream.calls[0].request.body) == CHAT


def test_what_a_client_says_of_its_own_connection_ends_at_the_gateway() -> None:
    handler, _, upstream = gateway()
    sent = (
        (b"connection", b"keep-alive, X-Secret"),
        (b"keep-alive", b"timeout=5"),
        (b"te", b"trailers"),
        (b"upgrade", b"h2c"),
        (b"proxy-authorization", b"Basic x"),
        (b"x-secret", b"1"),
        (b"x-kept", b"2"),
    )
    handler(Request(b"POST", b"/v1/completions", b"", Headers(sent), orjson.dumps(TEXT)), RecordedExchange())
    passed = [name for name, _ in upstream.calls[0].request.headers.pairs if not name.startswith(b"x-inferplane-")]

    assert sorted(passed) == [b"x-kept", b"x-request-id"]


def test_harmless_xargs_are_kept() -> None:
    handler, _, upstream = gateway()
    xargs = {"vllm_xargs": {"mine": 1, "kv_transfer_params": "x"}}
    handler(Request(b"POST", b"/v1/completions", body=orjson.dumps(TEXT | xargs)), RecordedExchange())

    assert orjson.loads(upstream.calls[0].request.body) == TEXT | {"vllm_xargs": {"mine": 1}}


def test_a_clients_salt_is_never_used_as_it_is() -> None:
    handler, core, upstream = gateway()
    handler(Request(b"POST", b"/v1/completions", body=orjson.dumps(TEXT | {"cache_salt": "s"})), RecordedExchange())
    sent = orjson.loads(upstream.calls[0].request.body)["cache_salt"]

    assert sent != "s"
    assert core.asks[0].salt == sent


def test_internal_headers_of_a_client_are_removed() -> None:
    handler, _, upstream = gateway()
    forged = (
        (b"x-inferplane-prefill", b"evil:1"),
        (b"x-inferplane-handoff", b"prefill"),
        (b"x-inferplane-tenant", b"other"),
        (b"x-gateway-destination-endpoint", b"evil:1"),
        (b"x-data-parallel-rank", b"3"),
        (b"x-mine", b"kept"),
    )
    handler(Request(b"POST", b"/v1/completions", headers=Headers(forged), body=orjson.dumps(TEXT)), RecordedExchange())
    sent = dict(upstream.calls[0].request.headers.pairs)

    assert sent == {
        b"x-mine": b"kept",
        b"x-request-id": b"id",
        b"x-inferplane-router-epoch": b"7",
        b"x-inferplane-prompt-tokens": b"%d" % len("m/v1/completionsNonehi"),
        b"x-inferplane-uncached-tokens": b"%d" % len("m/v1/completionsNonehi"),
        b"x-inferplane-dp-rank": b"0",
    }


def test_a_router_that_knows_no_service_yet_asks_to_come_again() -> None:
    handler, core, _ = gateway()
    core.services.clear()
    exchange = RecordedExchange()
    handler(Request(b"POST", b"/v1/completions", body=orjson.dumps(TEXT)), exchange)

    assert exchange.head is not None
    assert exchange.head.status == 503
    assert exchange.head.headers.get(b"retry-after") == b"1"


def test_a_priority_is_passed_on_to_the_agent() -> None:
    handler, _, upstream = gateway()
    asked = Headers(((b"x-inferplane-priority", b"-2"),))
    handler(Request(b"POST", b"/v1/completions", headers=asked, body=orjson.dumps(TEXT)), RecordedExchange())

    assert upstream.calls[0].request.headers.get(b"x-inferplane-priority") == b"-2"


def test_a_body_that_needs_no_change_is_forwarded_byte_for_byte() -> None:
    handler, _, upstream = gateway()
    raw = b'{ "model":"m",\n"prompt": "hi", "temperature": 1.000, "unknown_field": [1e5] }'
    handler(Request(b"POST", b"/v1/completions", body=raw), RecordedExchange())

    assert upstream.calls[0].request.body is raw


def test_a_long_prompt_that_is_to_be_truncated_is_the_engines_to_judge() -> None:
    handler, _, upstream = gateway()
    body = TEXT | {"prompt": "x" * 2000, "truncate_prompt_tokens": 10}
    handler(Request(b"POST", b"/v1/completions", body=orjson.dumps(body)), RecordedExchange())

    assert len(upstream.calls) == 1


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
FIELDS = st.sampled_from(
    ["model", "messages", "prompt", "max_tokens", "n", "stream", "cache_salt", "vllm_xargs", "kv_transfer_params"]
)


@settings(deadline=None)
@given(body=st.dictionaries(FIELDS, JSON, max_size=6), route=st.sampled_from(Route))
def test_any_json_is_parsed_or_refused_and_what_passes_is_clean(body: dict[str, Any], route: Route) -> None:
    raw = orjson.dumps(body, default=str) if _fits(body) else str(body).encode("utf-8", "replace")
    try:
        parsed = parse(route, raw)
    except BadRequestError:
        return
    sent = orjson.loads(parsed.encoded())

    assert "kv_transfer_params" not in sent
    assert sent["model"] == parsed.model
    assert parsed.max_tokens >= 0


def _fits(body: dict[str, Any]) -> bool:
    try:
        orjson.dumps(body)
    except TypeError:
        return False
    return True


def test_what_is_no_request_is_answered_on_the_wire_and_the_next_connection_is_served() -> None:
    """Status on a raw socket for bytes that never become a request."""

    async def main() -> list[bytes]:
        handler, _, _ = gateway()
        server = HttpServer(handler, limits=Limits(max_body_bytes=1000))
        await server.start("127.0.0.1", 0)
        head = b"POST /v1/completions HTTP/1.1\r\nhost: a\r\n"
        sends = [
            head + b"content-length: 5\r\ncontent-length: 6\r\n\r\n",
            head + b"content-length: 100000000\r\n\r\n" + b"x" * 100_000,
            head + b"content-length: 10\r\n\r\nshort",
            b"GET /health HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n",
        ]
        lines = [await talk(server.port, data) for data in sends]
        await server.drain(1)
        return lines

    lines = uvloop.run(main())

    assert [line.split()[1] for line in lines] == [b"400", b"413", b"400", b"200"]


async def talk(port: int, data: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    await writer.drain()
    writer.write_eof()
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer.split(b"\r\n", 1)[0]


def test_tokens_that_come_later_are_checked_like_those_that_come_at_once() -> None:
    async def main() -> tuple[int | None, list[Ask]]:
        done: asyncio.Future[EncodedPrompt] = asyncio.get_running_loop().create_future()
        handler, core, _ = gateway(ByteEncoder(later=done))
        exchange = RecordedExchange()
        handler(Request(b"POST", b"/v1/completions", body=orjson.dumps(TEXT)), exchange)
        done.set_result(EncodedPrompt(np.zeros(2000, np.int32)))
        await exchange.wait()
        return exchange.status, core.asks

    assert asyncio.run(main()) == (400, [])
