"""One HTTP request seen from beside it: what a proxy says of it, what it is told, how the request's place ends.

Problem: a proxy sends headers, body, trailers and the same of the answer, in pieces that depend on its configuration,
and every message has the replies that belong to it; a wrong one stalls or breaks the request.
Idea: a machine without I/O, as a parser of a protocol has: a message in, replies or a wish for a place out, and the
place goes back in as a call.  The table of transitions ends the class.
Trade-off: the body is collected whole, as it is at the gateway, since prompts are chosen by their last block too.
Invariant: nothing goes on to a worker before a place was found; what a client may not say to an agent never goes on.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import ClassVar, Final, Protocol

from inferplane_api.proto import ext_proc_pb2 as pb
from inferplane_router.core.values import Routed
from inferplane_router.extproc import messages
from inferplane_router.extproc.endpoints import Endpoints
from inferplane_router.gateway.data_plane import Wish
from inferplane_router.gateway.errors import GatewayError, UpstreamLostError, WrongMethodError, answer
from inferplane_router.gateway.headers import (
    RETRY,
    HeaderWriter,
    Hints,
    read_hints,
    request_id_of,
    steering,
    to_client,
)
from inferplane_router.gateway.parse import ROUTES, Route
from inferplane_runtime.http.api import Headers, Request, Response, UpstreamFailure
from inferplane_runtime.http.errors import json_error

Replies = Sequence[bytes]
"""Messages of type `ProcessingResponse`, as they travel."""
_DESTINATION: Final = messages.DESTINATION.encode()
_ERROR: Final = 400
_GATEWAY_TIMEOUT: Final = 504
_PROXYS_OWN: Final = frozenset((500, 502, 503, 504))
"""What a proxy answers by itself, in plain text, when no worker did."""


class UnsupportedError(Exception):
    """The proxy speaks in a way that cannot be answered: its configuration has to change, as the message says."""


class Reading(Protocol):
    """Parses a request and resolves its model; raises `GatewayError`."""

    def read(self, path: bytes, route: Route, raw: bytes, hints: Hints, *, tenant: str = "") -> Wish: ...


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What all conversations of a process share."""

    plane: Reading
    local: Callable[[Request], Response]
    """Answers what needs no worker; raises `GatewayError`."""
    writer: HeaderWriter
    endpoints: Endpoints
    max_body_bytes: int


class Phase(Enum):
    """How far a request has come; the value is for people."""

    HEAD = "before its headers"
    BODY = "before the end of its body"
    PLACING = "while a place is looked for"
    SENT = "before its answer"
    ANSWER = "within its answer"
    OVER = "after its end"


class Ending(Enum):
    """What becomes of a request's reservation when the proxy has said its last about it."""

    NONE = "there was none"
    ABANDONED = "the client left before there was a place"
    LEFT = "agents will report the end"
    SERVED = "the answer was seen to its end"
    FAILED = "the chosen worker did not serve it"


@dataclass(slots=True)
class _Asked:
    """The request, as far as it has come."""

    method: bytes = b""
    path: bytes = b""
    query: bytes = b""
    headers: Headers = field(default_factory=Headers)
    route: Route = Route.PLAIN
    hints: Hints = field(default_factory=Hints)
    subset: frozenset[str] | None = None
    pieces: list[bytes] = field(default_factory=list[bytes])
    size: int = 0
    trailers: bool = False


