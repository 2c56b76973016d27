"""Decisions as ext_proc messages, and what a proxy's messages say.

Invariant: the header and the metadata that name a destination are written together, from one text.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from google.protobuf.struct_pb2 import Struct

from inferplane_api.proto import ext_proc_pb2 as pb
from inferplane_runtime.http.api import Headers, Response

DESTINATION: Final = "x-gateway-destination-endpoint"
_SUBSET: Final = "x-gateway-destination-endpoint-subset"
_SERVED: Final = "x-gateway-destination-endpoint-served"
_SUBSET_NAMESPACE: Final = "envoy.lb.subset_hint"
_NAMESPACE: Final = "envoy.lb"
_PIECE_BYTES: Final = 62 * 1024
"""A little below the 64 KiB that Envoy takes in one piece of a streamed body."""
_OVERWRITE: Final = pb.HeaderValueOption.OVERWRITE_IF_EXISTS_OR_ADD

Pairs = Iterable[tuple[bytes, bytes]]

PASS_HEAD: Final = pb.ProcessingResponse(request_headers=pb.HeadersResponse())
PASS_TRAILERS: Final = pb.ProcessingResponse(request_trailers=pb.TrailersResponse())
PASS_ANSWER_HEAD: Final = pb.ProcessingResponse(response_headers=pb.HeadersResponse())
PASS_ANSWER_BODY: Final = pb.ProcessingResponse(response_body=pb.BodyResponse())
PASS_ANSWER_TRAILERS: Final = pb.ProcessingResponse(response_trailers=pb.TrailersResponse())


# From the proxy.


def fields_of(headers: pb.HttpHeaders) -> Headers:
    """Return header fields in order, pseudo-headers such as `:path` among them."""
    pairs = ((each.key.encode("latin-1"), each.raw_value or each.value.encode()) for each in headers.headers.headers)
    return Headers(tuple(pairs))


def subset_of(metadata: pb.Metadata) -> frozenset[str] | None:
    """Return the endpoints that the destination must be one of, None for any."""
    if _SUBSET_NAMESPACE not in metadata.filter_metadata:
        return None
    fields = metadata.filter_metadata[_SUBSET_NAMESPACE].fields
    if _SUBSET not in fields:
        return None
    found = fields[_SUBSET]
    if found.WhichOneof("kind") == "list_value":
        return frozenset(each.string_value for each in found.list_value.values)
    return frozenset(part.strip() for part in found.string_value.split(",") if part.strip())


def served_of(metadata: pb.Metadata) -> str:
    """Return the endpoint that answered, empty when the proxy does not say."""
    if _NAMESPACE not in metadata.filter_metadata:
        return ""
    fields = metadata.filter_metadata[_NAMESPACE].fields
    return fields[_SERVED].string_value if _SERVED in fields else ""


# To the proxy.


def mutation(pairs: Pairs, removed: Iterable[bytes] = ()) -> pb.HeaderMutation:
    """Set these headers and remove those; what is both set and removed is set."""
    written = list(pairs)
    names = {name for name, _ in written}
    return pb.HeaderMutation(
        set_headers=[
            pb.HeaderValueOption(header=pb.HeaderValue(key=name.decode(), raw_value=value), append_action=_OVERWRITE)
            for name, value in written
        ],
        remove_headers=[name.decode("latin-1") for name in dict.fromkeys(removed) if name not in names],
    )


def picked_metadata(destination: str) -> Struct:
    """Name the destination once more, where load balancing policies look."""
    metadata = Struct()
    metadata.fields[_NAMESPACE].struct_value.fields[DESTINATION].string_value = destination
    return metadata


def picked_head(headers: pb.HeaderMutation, metadata: Struct) -> pb.ProcessingResponse:
    """Answer the request's headers."""
    response = pb.CommonResponse(header_mutation=headers, clear_route_cache=True)
    return pb.ProcessingResponse(request_headers=pb.HeadersResponse(response=response), dynamic_metadata=metadata)


def picked_body(headers: pb.HeaderMutation, metadata: Struct, body: bytes | None) -> pb.ProcessingResponse:
    """Answer the request's whole body; None leaves it as it is."""
    response = pb.CommonResponse(header_mutation=headers, clear_route_cache=True)
    if body is not None:
        response.body_mutation.body = body
    return pb.ProcessingResponse(request_body=pb.BodyResponse(response=response), dynamic_metadata=metadata)


def body_pieces(body: bytes, *, last: bool) -> Iterator[pb.ProcessingResponse]:
    """Hand a streamed request body on; `last` when no trailers follow it."""
    for at in range(0, len(body), _PIECE_BYTES):
        end = last and at + _PIECE_BYTES >= len(body)
        yield pb.ProcessingResponse(request_body=_streamed(body[at : at + _PIECE_BYTES], end=end))


def answer_piece(body: pb.HttpBody) -> pb.ProcessingResponse:
    """Hand one piece of a streamed answer on."""
    return pb.ProcessingResponse(response_body=_streamed(body.body, end=body.end_of_stream))


def answer_head(headers: pb.HeaderMutation) -> pb.ProcessingResponse:
    response = pb.CommonResponse(header_mutation=headers)
    return pb.ProcessingResponse(response_headers=pb.HeadersResponse(response=response))


def immediate(response: Response, details: str) -> pb.ProcessingResponse:
    """Let the proxy answer the client itself; `details` is for its log."""
    return pb.ProcessingResponse(
        immediate_response=pb.ImmediateResponse(
            status=pb.HttpStatus(code=response.status),
            headers=mutation(response.headers.pairs),
            body=response.body,
            details=details,
        )
    )


def _streamed(body: bytes, *, end: bool) -> pb.BodyResponse:
    piece = pb.StreamedBodyResponse(body=body, end_of_stream=end)
    return pb.BodyResponse(response=pb.CommonResponse(body_mutation=pb.BodyMutation(streamed_response=piece)))
