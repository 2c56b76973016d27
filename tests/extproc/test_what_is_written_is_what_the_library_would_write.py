"""Replies of the endpoint picker, put together from bytes, against the same messages built by protobuf's library."""

from google.protobuf.struct_pb2 import Struct
from hypothesis import given
from hypothesis import strategies as st

from inferplane_api.proto import ext_proc_pb2 as pb
from inferplane_router.extproc import messages
from inferplane_runtime.http.api import Headers, Response

NAMES = st.text("abcdefghij-", min_size=1, max_size=200)
FIELDS = st.dictionaries(NAMES, st.binary(max_size=300), max_size=5)


def read(written: bytes) -> pb.ProcessingResponse:
    return pb.ProcessingResponse.FromString(written)


def built(fields: dict[str, bytes], removed: list[str]) -> pb.HeaderMutation:
    options = [
        pb.HeaderValueOption(
            header=pb.HeaderValue(key=name, raw_value=value),
            append_action=pb.HeaderValueOption.OVERWRITE_IF_EXISTS_OR_ADD,
        )
        for name, value in fields.items()
    ]
    kept = [name for name in dict.fromkeys(removed) if name not in fields]
    return pb.HeaderMutation(set_headers=options, remove_headers=kept)


@given(fields=FIELDS, removed=st.lists(NAMES, max_size=4), destination=NAMES, body=st.none() | st.binary(max_size=400))
def test_picks(fields: dict[str, bytes], removed: list[str], destination: str, body: bytes | None) -> None:
    named, metadata = messages.picked_destination(destination)
    pairs = [(name.encode(), value) for name, value in fields.items()]
    mutation = named + messages.mutation(pairs, [name.encode() for name in removed])
    expected = built({messages.DESTINATION: destination.encode()}, [])
    expected.MergeFrom(built(fields, removed))
    response = pb.CommonResponse(header_mutation=expected, clear_route_cache=True)
    place = Struct()
    place.fields["envoy.lb"].struct_value.fields[messages.DESTINATION].string_value = destination

    assert read(messages.picked_head(mutation, metadata)) == pb.ProcessingResponse(
        request_headers=pb.HeadersResponse(response=response), dynamic_metadata=place
    )

    if body is not None:
        response.body_mutation.body = body

    assert read(messages.picked_body(mutation, metadata, body)) == pb.ProcessingResponse(
        request_body=pb.BodyResponse(response=response), dynamic_metadata=place
    )


@given(fields=FIELDS, removed=st.lists(NAMES, max_size=4))
def test_heads_of_answers(fields: dict[str, bytes], removed: list[str]) -> None:
    pairs = [(name.encode(), value) for name, value in fields.items()]
    written = messages.answer_head(messages.mutation(pairs, [name.encode() for name in removed]))
    response = pb.CommonResponse(header_mutation=built(fields, removed))

    assert read(written) == pb.ProcessingResponse(response_headers=pb.HeadersResponse(response=response))


@given(body=st.binary(max_size=300), end=st.booleans())
def test_pieces_of_answers(body: bytes, *, end: bool) -> None:
    piece = pb.StreamedBodyResponse(body=body, end_of_stream=end)
    streamed = pb.CommonResponse(body_mutation=pb.BodyMutation(streamed_response=piece))

    assert read(messages.answer_piece(pb.HttpBody(body=body, end_of_stream=end))) == pb.ProcessingResponse(
        response_body=pb.BodyResponse(response=streamed)
    )


@given(fields=FIELDS, body=st.binary(max_size=300), status=st.integers(200, 599))
def test_answers_in_the_proxys_stead(fields: dict[str, bytes], body: bytes, status: int) -> None:
    headers = Headers(tuple((name.encode(), value) for name, value in fields.items()))
    answer = pb.ImmediateResponse(
        status=pb.HttpStatus(code=status), headers=built(fields, []), body=body, details="why"
    )

    assert read(messages.immediate(Response(status, headers, body), "why")) == pb.ProcessingResponse(
        immediate_response=answer
    )


def test_what_is_passed_on_as_it_is() -> None:
    assert read(messages.PASS_HEAD) == pb.ProcessingResponse(request_headers=pb.HeadersResponse())
    assert read(messages.PASS_TRAILERS) == pb.ProcessingResponse(request_trailers=pb.TrailersResponse())
    assert read(messages.PASS_ANSWER_HEAD) == pb.ProcessingResponse(response_headers=pb.HeadersResponse())
    assert read(messages.PASS_ANSWER_BODY) == pb.ProcessingResponse(response_body=pb.BodyResponse())
    assert read(messages.PASS_ANSWER_TRAILERS) == pb.ProcessingResponse(response_trailers=pb.TrailersResponse())
