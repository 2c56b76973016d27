"""What differs between engines on the data path, behind one narrow seam.

An adapter says how a hand-off is asked for and recognised, and what the engine can do; the agent branches on its flags,
never on its name.  The simulated engine speaks vLLM's surface and has the same adapter under another name.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol, cast


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

    def transfer_request(self) -> Mapping[str, Any]:
        """Return what asks a prefill engine to keep its blocks for another."""
        ...

    def transfer_of(self, answer: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return the prefill answer's transfer parameters, or None when they would not work."""
        ...


_NEEDED = ("remote_engine_id", "remote_request_id", "remote_host", "remote_port")


@dataclass(frozen=True, slots=True)
class VllmAdapter:
    """vLLM's connectors with request parameters (NIXL): prefill answers, then decode pulls."""

    name: str = "vllm"
    traits: Traits = Traits()

    def transfer_request(self) -> Mapping[str, Any]:
        return {
            "do_remote_decode": True,
            "do_remote_prefill": False,
            "remote_engine_id": None,
            "remote_block_ids": None,
            "remote_host": None,
            "remote_port": None,
        }

    def transfer_of(self, answer: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Refuse parameters without blocks: a decode engine that gets those dies of an assertion."""
        params = answer.get("kv_transfer_params")
        if not isinstance(params, dict):
            return None
        found = cast("dict[str, Any]", params)
        if found.get("do_remote_prefill") is not True or not found.get("remote_block_ids"):
            return None
        return found if all(found.get(name) is not None for name in _NEEDED) else None


ADAPTERS: Final[Mapping[str, EngineAdapter]] = {"vllm": VllmAdapter(), "sim": VllmAdapter(name="sim")}
