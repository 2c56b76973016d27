"""Fakes for the gateway's neighbours: a core that answers as told, an encoder that counts bytes."""

from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from inferplane_api.catalogue import CatalogueService
from inferplane_api.proto.router_pb2 import DecisionRecord
from inferplane_api.proto.worker_pb2 import Outcome
from inferplane_engine.identity import Adapter, KeySpace
from inferplane_router.core.values import (
    Answer,
    Ask,
    Expectation,
    ModelFacts,
    Queued,
    RefusalReason,
    Refused,
    ResolvedModel,
    Routed,
    Statistics,
    TargetRef,
    UnknownModel,
)
from inferplane_router.gateway.seams import EncodedPrompt


def target(name: str, rank: int = 0) -> TargetRef:
    return TargetRef(name, rank, f"{name}:8100")


def routed(ask: Ask, decode: str = "d0", prefill: tuple[str, ...] = ()) -> Routed:
    """Build the answer that places `ask` on these workers."""
    tokens = 0 if ask.tokens is None else int(ask.tokens.size)
    sides = tuple(target(name) for name in prefill)
    return Routed(ask.request_id, target(decode), sides, tokens, 0, 0, 0.1, 0.01, nonce=ask.nonce)


@dataclass
class ScriptedCore:
    """A `Routing` that answers from a list, and routes to `d0`, `d1`, ... when the list is empty."""

    services: dict[str, CatalogueService] = field(default_factory=dict[str, CatalogueService])
    adapters: dict[str, tuple[str, Adapter]] = field(default_factory=dict[str, tuple[str, Adapter]])
    facts: ModelFacts | None = field(
        default_factory=lambda: ModelFacts(KeySpace("m", "r", 16), 1, 1000, "digest", ("d0:8100",))
    )
    script: list[Answer] = field(default_factory=list[Answer])
    polled: list[tuple[str, Routed | Refused]] = field(default_factory=list[tuple[str, Routed | Refused]])
    asks: list[Ask] = field(default_factory=list[Ask])
    retries: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    completed: list[tuple[str, Outcome]] = field(default_factory=list[tuple[str, Outcome]])
    records: dict[str, DecisionRecord] = field(default_factory=dict[str, DecisionRecord])
    prefill: tuple[str, ...] = ()
    expects: tuple[Expectation, ...] = ()
    wakeup: float | None = None
    ended_by_report: bool = False
    """The agent's report of a failure comes before its answer: `retry` knows the request no more."""

    def resolve_model(self, name: str) -> ResolvedModel | UnknownModel:
        if name in self.adapters:
            base, adapter = self.adapters[name]
            return ResolvedModel(name, self.services[base], name, adapter, self.facts)
        service = self.services.get(name)
        if service is None:
            return UnknownModel(name, self.model_names())
        return ResolvedModel(name, service, service.served_names[0], None, self.facts)

    def model_names(self) -> tuple[str, ...]:
        return (*self.services, *self.adapters)

    def pick(self, ask: Ask, now: float) -> Answer:  # noqa: ARG002 - the protocol's signature
        self.asks.append(ask)
        if self.script:
            return self.script.pop(0)
        place = routed(ask, prefill=self.prefill)
        return Routed(
            place.request_id,
            place.decode,
            place.prefill,
            place.prompt_tokens,
            place.prefill_cached_tokens,
            place.decode_cached_tokens,
            place.ttft_s,
            place.tpot_s,
            self.expects,
            place.nonce,
        )

    def retry(self, request_id: str, failed_worker: str, now: float) -> Answer:  # noqa: ARG002 - see above
        self.retries.append((request_id, failed_worker))
        if self.ended_by_report:
            raise KeyError(request_id)
        if self.script:
            return self.script.pop(0)
        ask = next(ask for ask in self.asks if ask.request_id == request_id)
        return routed(ask, decode=f"d{len(self.retries)}", prefill=self.prefill)

    def in_force(self, request_id: str) -> bool:
        ended = {ended for ended, _ in self.completed}
        return any(ask.request_id == request_id for ask in self.asks) and request_id not in ended

    def complete(self, request_id: str, outcome: Outcome, now: float) -> None:  # noqa: ARG002 - see above
        self.completed.append((request_id, outcome))

    def poll(self, now: float) -> list[tuple[str, Routed | Refused]]:  # noqa: ARG002 - see above
        done, self.polled = self.polled, []
        return done

    def next_wakeup(self) -> float | None:
        return self.wakeup

    def explain(self, request_id: str) -> DecisionRecord | None:
        return self.records.get(request_id)

    def statistics(self) -> Statistics:
        return Statistics((), (), len(self.asks), 0, {}, len(self.retries), {}, 0, 0, 0, 0)


def refused(request_id: str, reason: RefusalReason, retry_after_s: float = 2.0) -> Refused:
    return Refused(request_id, reason, f"refused: {reason.value}", retry_after_s)


def queued(request_id: str) -> Queued:
    return Queued(request_id, 1, 10.0)


class ByteEncoder:
    """A `PromptEncoder` whose tokens are the bytes of the messages or the prompt."""

    def __init__(self, later: Awaitable[EncodedPrompt] | None = None, error: Exception | None = None) -> None:
        self.later = later
        self.error = error

    def encode(
        self, model: ResolvedModel, path: str, body: Mapping[str, Any], *, size: int
    ) -> EncodedPrompt | Awaitable[EncodedPrompt]:
        del size
        if self.error is not None:
            raise self.error
        if self.later is not None:
            return self.later
        text = f"{model.model_name}{path}{body.get('messages')}{body.get('prompt')}"
        return EncodedPrompt(np.frombuffer(text.encode(), np.uint8).astype(np.int32), templated=True)


class NotedAnnouncements:
    """An `Announcer` that keeps what it is told."""

    def __init__(self) -> None:
        self.noted: list[tuple[str, Expectation]] = []

    def announce(self, request_id: str, expectation: Expectation) -> None:
        self.noted.append((request_id, expectation))