class Conversation:
    """One stream of messages about one request."""

    __slots__ = ("_answer_streamed", "_asked", "_duplex", "_routed", "_wish", "_with", "ending", "phase", "status")

    def __init__(self, surroundings: Surroundings) -> None:
        self._with = surroundings
        self._asked = _Asked()
        self._duplex = self._answer_streamed = True
        self._wish: Wish | None = None
        self._routed: Routed | None = None
        self.phase = Phase.HEAD
        self.ending = Ending.NONE
        self.status = 0
        """Of the answer; 0 before it."""

    @property
    def routed(self) -> Routed | None:
        """The place that was found."""
        return self._routed

    @property
    def headers(self) -> Headers:
        """The request's, as far as they mean something here."""
        return self._asked.headers

    def receive(self, message: pb.ProcessingRequest) -> Replies | Wish:
        """Take one message; a `Wish` asks for `placed` to be called, before the next message."""
        if message.observability_mode or self.phase is Phase.OVER:
            return ()
        kind = message.WhichOneof("request") or "nothing"
        step = self._STEPS.get((self.phase, kind))
        if step is None:
            raise UnsupportedError(
                f"{kind} came {self.phase.value}: ext_proc processing_mode must send the whole request"
            )
        try:
            return step(self, message)
        except GatewayError as error:
            return self._refuse(error)

    def placed(self, result: Routed | GatewayError, more: Sequence[tuple[bytes, bytes]] = ()) -> Replies:
        """Go on with the place that was found, or with the reason why there is none; `more` headers go to the agent."""
        wish = self._wish
        if wish is None or self.phase is not Phase.PLACING:
            raise RuntimeError(f"a place came {self.phase.value}")
        if isinstance(result, GatewayError):
            return self._refuse(result)
        self.phase, self.ending, self._routed = Phase.SENT, Ending.LEFT, result
        endpoints = self._with.endpoints.destinations(result, wish.only)
        destination = ",".join(endpoints)
        changed = wish.body.encoded() if wish.body.changed else None
        named, metadata = messages.picked_destination(destination)
        headers = named + self._headers(wish, result, changed, more)
        if not self._duplex:
            return (messages.picked_body(headers, metadata, changed),)
        body, trailers = wish.body.encoded(), self._asked.trailers
        ends = (messages.PASS_TRAILERS,) if trailers else ()
        return (messages.picked_head(headers, metadata), *messages.body_pieces(body, last=not trailers), *ends)

    # The request.

    def _head(self, message: pb.ProcessingRequest) -> Replies | Wish:
        self._understand(message)
        asked, headers = self._asked, messages.telling_fields_of(message.request_headers)
        asked.headers = Headers(tuple([pair for pair in headers.pairs if not pair[0].startswith(b":")]))
        asked.method = headers.get(b":method") or b""
        asked.path, _, asked.query = (headers.get(b":path") or b"").partition(b"?")
        route = ROUTES.get(asked.path)
        if route is None:
            said = messages.fields_of(message.request_headers).pairs
            whole = Headers(tuple([pair for pair in said if not pair[0].startswith(b":")]))
            request = Request(asked.method, asked.path, asked.query, whole)
            return self._answered(self._with.local(request), "inferplane_local")
        if asked.method != b"POST":
            raise WrongMethodError(f"{asked.path.decode()} takes POST")
        asked.route, asked.hints = route, read_hints(asked.headers)
        asked.subset = messages.subset_of(message.metadata_context)
        self.phase = Phase.BODY
        if message.request_headers.end_of_stream:
            return self._whole()
        return () if self._duplex else (messages.PASS_HEAD,)

    def _understand(self, message: pb.ProcessingRequest) -> None:
        """Learn how bodies come; a proxy that does not say so streams them, as the protocol of pickers wants."""
        if not message.HasField("protocol_config"):
            return
        config = message.protocol_config
        if config.request_body_mode not in (pb.BUFFERED, pb.FULL_DUPLEX_STREAMED):
            mode = pb.BodySendMode.Name(config.request_body_mode)
            raise UnsupportedError(f"request_body_mode is {mode}: write FULL_DUPLEX_STREAMED or BUFFERED")
        self._duplex = config.request_body_mode == pb.FULL_DUPLEX_STREAMED
        self._answer_streamed = config.response_body_mode == pb.FULL_DUPLEX_STREAMED

    def _body(self, message: pb.ProcessingRequest) -> Replies | Wish:
        asked, piece = self._asked, message.request_body
        asked.pieces.append(piece.body)
        asked.size += len(piece.body)
        limit = self._with.max_body_bytes
        if asked.size > limit:
            return self._answered(json_error(413, f"the body is larger than {limit} bytes"), "inferplane_too_large")
        whole = piece.end_of_stream or not self._duplex
        return self._whole() if whole else ()

    def _trailers(self, _: pb.ProcessingRequest) -> Replies | Wish:
        self._asked.trailers = True
        return self._whole()

    def _late_trailers(self, _: pb.ProcessingRequest) -> Replies:
        return (messages.PASS_TRAILERS,)

    def _whole(self) -> Wish:
        asked = self._asked
        wish = self._with.plane.read(asked.path, asked.route, b"".join(asked.pieces), asked.hints)
        if asked.subset is not None:
            only = self._with.endpoints.within(wish.model.service, asked.subset)
            wish = replace(wish, only=only)
        asked.pieces.clear()
        self._wish, self.phase, self.ending = wish, Phase.PLACING, Ending.ABANDONED
        return wish

    def _headers(self, wish: Wish, routed: Routed, changed: bytes | None, more: Sequence[tuple[bytes, bytes]]) -> bytes:
        pairs = [*self._with.writer.decision(routed, wish.particulars), *more]
        if changed is not None:
            pairs.append((b"content-length", b"%d" % len(changed)))
        steers = [name for name in steering(self._asked.headers) if name != _DESTINATION]
        return messages.mutation(pairs, steers)

    # The answer.

    def _answer_head(self, message: pb.ProcessingRequest) -> Replies:
        headers = messages.telling_fields_of(message.response_headers)
        self.status = int(headers.get(b":status") or 0)
        wish, routed = self._wish, self._routed
        if wish is None or routed is None:
            self.phase = Phase.ANSWER
            return (messages.PASS_ANSWER_HEAD,)
        served = messages.served_of(message.metadata_context)
        if served and served != routed.decode.address:
            self.ending = Ending.FAILED
        if self.status in _PROXYS_OWN and not _is_json(headers):
            self.ending = Ending.FAILED
            failure = UpstreamFailure.TIMEOUT if self.status == _GATEWAY_TIMEOUT else UpstreamFailure.LOST
            return self._refuse(UpstreamLostError(failure))
        if self.status >= _ERROR and self.ending is Ending.LEFT:
            # Nothing is generated any more, whether or not an agent can still say so.
            self.ending = Ending.SERVED if headers.get(RETRY) is None else Ending.FAILED
        self._answer_goes_on(ended=message.response_headers.end_of_stream)
        exposed = routed if wish.model.service.expose_headers and served in {"", routed.decode.address} else None
        shown = to_client(headers, wish.request_id, exposed=exposed)
        kept = {name for name, _ in shown.pairs}
        ours = [pair for pair in shown.pairs if pair not in headers.pairs]
        return (messages.answer_head(messages.mutation(ours, (n for n, _ in headers.pairs if n not in kept))),)

    def _answer_body(self, message: pb.ProcessingRequest) -> Replies:
        self._answer_goes_on(ended=message.response_body.end_of_stream)
        return (messages.answer_piece(message.response_body) if self._answer_streamed else messages.PASS_ANSWER_BODY,)

    def _answer_trailers(self, _: pb.ProcessingRequest) -> Replies:
        self._answer_goes_on(ended=True)
        return (messages.PASS_ANSWER_TRAILERS,)

    def _answer_goes_on(self, *, ended: bool) -> None:
        self.phase = Phase.OVER if ended else Phase.ANSWER
        if ended and self.ending is Ending.LEFT:
            self.ending = Ending.SERVED

    # Answering in the proxy's stead.

    def _refuse(self, error: GatewayError) -> Replies:
        request_id = self._wish.request_id if self._wish else request_id_of(self._asked.headers)
        shown = ((b"x-request-id", request_id.encode()),) if request_id else ()
        if self.phase in {Phase.BODY, Phase.PLACING}:
            self.ending = Ending.NONE
        return self._answered(answer(error, headers=shown), f"inferplane_{type(error).__name__}")

    def _answered(self, response: Response, details: str) -> Replies:
        self.phase, self.status = Phase.OVER, response.status
        return (messages.immediate(response, details),)

    # What may come when, and what is done then.

    _STEPS: ClassVar[dict[tuple[Phase, str], Callable[["Conversation", pb.ProcessingRequest], Replies | Wish]]] = {
        (Phase.HEAD, "request_headers"): _head,
        (Phase.BODY, "request_body"): _body,
        (Phase.BODY, "request_trailers"): _trailers,
        (Phase.SENT, "request_trailers"): _late_trailers,
        # A proxy that refuses a request by itself (too large, too slow) shows that answer too.
        (Phase.HEAD, "response_headers"): _answer_head,
        (Phase.BODY, "response_headers"): _answer_head,
        (Phase.SENT, "response_headers"): _answer_head,
        (Phase.ANSWER, "response_body"): _answer_body,
        (Phase.ANSWER, "response_trailers"): _answer_trailers,
    }


def _is_json(headers: Headers) -> bool:
    return (headers.get(b"content-type") or b"").startswith(b"application/json")
