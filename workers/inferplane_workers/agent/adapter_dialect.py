"""How each engine is told to load and unload an adapter, and how a request names one."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol, cast

import orjson

from inferplane_runtime.http.api import Response
from inferplane_workers.agent.engine_client import json_object

_ERROR_LENGTH: Final = 1_000
_OK: Final = 200
_NOT_FOUND: Final = 404


class AdapterDialect(Protocol):
    """One engine's routes for adapters."""

    @property
    def load_path(self) -> bytes: ...

    @property
    def unload_path(self) -> bytes: ...

    def model(self, engine_name: str, base: str) -> str:
        """Return what a request's `model` must be; `base` is the model's own first name."""
        ...


@dataclass(frozen=True, slots=True)
class VllmAdapters:
    load_path: bytes = b"/v1/load_lora_adapter"
    unload_path: bytes = b"/v1/unload_lora_adapter"

    def model(self, engine_name: str, base: str) -> str:
        del base
        return engine_name


@dataclass(frozen=True, slots=True)
class SglangAdapters:
    load_path: bytes = b"/load_lora_adapter"
    unload_path: bytes = b"/unload_lora_adapter"

    def model(self, engine_name: str, base: str) -> str:
        return f"{base}:{engine_name}"


ADAPTER_DIALECTS: Final[Mapping[str, AdapterDialect]] = {
    "vllm": VllmAdapters(),
    "sim": VllmAdapters(),
    "sglang": SglangAdapters(),
}


def refusal(answer: Response) -> str:
    """Return why the engine did not do it, in its own words; "" when it did."""
    fields = json_object(answer) or {}
    if answer.status == _OK and fields.get("success") is not False:
        return ""
    return _words(answer)[:_ERROR_LENGTH] or f"the engine answered {answer.status}"


def is_unknown(answer: Response) -> bool:
    """Whether an adapter that was to be unloaded was not there."""
    return answer.status == _NOT_FOUND


def is_loaded_already(answer: Response) -> bool:
    """Whether an adapter that was to be loaded is there: names stand for their weights, so it is the same one."""
    return b"already been loaded" in answer.body


def _words(answer: Response) -> str:
    try:
        value: object = orjson.loads(answer.body)
    except orjson.JSONDecodeError:
        return answer.body.decode("utf-8", "replace").strip()
    fields = cast("dict[str, object]", value) if isinstance(value, dict) else {}
    error = fields.get("error")
    if isinstance(error, dict):
        return str(cast("dict[str, object]", error).get("message", ""))
    return str(fields.get("error_message") or fields.get("message") or error or "")
