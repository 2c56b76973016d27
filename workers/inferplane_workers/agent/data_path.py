"""The data path: which requests are taken, and what is set up for each.

Only known paths are forwarded.  An engine has more under the same roof (adapter loading, resets, debug routes) and
trusts whoever asks; what is not listed here does not exist for clients.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from inferplane_runtime.http.api import Exchange, Request, Upstream
from inferplane_workers.agent import body as bodies
from inferplane_workers.agent.adapter_dialect import ADAPTER_DIALECTS
from inferplane_workers.agent.adapters import Adapters, Use
from inferplane_workers.agent.body import Shape
from inferplane_workers.agent.engine_adapter import EngineAdapter, HandoffOrder
from inferplane_workers.agent.errors import AgentError, BadRequestError, RefusedError, UnknownPathError, answer
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

    __slots__ = ("_adapters", "_context", "_gate", "_observer")

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
        adapters: Adapters | None = None,
    ) -> None:
        self._gate = gate
        self._adapters = adapters or Adapters()
        self._observer = observer
        self._context = JobContext(
            settings=settings,
            adapter=adapter,
            upstream=upstream,
            ledger=ledger,
            transfers=transfers,
            observer=observer,
            now=now,
            adapters=self._adapters,
            dialect=ADAPTER_DIALECTS[adapter.name],
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
            Job.plain(self._context, request, exchange, routing, names=self._adapters.served_names()).begin()
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
        raw, model = request.body, bodies.shape(body).model
        stripped = bodies.strip_forbidden(body)
        if stripped:
            self._observer.stripped(stripped)
        use = self._use(routing, model)
        if use is not None:
            routing = _under(use, routing)
            body["model"] = self._context.engine_model(use)
        if stripped or use is not None:
            raw = bodies.write(body)
        Job.plain(self._context, request, exchange, routing, raw=raw, model=model, use=use).begin()

    def _generate(self, request: Request, exchange: Exchange, routing: Routing) -> None:
        body = bodies.parse(request.body)
        if stripped := bodies.strip_forbidden(body):
            self._observer.stripped(stripped)
        shape = bodies.shape(body)
        self._check(routing, shape)
        use = self._use(routing, shape.model)
        if use is not None:
            routing = _under(use, routing)
        make = Job.prefill if routing.handoff_prefill else Job.decode
        make(self._context, request, exchange, routing, body=body, shape=shape, use=use).begin()

    def _check(self, routing: Routing, shape: Shape) -> None:
        """Refuse what cannot be handed over where there is no other way."""
        traits = self._context.adapter.traits
        if routing.handoff_prefill and traits.handoff_order == HandoffOrder.CONCURRENT and routing.rendezvous is None:
            name = "x-inferplane-rendezvous"
            raise BadRequestError(f"header {name} must say where the two halves meet", param=name)
        if routing.prefill and not shape.handoff_possible and not traits.decode_can_prefill:
            raise BadRequestError(
                "this model is served by engines that hand over one answer to one prompt: ask for one, "
                "without log-probabilities of the prompt",
                param="n" if shape.choices > 1 else "logprobs",
            )

    def _use(self, routing: Routing, model: str) -> Use | None:
        """Begin to use an adapter, if the request is for one.

        The prefill half of a hand-off is computed under the very revision that its decode half has, or not here.
        """
        name, revision = _text(routing.adapter) or model, _text(routing.adapter_revision)
        if not routing.adapter and not self._adapters.offers(name):
            return None
        exactly = routing.handoff_prefill and bool(routing.adapter)
        use = self._adapters.use(name, revision, exactly=exactly)
        if use is None and not self._adapters.is_engines_own(name):
            raise RefusedError(f"adapter {name} is not loaded on this worker")
        return use


def _under(use: Use, routing: Routing) -> Routing:
    """Say which weights the request really gets."""
    adapter = use.adapter
    return replace(routing, adapter=_header(adapter.name), adapter_revision=_header(adapter.revision))


def _text(header: str) -> str:
    """Return what a header says: its UTF-8 is kept as Latin-1."""
    return header.encode("latin-1").decode("utf-8", "replace")


def _header(text: str) -> str:
    return text.encode("utf-8").decode("latin-1")
