"""What differs between engines on the data path, behind one narrow seam.

An adapter says how the halves of a hand-off look and what the engine can do; the agent branches on its flags, never on
its name.  The simulated engine speaks vLLM's surface and has the same adapter under another name.
SGLang is known from its documentation and its source (0.5.23); no such engine was run.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol, cast

from inferplane_workers.agent import body as bodies
from inferplane_workers.agent.body import Body
from inferplane_workers.agent.routing_headers import Rendezvous, Routing


class HandoffOrder:
    """How the two halves of a hand-off relate in time."""

    SEQUENTIAL: Final = "sequential"
    CONCURRENT: Final = "concurrent"


@dataclass(frozen=True, slots=True)
class Traits:
    """Capability flags of one engine, as the data path needs them."""

    handoff_order: str = HandoffOrder.SEQUENTIAL
    decode_can_prefill: bool = True
    continuous_usage: bool = True
    lease_s: float = 30.0
    """How long a prefill engine keeps finished blocks that nobody asked for."""


class EngineAdapter(Protocol):
    """One engine's dialect."""

    @property
    def name(self) -> str: ...

    @property
    def traits(self) -> Traits: ...

    def prefill_half(self, body: Mapping[str, Any], routing: Routing) -> Body:
        """Return what a prefill engine is asked."""
        ...

    def decode_half(self, body: Mapping[str, Any], transfer: Mapping[str, Any]) -> Body:
        """Return what a decode engine is asked."""
        ...

    def meeting_fields(self, rendezvous: Rendezvous, prefill_dp_rank: int) -> Mapping[str, Any]:
        """Return what tells an engine where the two halves meet, if they do."""
        ...

    def transfer_of(self, answer: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return the prefill answer's transfer parameters, or None when they would not work."""
        ...


_KEEP_BLOCKS: Final[Mapping[str, Any]] = {
    "do_remote_decode": True,
    "do_remote_prefill": False,
    "remote_engine_id": None,
    "remote_block_ids": None,
    "remote_host": None,
    "remote_port": None,
}
"""Asks a prefill engine to keep its blocks for another."""
_NEEDED = ("remote_engine_id", "remote_request_id", "remote_host", "remote_port")


@dataclass(frozen=True, slots=True)
class VllmAdapter:
    """vLLM's connectors with request parameters (NIXL): prefill answers, then decode pulls."""

    name: str = "vllm"
    traits: Traits = Traits()

    def prefill_half(self, body: Mapping[str, Any], routing: Routing) -> Body:
        del routing
        return bodies.for_prefill(body, _KEEP_BLOCKS)

    def decode_half(self, body: Mapping[str, Any], transfer: Mapping[str, Any]) -> Body:
        return bodies.for_decode(body, transfer)

    def meeting_fields(self, rendezvous: Rendezvous, prefill_dp_rank: int) -> Mapping[str, Any]:
        raise NotImplementedError  # its halves follow each other

    def transfer_of(self, answer: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Refuse parameters without blocks: a decode engine that gets those dies of an assertion."""
        params = answer.get("kv_transfer_params")
        if not isinstance(params, dict):
            return None
        found = cast("dict[str, Any]", params)
        if found.get("do_remote_prefill") is not True or not found.get("remote_block_ids"):
            return None
        return found if all(found.get(name) is not None for name in _NEEDED) else None


@dataclass(frozen=True, slots=True)
class SglangAdapter:
    """SGLang: both halves name one room; the first token is the prefill engine's, so its half is the whole request."""

    name: str = "sglang"
    traits: Traits = Traits(handoff_order=HandoffOrder.CONCURRENT, decode_can_prefill=False)

    def prefill_half(self, body: Mapping[str, Any], routing: Routing) -> Body:
        half = {name: value for name, value in body.items() if name not in ("stream", "stream_options")}
        place = routing.rendezvous
        return {**half, "stream": False, **(self.meeting_fields(place, routing.dp_rank) if place else {})}

    def decode_half(self, body: Mapping[str, Any], transfer: Mapping[str, Any]) -> Body:
        return {**body, **transfer}

    def meeting_fields(self, rendezvous: Rendezvous, prefill_dp_rank: int) -> Mapping[str, Any]:
        return {
            "bootstrap_host": rendezvous.host,
            "bootstrap_port": rendezvous.port,
            "bootstrap_room": rendezvous.room,
            "disagg_prefill_dp_rank": prefill_dp_rank,
        }

    def transfer_of(self, answer: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Say nothing: an answer means that the blocks were taken."""
        del answer
        return None


ADAPTERS: Final[Mapping[str, EngineAdapter]] = {
    "vllm": VllmAdapter(),
    "sglang": SglangAdapter(),
    "sim": VllmAdapter(name="sim"),
}
