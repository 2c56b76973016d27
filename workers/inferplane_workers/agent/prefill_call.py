"""The prefill half as the decode side sees it: one call to a prefill agent, reduced to one event."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from inferplane_runtime.http.api import Call, Request, Response, ResponseHead, Upstream, UpstreamFailure
from inferplane_workers.agent import body as bodies
from inferplane_workers.agent import usage as usages
from inferplane_workers.agent.engine_adapter import EngineAdapter
from inferplane_workers.agent.handoff import Event
from inferplane_workers.agent.routing_headers import Rendezvous, Routing, answer_headers, prefill_headers

if TYPE_CHECKING:
    from inferplane_workers.agent.usage import Usage

_LONGEST_ANSWER = 16 * 1024 * 1024
_OK = 200
# The request itself is at fault; anything else may go better elsewhere (an adapter that is not loaded here is a 404).
_AT_FAULT = frozenset((400, 413, 422))


class PrefillCall:
    """Sends one prefill half; calls `done` once, unless cancelled."""

    __slots__ = (
        "_adapter",
        "_body",
        "_call",
        "_done",
        "_dp_rank",
        "_head",
        "_over",
        "_pieces",
        "_rendezvous",
        "_request",
        "_routing",
        "_silence_s",
        "_size",
        "_upstream",
        "address",
        "cause",
        "event",
        "refusal",
        "transfer",
        "usage",
        "worker",
    )

    def __init__(
        self,
        *,
        upstream: Upstream,
        address: str,
        request: Request,
        routing: Routing,
        dp_rank: int,
        body: Mapping[str, Any],
        adapter: EngineAdapter,
        silence_s: float,
        done: "Callable[[PrefillCall], None]",
        rendezvous: Rendezvous | None = None,
    ) -> None:
        self._upstream = upstream
        self._request = request
        self._routing = routing
        self._dp_rank = dp_rank
        self._body = body
        self._adapter = adapter
        self._silence_s = silence_s
        self._done = done
        self._rendezvous = rendezvous
        self._call: Call | None = None
        self._head: ResponseHead | None = None
        self._pieces: list[bytes] = []
        self._size = 0
        self._over = False
        self.address = address
        self.cause = ""
        """Why it gave nothing to decode with, in a word or two."""
        self.event = Event.PREFILL_FAILED
        self.refusal: Response | None = None
        self.transfer: Mapping[str, Any] | None = None
        self.usage: Usage | None = None
        self.worker = ""

    def begin(self) -> None:
        request = Request(
            b"POST",
            self._request.path,
            headers=prefill_headers(self._request.headers, self._routing, self._dp_rank, self._rendezvous),
            body=bodies.write(self._body),
        )
        self._call = self._upstream.send(self.address, request, self, silence_s=self._silence_s)

    def cancel(self) -> None:
        if not self._over:
            self._over = True
            if self._call is not None:
                self._call.cancel()

    def on_head(self, head: ResponseHead) -> None:
        self._head = head
        self.worker = (head.headers.get(b"x-inferplane-worker") or b"").decode("latin-1")

    def on_body(self, data: bytes) -> None:
        self._pieces.append(data)
        self._size += len(data)
        if self._size > _LONGEST_ANSWER and not self._over:
            if self._call is not None:
                self._call.cancel()
            self._conclude(Event.PREFILL_FAILED, "answer too long")

    def on_end(self) -> None:
        status = self._head.status if self._head else 0
        raw = b"".join(self._pieces)
        if status != _OK:
            headers = answer_headers(self._head.headers).without((b"content-length",)) if self._head else None
            self.refusal = Response(status, headers, raw) if headers is not None else None
            self._conclude(Event.PREFILL_REJECTED if status in _AT_FAULT else Event.PREFILL_FAILED, f"status {status}")
            return
        self.usage, fields = usages.from_answer(raw)
        self.transfer = self._adapter.transfer_of(fields) if fields is not None else None
        self._conclude(Event.PREFILL_ANSWERED, "" if self.transfer is not None else "no blocks offered")

    def on_failure(self, failure: UpstreamFailure, detail: str) -> None:
        del detail
        self._conclude(Event.PREFILL_FAILED, failure.value)

    def _conclude(self, event: Event, cause: str) -> None:
        if self._over:
            return
        self._over = True
        self._call = None
        self.event = event
        self.cause = cause
        self._done(self)
