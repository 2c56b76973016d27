"""Decisions as ext_proc messages, and what a proxy's messages say.

Problem: a pick is a dozen small messages within each other, and as objects they cost more than the choice.
Idea: what is said is written as bytes, of parts that are mostly constant or remembered.
Invariant: the header and the metadata that name a destination are written together, from one text.
"""

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Final

from inferplane_api.proto import ext_proc_pb2 as pb
from inferplane_router.rpc.wire import part, tag, varint
from inferplane_runtime.http.api import Headers, Response

DESTINATION: Final = "x-gateway-destination-endpoint"
_SUBSET: Final = "x-gateway-destination-endpoint-subset"
_SERVED: Final = "x-gateway-destination-endpoint-served"
_SUBSET_NAMESPACE: Final = "envoy.lb.subset_hint"
_NAMESPACE: Final = "envoy.lb"
_PIECE_BYTES: Final = 62 * 1024
"""A little below the 64 KiB that Envoy takes in one piece of a streamed body."""
_TELLING: Final = (":", "x-", "content-type", "accept-encoding", "traceparent", "tracestate")
"""How the headers begin that mean something here."""

Pairs = Iterable[tuple[bytes, bytes]]

# Fields of ProcessingResponse and of what is in it.
_REQUEST_HEADERS, _RESPONSE_HEADERS, _REQUEST_BODY, _RESPONSE_BODY = tag(1), tag(2), tag(3), tag(4)
_REQUEST_TRAILERS, _RESPONSE_TRAILERS, _IMMEDIATE, _DYNAMIC_METADATA = tag(5), tag(6), tag(7), tag(8)
_FIRST, _SECOND, _THIRD, _FIFTH = tag(1), tag(2), tag(3), tag(5)
_OVERWRITE: Final = b"\x18\x02"
_CLEAR_ROUTE_CACHE: Final = b"\x28\x01"
_LAST_PIECE: Final = b"\x10\x01"

PASS_HEAD: Final = part(_REQUEST_HEADERS, b"")
PASS_TRAILERS: Final = part(_REQUEST_TRAILERS, b"")
PASS_ANSWER_HEAD: Final = part(_RESPONSE_HEADERS, b"")
PASS_ANSWER_BODY: Final = part(_RESPONSE_BODY, b"")
PASS_ANSWER_TRAILERS: Final = part(_RESPONSE_TRAILERS, b"")


# From the proxy.


def fields_of(headers: pb.HttpHeaders) -> Headers:
    """Return header fields in order, pseudo-headers such as `:path` among them."""
    pairs = [(each.key.encode("latin-1"), each.raw_value or each.value.encode()) for each in headers.headers.headers]
    return Headers(tuple(pairs))


def telling_fields_of(headers: pb.HttpHeaders) -> Headers:
    """Return those header fields that decide something here: few of the many that a request has."""
    pairs = [
        (key.encode("latin-1"), each.raw_value or each.value.encode())
        for each in headers.headers.headers
        if (key := each.key).startswith(_TELLING)
    ]
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


def mutation(pairs: Pairs, removed: Iterable[bytes] = ()) -> bytes:
    """Set these headers and remove those; what is both set and removed is set."""
    written = list(pairs)
    changes = [_set(name, value) for name, value in written]
    if removed:
        names = {name for name, _ in written}
        changes += [_remove(name) for name in dict.fromkeys(removed) if name not in names]
    return b"".join(changes)


@lru_cache(4096)
def picked_destination(destination: str) -> tuple[bytes, bytes]:
    """Return a destination as a header to be set, and as metadata, where load balancing policies look."""
    field = part(_FIRST, DESTINATION.encode()) + part(_SECOND, part(_THIRD, destination.encode()))
    namespace = part(_FIRST, _NAMESPACE.encode()) + part(_SECOND, part(_FIFTH, part(_FIRST, field)))
    return _set(DESTINATION.encode(), destination.encode()), part(_DYNAMIC_METADATA, part(_FIRST, namespace))


def picked_head(headers: bytes, metadata: bytes) -> bytes:
    """Answer the request's headers with a mutation and what `picked_destination` said."""
    response = part(_SECOND, headers) + _CLEAR_ROUTE_CACHE
    return part(_REQUEST_HEADERS, part(_FIRST, response)) + metadata


def picked_body(headers: bytes, metadata: bytes, body: bytes | None) -> bytes:
    """Answer the request's whole body; None leaves it as it is."""
    response = part(_SECOND, headers) + _CLEAR_ROUTE_CACHE
    if body is not None:
        response += part(_THIRD, part(_FIRST, body))
    return part(_REQUEST_BODY, part(_FIRST, response)) + metadata


def body_pieces(body: bytes, *, last: bool) -> Iterator[bytes]:
    """Hand a streamed request body on; `last` when no trailers follow it."""
    for at in range(0, len(body), _PIECE_BYTES):
        end = last and at + _PIECE_BYTES >= len(body)
        yield part(_REQUEST_BODY, _streamed(body[at : at + _PIECE_BYTES], end=end))


def answer_piece(body: pb.HttpBody) -> bytes:
    """Hand one piece of a streamed answer on."""
    return part(_RESPONSE_BODY, _streamed(body.body, end=body.end_of_stream))


def answer_head(headers: bytes) -> bytes:
    return part(_RESPONSE_HEADERS, part(_FIRST, part(_SECOND, headers)))


def immediate(response: Response, details: str) -> bytes:
    """Let the proxy answer the client itself; `details` is for its log."""
    status = part(_FIRST, b"\x08" + varint(response.status))
    answer = status + part(_SECOND, mutation(response.headers.pairs)) + part(_THIRD, response.body)
    return part(_IMMEDIATE, answer + part(_FIFTH, details.encode()))


def _set(name: bytes, value: bytes) -> bytes:
    header = part(_FIRST, name) + part(_THIRD, value)
    return part(_FIRST, part(_FIRST, header) + _OVERWRITE)


@lru_cache(256)
def _remove(name: bytes) -> bytes:
    return part(_SECOND, name.decode("latin-1").encode())


def _streamed(body: bytes, *, end: bool) -> bytes:
    piece = part(_FIRST, body) + _LAST_PIECE if end else part(_FIRST, body)
    return part(_FIRST, part(_THIRD, part(_THIRD, piece)))
