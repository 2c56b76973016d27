"""Adapters of the simulated engine: loaded and unloaded while it runs, by vLLM's routes and with its refusals.

As in vLLM, loading is off unless the environment allows it, an adapter's folder must hold `adapter_config.json`, and
its rank must fit; unloading takes the name away and leaves alone what runs.  The number has no limit: vLLM swaps.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import cast

import orjson

from inferplane_runtime.http.api import Request, Response
from inferplane_workers.sim.errors import ApiError, bad_request, text_response
from inferplane_workers.sim.fields import Body
from inferplane_workers.sim.options import Adapter, LoraOptions

_CONFIG = "adapter_config.json"


class LoadedAdapters:
    """What the engine has loaded, by name."""

    def __init__(self, options: LoraOptions, served_names: Iterable[str], static: Iterable[Adapter]) -> None:
        self._options = options
        self._served_names = tuple(served_names)
        self._loaded = {adapter.name: adapter for adapter in static}
        self._numbers = len(self._loaded)

    def get(self, name: str) -> Adapter | None:
        return self._loaded.get(name)

    def all(self) -> tuple[Adapter, ...]:
        return tuple(self._loaded.values())

    def load(self, request: Request) -> Response:
        body = Body.parse(request.body)
        name, path = body.text("lora_name") or "", body.text("lora_path") or ""
        self._check(name, path, in_place=body.flag("load_inplace"))
        self._read(name, path)
        known = self._loaded.get(name)
        self._numbers += known is None
        self._loaded[name] = Adapter(name, path, self._numbers if known is None else known.number)
        return text_response(f"Success: LoRA adapter '{name}' added successfully.")

    def unload(self, request: Request) -> Response:
        name = Body.parse(request.body).text("lora_name") or ""
        if self._loaded.pop(name, None) is None:
            raise ApiError(404, f"The lora adapter '{name}' cannot be found.", kind="NotFoundError")
        return text_response(f"Success: LoRA adapter '{name}' removed successfully.")

    def _check(self, name: str, path: str, *, in_place: bool) -> None:
        if not self._options.enabled:
            raise ApiError(500, "LoRA is not enabled. Use --enable-lora to enable LoRA.", kind="InternalServerError")
        if not name or not path:
            raise bad_request("Both 'lora_name' and 'lora_path' must be provided.")
        if name in self._served_names:
            raise bad_request(f"The lora adapter '{name}' conflicts with a served base model.")
        if name in self._loaded and not in_place:
            raise bad_request(
                f"The lora adapter '{name}' has already been loaded. If you want to load the adapter in place, set "
                "'load_inplace' to True."
            )

    def _read(self, name: str, path: str) -> None:
        try:
            config: object = orjson.loads((Path(path) / _CONFIG).read_bytes())
        except OSError:
            raise ApiError(
                404, f"Loading lora {name} failed: No adapter found for {path}", kind="NotFoundError"
            ) from None
        except orjson.JSONDecodeError as error:
            raise ApiError(500, f"{path}/{_CONFIG}: {error}", kind="InternalServerError") from None
        rank = cast("dict[str, object]", config).get("r") if isinstance(config, dict) else None
        if not isinstance(rank, int) or rank < 1:
            raise _failed(f"LoRA rank `r` must be a positive integer, got {rank}.")
        if rank > self._options.max_rank:
            most = self._options.max_rank
            raise _failed(f"LoRA rank {rank} is greater than max_lora_rank {most}.")


def _failed(why: str) -> ApiError:
    return ApiError(500, f"Call to add_lora method failed: {why}", kind="InternalServerError")
