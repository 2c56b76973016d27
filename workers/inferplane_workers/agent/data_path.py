"""The data path: which requests are taken, and what is set up for each.

Only known paths are forwarded.  An engine has more under the same roof (adapter loading, resets, debug routes) and
trusts whoever asks; what is not listed here does not exist for clients.
"""

from collections.abc import Callable
from typing import Final

from inferplane_runtime.http.api import Exchange, Request, Upstream
from inferplane_workers.agent import body as bodies
from inferplane_workers.agent.engine_adapter import EngineAdapter
from inferplane_workers.agent.errors import AgentError, BadRequestError, UnknownPathError, answer
from inferplane_workers.agent.gate import Gate
from inferplane_workers.agent.job import Job
from inferplane_workers.agent.job_context import JobContext
from inferplane_workers.agent.ledger import Ledger
from inferplane_workers.agent.routing_headers import Routing, read_routing
from inferplane_workers.agent.seams import DataPathSettings, Observer
from inferplane_workers.agent.transfers import Transfers

GENERATING: Final = frozenset((b"/v1/chat/completions", b"/v1/completions"))
PLAIN: Final = frozenset(
    (
        b"/v1/embeddings",
        b"/v1/rerank",
        b"/v1/score",
        b"/v1/classify",
        b"/v1/pooling",
        b"/v1/responses",
        b"/v1/messages",
        b"/v1/messages/count_tokens",
        b"/v1/chat/completions/render",
        b"/v1/completions/render",
        b"/tokenize",
        b"/detokenize",
    )
)
READABLE: Final = frozenset((b"/v1/models",))


class DataPath:
    """Takes each request of the data path."""

    __slots__ = ("_context", "_gate", "_observer")

    def __init__(
        self,
        *,
        settings: DataPathSettings,
        adapter: EngineAdapter,
        upstream: Upstream,
        gate: Gate,
        ledger: Ledger,
        transfers: Transfers,
        observer: Observer,
        now: Callable[[], float],
    ) -> None:
        self._gate = gate
        self._observer = observer
        self._context = JobContext(
            settings=settings,
            adapter=adapter,
            upstream=upstream,
            ledger=ledger,
            transfers=transfers,
            observer=observer,
            now=now,
        )

    @property
    def context(self) -> JobContext:
        return self._context

    def __call__(self, request: Request, exchange: Exchange) -> None:
        try:
            self._take(request, exchange)
        except AgentError as error:
            exchange.respond(answer(error))

    def _take(self, request: Request, exchange: Exchange) -> None:
        refusal = self._gate.refusal()
        if refusal is not None:
            raise refusal
        routing = read_routing(request.headers)
        if request.method == b"GET" and request.path in READABLE:
            Job.plain(self._context, request, exchange, routing).begin()
            return
        if request.method != b"POST":
            raise UnknownPathError(f"no route for {request.method.decode('latin-1')} {request.path.decode('latin-1')}")
        if request.path in GENERATING:
            self._generate(request, exchange, routing)
        elif request.path in PLAIN:
            self._forward(request, exchange, routing)
        else:
            raise UnknownPathError(f"no route for POST {request.path.decode('latin-1')}")

    def _forward(self, request: Request, exchange: Exchange, routing: Routing) -> None:
        if routing.handoff_prefill:
            raise BadRequestError("a hand-off is for chat and text completions only", param="x-inferplane-handoff")
        body = bodies.parse(request.body)
        raw = request.body
        if stripped := bodies.strip_forbidden(body):
            self._observer.stripped(stripped)
            raw = bodies.write(body)
        Job.plain(self._context, request, exchange, routing, raw=raw, model=bodies.shape(body).model).begin()

    def _generate(self, request: Request, exchange: Exchange, routing: Routing) -> None:
        body = bodies.parse(request.body)
        if stripped := bodies.strip_forbidden(body):
            self._observer.stripped(stripped)
        shape = bodies.shape(body)
        if routing.handoff_prefill:
            Job.prefill(self._context, request, exchange, routing, body=body, shape=shape).begin()
        else:
            Job.decode(self._context, request, exchange, routing, body=body, shape=shape).begin()
