"""Conversations with a proxy, message by message: what the endpoint picker protocol asks for holds for any pieces."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import orjson
import pytest
from google.protobuf.struct_pb2 import Struct
from hypothesis import given
from hypothesis import strategies as st

from inferplane_api.catalogue import Catalogue, CatalogueService, CatalogueWorker, WorkerRole
from inferplane_api.proto import ext_proc_pb2 as pb
from inferplane_router.core.values import RefusalReason, Routed
from inferplane_router.extproc.conversation import Conversation, Ending, Phase, Surroundings, UnsupportedError
from inferplane_router.extproc.endpoints import Endpoints
from inferplane_router.gateway.data_plane import DataPlane, Wish
from inferplane_router.gateway.errors import GatewayError, NoPlaceError
from inferplane_router.gateway.headers import HeaderWriter
from inferplane_router.gateway.meters import GatewayMeters
from inferplane_router.gateway.testing import ByteEncoder, NotedAnnouncements, ScriptedCore, refused, routed
from inferplane_runtime.clock import FakeClock
from inferplane_runtime.http.api import Headers, Request, Response
from inferplane_runtime.metrics.instruments import Instruments

BODY = orjson.dumps({"model": "tiny", "prompt": "x" * 300})
DESTINATION = "x-gateway-destination-endpoint"
SERVICE = CatalogueService(name="s", served_names=("tiny",))
LIMIT = 200_000


def worker(name: str, role: WorkerRole = WorkerRole.DECODE, revision: str = "r") -> CatalogueWorker:
    address = f"{name}:8100"
    return CatalogueWorker(
        worker_id=name,
        service="s",
        pool=role.value,
        role=role,
        revision=revision,
        http_address=address,
        stream_address=address,
    )


FLEET = (worker("p0", WorkerRole.PREFILL), worker("d0"), worker("d1"), worker("d2", revision="older"))


def local(request: Request) -> Response:
    return Response(200, Headers(((b"content-type", b"application/json"),)), request.path)


class World:
    """A conversation, and the core that places what it wishes."""

    def __init__(self, *, fallbacks: int = 0, **service: Any) -> None:
        settings = SERVICE.model_copy(update=service)
        self.core = ScriptedCore({"tiny": settings}, prefill=("p0",))
        self.endpoints = Endpoints(fallbacks=fallbacks)
        self.endpoints.follow(Catalogue(services=(settings,), workers=FLEET))
        self.plane = DataPlane(
            core=self.core,
            prompts=ByteEncoder(),
            announcer=NotedAnnouncements(),
            clock=FakeClock(),
            draw_id=lambda: "drawn",
            meters=GatewayMeters(Instruments()),
        )
        writer = HeaderWriter(subscriber_epoch=7)
        self.talk = Conversation(Surroundings(self.plane, local, writer, self.endpoints, LIMIT))

    def say(self, *asked: pb.ProcessingRequest) -> list[pb.ProcessingResponse]:
        """Send messages, place what is wished for, return all replies."""
        replies: list[pb.ProcessingResponse] = []
        for message in asked:
            step = self.talk.receive(message)
            told = self._place(step) if isinstance(step, Wish) else step
            replies += [pb.ProcessingResponse.FromString(each) for each in told]
        return replies

    def _place(self, wish: Wish) -> Sequence[bytes]:
        found: list[Routed | GatewayError] = []
        self.plane.place(wish, found.append)
        return self.talk.placed(found[0])


def header_map(**fields: str) -> pb.HeaderMap:
    pairs = {name.replace("__", ":").replace("_", "-"): value for name, value in fields.items()}
    return pb.HeaderMap(headers=[pb.HeaderValue(key=name, raw_value=text.encode()) for name, text in pairs.items()])


def head(
    mode: int | None = pb.FULL_DUPLEX_STREAMED,
    fields: Mapping[str, str] | None = None,
    *,
    end: bool = False,
    **more: str,
) -> pb.ProcessingRequest:
    given_fields = {"__method": "POST", "__path": "/v1/completions?a=b", **(fields or {}), **more}
    message = pb.ProcessingRequest(
        request_headers=pb.HttpHeaders(headers=header_map(**given_fields), end_of_stream=end)
    )
    if mode is not None:
        message.protocol_config.request_body_mode = pb.BodySendMode.Name(mode)  # type: ignore[assignment]  # names are taken too
    return message


def body(raw: bytes = BODY, *, end: bool = True) -> pb.ProcessingRequest:
    return pb.ProcessingRequest(request_body=pb.HttpBody(body=raw, end_of_stream=end))


def answer_head(
    status: int = 200, fields: Mapping[str, str] | None = None, *, end: bool = False, **more: str
) -> pb.ProcessingRequest:
    headers = header_map(__status=str(status), **(fields or {}), **more)
    return pb.ProcessingRequest(response_headers=pb.HttpHeaders(headers=headers, end_of_stream=end))


def metadata(namespace: str, key: str, value: Any) -> pb.Metadata:
    struct = Struct()
    struct.update({key: value})
    return pb.Metadata(filter_metadata={namespace: struct})


def set_headers(mutation: pb.HeaderMutation) -> dict[str, str]:
    return {each.header.key: each.header.raw_value.decode() for each in mutation.set_headers}


def picked(reply: pb.ProcessingResponse) -> tuple[dict[str, str], list[str], str]:
    """Return the headers that a pick sets and removes, and the destination in its metadata."""
    part = reply.request_headers if reply.HasField("request_headers") else reply.request_body
    mutation = part.response.header_mutation
    destination = reply.dynamic_metadata.fields["envoy.lb"].struct_value.fields[DESTINATION].string_value
    return set_headers(mutation), list(mutation.remove_headers), destination


def immediate(reply: pb.ProcessingResponse) -> tuple[int, dict[str, str], Any]:
    said = reply.immediate_response
    return said.status.code, set_headers(said.headers), orjson.loads(said.body)


# The request.


def test_a_streamed_body_is_held_until_there_is_a_place_and_then_goes_on() -> None:
    world = World()

    assert world.say(head(), body(BODY[:100], end=False)) == []

    pick, piece = world.say(body(BODY[100:]))
    headers, _, destination = picked(pick)

    assert headers[DESTINATION] == destination == "d0:8100"
    assert headers["x-inferplane-prefill"] == "p0:8100"
    assert pick.request_headers.response.clear_route_cache
    assert piece.request_body.response.body_mutation.streamed_response.body == BODY
    assert piece.request_body.response.body_mutation.streamed_response.end_of_stream


def test_a_buffered_body_goes_on_untouched_when_nothing_had_to_change() -> None:
    passed, pick = World().say(head(pb.BUFFERED), body())

    assert passed == pb.ProcessingResponse(request_headers=pb.HeadersResponse())
    assert picked(pick)[2] == "d0:8100"
    assert not pick.request_body.response.HasField("body_mutation")


def test_a_proxy_that_says_nothing_of_its_bodies_streams_them() -> None:
    assert World().say(head(None)) == []


@pytest.mark.parametrize("mode", [pb.BUFFERED, pb.FULL_DUPLEX_STREAMED])
def test_a_body_that_had_to_change_goes_on_with_its_length(mode: int) -> None:
    forged = orjson.dumps({"model": "tiny", "prompt": "hi", "kv_transfer_params": {"a": 1}})
    replies = World().say(head(mode), body(forged))
    pick = replies[0 if mode == pb.FULL_DUPLEX_STREAMED else 1]
    mutation = replies[-1].request_body.response.body_mutation
    sent = mutation.streamed_response.body or mutation.body

    assert orjson.loads(sent) == {"model": "tiny", "prompt": "hi"}
    assert picked(pick)[0]["content-length"] == str(len(sent))


def test_trailers_end_a_body_and_are_passed_on_after_it() -> None:
    world = World()
    world.say(head(), body(end=False))
    _, piece, trailers = world.say(pb.ProcessingRequest(request_trailers=pb.HttpTrailers()))

    assert not piece.request_body.response.body_mutation.streamed_response.end_of_stream
    assert trailers.HasField("request_trailers")


@given(st.data())
def test_pieces_make_no_difference(data: st.DataObject) -> None:
    raw = orjson.dumps({"model": "tiny", "prompt": "hi", "user": "x" * data.draw(st.integers(0, 150_000))})
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=5)))
    pieces = [raw[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(raw)], strict=True)]
    messages = [body(piece, end=False) for piece in pieces] + [body(b"")]
    first, *streamed = World().say(head(), *messages)
    sent = [each.request_body.response.body_mutation.streamed_response for each in streamed]

    assert picked(first) == picked(World().say(head(), body(raw))[0])
    assert b"".join(each.body for each in sent) == raw
    assert all(len(each.body) <= 64 * 1024 for each in sent)
    assert [each.end_of_stream for each in sent] == [False] * (len(sent) - 1) + [True]


def test_what_steers_agents_is_removed_or_written_anew() -> None:
    forged = {
        "x_inferplane_prefill": "evil:1",
        "x_inferplane_adapter": "evil",
        "x_inferplane_session": "mine",
        "x_gateway_destination_endpoint": "evil:1",
        "x_gateway_destination_endpoint_subset": "evil:1",
        "x_data_parallel_rank": "3",
        "x_mine": "kept",
    }
    written, removed, _ = picked(World().say(head(fields=forged), body())[0])

    assert written["x-inferplane-prefill"] == "p0:8100"
    assert written[DESTINATION] == "d0:8100"
    assert "x-mine" not in removed
    assert set(removed) == {
        "x-inferplane-adapter",
        "x-inferplane-session",
        "x-gateway-destination-endpoint-subset",
        "x-data-parallel-rank",
    }


# Destinations.


def test_fallbacks_are_of_the_same_revision_and_header_and_metadata_agree() -> None:
    written, _, destination = picked(World(fallbacks=3).say(head(), body())[0])

    assert written[DESTINATION] == destination == "d0:8100,d1:8100"


@pytest.mark.parametrize("given_as", [list, ",".join], ids=["a list", "text"])
def test_a_subset_binds_the_destination_but_not_who_prefills(given_as: Any) -> None:
    world, message = World(fallbacks=3), head()
    hint = metadata("envoy.lb.subset_hint", f"{DESTINATION}-subset", given_as(["d0:8100", "elsewhere:1"]))
    message.metadata_context.CopyFrom(hint)
    reply = world.say(message, body())[0]

    assert world.core.asks[0].only == {"d0", "p0"}
    assert picked(reply)[2] == "d0:8100"


@pytest.mark.parametrize("endpoints", [[], ["elsewhere:1"], ["p0:8100"]], ids=["empty", "unknown", "prefill alone"])
def test_a_subset_without_anybody_in_it_is_answered_503(endpoints: list[str]) -> None:
    world, message = World(), head()
    message.metadata_context.CopyFrom(metadata("envoy.lb.subset_hint", f"{DESTINATION}-subset", endpoints))
    (reply,) = world.say(message, body())
    status, _, said = immediate(reply)

    assert (status, said["error"]["code"]) == (503, "no_workers")
    assert world.core.asks == []


@pytest.mark.parametrize(
    ("reason", "status"),
    [(RefusalReason.NO_WORKERS, 503), (RefusalReason.QUEUE_FULL, 429), (RefusalReason.DEADLINE, 429)],
)
def test_a_refusal_is_answered_at_once_and_says_when_to_come_back(reason: RefusalReason, status: int) -> None:
    world = World()
    world.core.script.append(refused("mine", reason, 3.0))
    (reply,) = world.say(head(x_request_id="mine"), body())
    got, headers, said = immediate(reply)

    assert (got, said["error"]["code"]) == (status, reason.value)
    assert headers == {"content-type": "application/json", "x-request-id": "mine", "retry-after": "3"}
    assert reply.immediate_response.details == f"inferplane_{NoPlaceError.__name__}"
    assert (world.talk.phase, world.talk.ending) == (Phase.OVER, Ending.NONE)


@pytest.mark.parametrize(
    ("fields", "raw", "status"),
    [
        ({"__method": "GET"}, BODY, 405),
        ({"x_inferplane_ttft_ms": "soon"}, BODY, 400),
        ({}, b"{", 400),
        ({}, orjson.dumps({"model": "nobody", "prompt": "hi"}), 404),
        ({}, b"x" * (LIMIT + 1), 413),
    ],
    ids=["method", "header", "body", "model", "size"],
)
def test_what_is_wrong_with_a_request_is_said_to_its_client(fields: dict[str, str], raw: bytes, status: int) -> None:
    replies = World().say(head(fields=fields), body(raw))

    assert [immediate(reply)[0] for reply in replies] == [status]


def test_a_request_without_a_body_is_answered_at_once() -> None:
    assert immediate(World().say(head(end=True))[0])[0] == 400


def test_what_needs_no_worker_is_answered_by_the_router() -> None:
    (reply,) = World().say(head(__path="/v1/models?x=y", __method="GET", end=True))

    assert (reply.immediate_response.status.code, reply.immediate_response.body) == (200, b"/v1/models")


# The answer.


def test_an_answer_shows_its_id_and_hides_what_is_internal() -> None:
    world = World()
    world.say(head(x_request_id="mine"), body())
    inside = {"x_inferplane_worker": "d0", "x_inferplane_retry": "1", "content_type": "application/json"}
    (reply,) = world.say(answer_head(fields=inside))
    mutation = reply.response_headers.response.header_mutation

    assert set_headers(mutation) == {"x-request-id": "mine"}
    assert set(mutation.remove_headers) == {"x-inferplane-worker", "x-inferplane-retry"}
    assert (world.talk.phase, world.talk.ending) == (Phase.ANSWER, Ending.LEFT)


def test_an_answer_that_is_seen_to_its_end_ends_the_request() -> None:
    world = World()
    first = head()
    first.protocol_config.response_body_mode = "FULL_DUPLEX_STREAMED"  # type: ignore[assignment]  # names are taken too
    world.say(first, body(), answer_head())
    pieces = [
        pb.ProcessingRequest(response_body=pb.HttpBody(body=text, end_of_stream=not text)) for text in (b"a", b"")
    ]
    replies = [each.response_body.response.body_mutation.streamed_response for each in world.say(*pieces)]

    assert [(each.body, each.end_of_stream) for each in replies] == [(b"a", False), (b"", True)]
    assert (world.talk.phase, world.talk.ending, world.talk.status) == (Phase.OVER, Ending.SERVED, 200)


def test_an_answer_from_elsewhere_speaks_against_the_worker_that_was_chosen() -> None:
    world, message = World(fallbacks=1), answer_head()
    world.say(head(), body())
    message.metadata_context.CopyFrom(metadata("envoy.lb", f"{DESTINATION}-served", "d1:8100"))
    world.say(message)

    assert world.talk.ending is Ending.FAILED


@pytest.mark.parametrize(("status", "shown"), [(503, 502), (502, 502), (504, 504)])
def test_a_proxys_own_words_for_a_lost_worker_become_ours(status: int, shown: int) -> None:
    world = World()
    world.say(head(x_request_id="mine"), body())
    (reply,) = world.say(answer_head(status, content_type="text/plain"))

    assert immediate(reply)[0] == shown
    assert immediate(reply)[1]["x-request-id"] == "mine"
    assert world.talk.ending is Ending.FAILED


def test_an_agents_error_passes_and_ends_the_request() -> None:
    world, other = World(), World()
    world.say(head(), body())
    other.say(head(), body())
    (reply,) = world.say(answer_head(503, content_type="application/json", x_inferplane_retry="1"))
    other.say(answer_head(400, content_type="application/json"))

    assert (world.talk.ending, other.talk.ending) == (Ending.FAILED, Ending.SERVED)
    assert list(reply.response_headers.response.header_mutation.remove_headers) == ["x-inferplane-retry"]


def test_an_answer_that_the_proxy_gave_before_there_was_a_place_passes() -> None:
    world = World()

    assert world.say(head(), answer_head(413, content_type="text/plain"))[0].HasField("response_headers")
    assert world.talk.ending is Ending.NONE


# Proxies that are configured in another way.


@pytest.mark.parametrize("mode", [pb.NONE, pb.STREAMED, pb.BUFFERED_PARTIAL, pb.GRPC])
def test_a_mode_that_cannot_be_served_is_named_with_its_fix(mode: int) -> None:
    with pytest.raises(UnsupportedError, match=f"request_body_mode is {pb.BodySendMode.Name(mode)}: write FULL_DUPLEX"):
        World().say(head(mode))


def test_messages_out_of_turn_are_named() -> None:
    with pytest.raises(UnsupportedError, match="request_body came before its headers"):
        World().say(body())


def test_an_observer_is_answered_nothing() -> None:
    message = head()
    message.observability_mode = True

    assert World().say(message) == []


def test_a_place_that_nobody_asked_for_is_a_mistake() -> None:
    world = World()
    world.say(head(), body())

    with pytest.raises(RuntimeError, match="a place came before its answer"):
        world.talk.placed(routed(replace(world.core.asks[0], request_id="other")))


def test_bytes_as_an_envoy_writes_them_are_understood() -> None:
    """Field numbers and wire types stand for themselves: nothing of these bytes was written by our own definition."""
    path = b"\x0a\x10" + b"\x0a\x05:path" + b"\x1a\x07/v1/abc"
    headers = b"\x0a" + bytes([len(path)]) + path
    config = b"\x5a\x04\x08\x02\x10\x04"
    read = pb.ProcessingRequest.FromString(b"\x12" + bytes([len(headers)]) + headers + config)

    assert read.request_headers.headers.headers[0].raw_value == b"/v1/abc"
    assert read.protocol_config.request_body_mode == pb.BUFFERED
    assert read.protocol_config.response_body_mode == pb.FULL_DUPLEX_STREAMED
