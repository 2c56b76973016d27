"""What an engine says of itself once it is up: start, version, models, adapters, cache.

Anything an engine does not say stays as it was configured; only a block size that contradicts the configuration is an
error, since every block hash would be wrong and every prediction with it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from inferplane_api.proto import worker_pb2 as pb
from inferplane_engine.identity import Adapter
from inferplane_runtime.http.api import Response
from inferplane_workers.agent.config import AgentConfig
from inferplane_workers.agent.engine_client import EngineClient, json_object
from inferplane_workers.agent.engine_metrics import EnginePage, read_page

_ASK_S = 10.0


@dataclass(frozen=True, slots=True)
class Facts:
    """One start of an engine."""

    start: str
    version: str
    max_model_len: int
    adapters: frozenset[str]
    """Names of the adapters that it has loaded, as it calls them."""
    kv_blocks: int
    problem: str = ""
    """Why this engine cannot be used as configured."""


async def ask(client: EngineClient, config: AgentConfig, *, unnamed_start: str) -> Facts:
    """Ask everything; `unnamed_start` stands for a start that neither a file nor the engine tells."""
    version = json_object(await client.get(b"/version", timeout_s=_ASK_S)) or {}
    models = json_object(await client.get(b"/v1/models", timeout_s=_ASK_S)) or {}
    page = await _page(client)
    entries = [cast("dict[str, Any]", entry) for entry in models.get("data") or () if isinstance(entry, dict)]
    return Facts(
        start=start_of(config.engine_start_file) or page.started or unnamed_start,
        version=str(version.get("version") or ""),
        max_model_len=_max_model_len(entries),
        adapters=frozenset(str(entry["id"]) for entry in entries if _is_adapter(entry)),
        kv_blocks=page.kv_blocks,
        problem=_problem(config, page, entries),
    )


def start_of(file: Path | None) -> str:
    """Name an engine's start by the file that its container touches; "" where there is none."""
    if file is None:
        return ""
    try:
        return str(file.stat().st_mtime_ns)
    except FileNotFoundError:
        return ""


def apply(facts: Facts, identity: pb.Identity) -> None:
    """Put the facts into what routers are told."""
    identity.engine_start = facts.start
    identity.engine_version = facts.version
    identity.max_model_len = facts.max_model_len
    identity.kv_blocks_per_rank = facts.kv_blocks


def apply_adapters(adapters: Iterable[Adapter], identity: pb.Identity) -> bool:
    """Put what requests may ask for into what routers are told; says whether that is news."""
    told = [pb.Adapter(name=adapter.name, revision=adapter.revision) for adapter in adapters]
    if list(identity.adapters) == told:
        return False
    del identity.adapters[:]
    identity.adapters.extend(told)
    return True


async def _page(client: EngineClient) -> EnginePage:
    response = await client.get(b"/metrics", timeout_s=_ASK_S)
    if isinstance(response, Response) and response.status == 200:  # noqa: PLR2004 - HTTP
        return read_page(response.body)
    return EnginePage()


def _problem(config: AgentConfig, page: EnginePage, entries: list[dict[str, Any]]) -> str:
    if page.block_size and page.block_size != config.block_size:
        return f"the engine's block size is {page.block_size}, --block-size says {config.block_size}: make them equal"
    served = {str(entry.get("id")) for entry in entries}
    missing = [name for name in config.names if served and name not in served]
    if missing:
        return f"the engine does not serve {', '.join(missing)} (it serves {', '.join(sorted(served))})"
    return ""


def _is_adapter(entry: Mapping[str, Any]) -> bool:
    return bool(entry.get("parent")) and isinstance(entry.get("id"), str)


def _max_model_len(entries: list[dict[str, Any]]) -> int:
    lengths = [entry.get("max_model_len") for entry in entries]
    return max((length for length in lengths if isinstance(length, int)), default=0)
