"""Real engines behind the product, asked by an open loop: what each request saw, and what the engines had cached.

The service runs as `inferplane up` starts it.  Prompts are rows of token ids, so that no tokenizer takes a part of the
time.  A run's ids are shifted by its number: what runs before it left in the caches is of no use to it.
"""

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httpx
import orjson

from inferplane_planner.workload import Request as Asked
from inferplane_runtime.http.api import Headers, Request, ResponseHead, UpstreamFailure
from inferplane_runtime.http.client import UpstreamPool
from local_service import LocalService, prompt_tokens_by_source

MODEL: Final = "steady"
BLOCK: Final = 32
MOST_AT_ONCE: Final = 8
STEP_TOKENS: Final = 512
AIM_TTFT_S: Final = 60.0
AIM_TPOT_S: Final = 10.0
"""The service's limits, real and simulated: so wide that no request is refused for want of time."""
_VOCABULARY: Final = range(100, 4000)
"""Ordinary tokens of the model."""
_SHIFT: Final = 977
_OK: Final = 200
_SILENCE_S: Final = 120.0
_READY_LIMIT_S: Final = 600.0
_QUIET: Final = {"INFERPLANE_CANARY_INTERVAL": "24h", "INFERPLANE_TRANSFER_CHECK": "off"}
"""Questions of the agents' own would be load that nobody simulates."""
_PIECE: Final = b"data: {"


@dataclass(frozen=True, slots=True)
class Fleet:
    """Workers of a service; `prefill` 0: aggregated."""

    name: str
    prefill: int
    decode: int

    def manifest(self, model: Path) -> str:
        """Return the service as JSON, which is YAML too."""
        mode = {"mode": "disaggregated", "prefill": {"replicas": self.prefill}} if self.prefill else {}
        return json.dumps(
            {
                "apiVersion": "inferplane.dev/v1alpha1",
                "kind": "InferenceService",
                "metadata": {"name": MODEL},
                "spec": {
                    "model": {"name": f"inferplane/{MODEL}", "servedNames": [MODEL], "source": {"path": str(model)}},
                    "engine": _ENGINE,
                    "slo": {"ttft": f"{AIM_TTFT_S:g}s", "tpot": f"{AIM_TPOT_S:g}s"},
                    "mode": "aggregated",
                    "decode": {"replicas": self.decode},
                    **mode,
                },
            }
        )


_ENGINE: Final = {
    "type": "vllm",
    "device": "cpu",
    "dtype": "float32",
    "blockSize": BLOCK,
    "maxModelLen": 2048,
    "kvCacheMemory": "128Mi",
    "maxNumSeqs": MOST_AT_ONCE,
    "maxNumBatchedTokens": STEP_TOKENS,
    "env": {"OMP_NUM_THREADS": "1"},
}
"""One thread an engine: two engines have a core each, as two have an accelerator each."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One request as its client saw it, in seconds."""

    at_s: float
    ttft_s: float
    tpot_s: float


@dataclass(slots=True)
class Visit:
    """The sink of one answer."""

    due_s: float
    """When it was to be sent, in seconds of the loop's clock: being late is part of the time."""
    done: "asyncio.Future[None]"
    first_s: float = 0.0
    last_s: float = 0.0
    pieces: int = 0
    failure: str = ""

    def on_head(self, head: ResponseHead) -> None:
        if head.status != _OK:
            self.failure = f"status {head.status}"

    def on_body(self, data: bytes) -> None:
        pieces = data.count(_PIECE)
        if pieces:
            self.last_s = time.monotonic()
            self.first_s = self.first_s or self.last_s
            self.pieces += pieces

    def on_end(self) -> None:
        self.done.set_result(None)

    def on_failure(self, failure: UpstreamFailure, detail: str) -> None:
        self.failure = f"{failure}: {detail}"
        self.done.set_result(None)


@dataclass(slots=True)
class Live:
    """A running service."""

    service: LocalService
    runs: int = 0

    @classmethod
    def start(cls, fleet: Fleet, model: Path, folder: Path) -> "Live":
        manifest = folder / f"{fleet.name}.yaml"
        manifest.write_text(fleet.manifest(model), encoding="utf-8")
        service = LocalService.start(manifest, folder / fleet.name, settings=_QUIET)
        try:
            service.wait_ready(_READY_LIMIT_S)
        except BaseException:
            service.stop()
            raise
        return cls(service)

    @property
    def url(self) -> str:
        return str(self.service.ready_status().url)

    def kv_tokens(self) -> int:
        """Return how many tokens of KV an engine has room for: all its blocks but the one that stands for nothing."""
        text = httpx.get(f"{self._engines()[0]}/metrics", timeout=30).text
        line = next(line for line in text.splitlines() if line.startswith("vllm:cache_config_info{"))
        return (int(line.split('num_gpu_blocks="')[1].split('"')[0]) - 1) * BLOCK

    def hits(self) -> Mapping[str, float]:
        """Return the prompt tokens of the engines that compute prompts, by where they came from."""
        total: dict[str, float] = {}
        for url in self._engines():
            for source, tokens in prompt_tokens_by_source(url).items():
                total[source] = total.get(source, 0.0) + tokens
        return total

    def _engines(self) -> list[str]:
        """Return the addresses of those that compute prompts."""
        workers = self.service.ready_status().workers
        first = [worker for worker in workers if worker.role == "prefill"] or list(workers)
        return [worker.engine_url for worker in first]

    async def load(self, asked: Sequence[Asked]) -> list[Seen]:
        """Send requests when they are due, and wait for the last answer.  Raises RuntimeError where one fails."""
        self.runs += 1
        pool, visits = UpstreamPool(), list[Visit]()
        address, begun = self.url.removeprefix("http://"), time.monotonic() + 0.5
        bodies = [body_of(each, self.runs) for each in asked]
        for each, body in zip(asked, bodies, strict=True):
            due = begun + each.at_s
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            visit = Visit(due, asyncio.get_running_loop().create_future())
            pool.send(address, _request(address, body), visit, silence_s=_SILENCE_S)
            visits.append(visit)
        for visit in visits:
            await visit.done
        await pool.close()
        return [_seen(visit, each) for visit, each in zip(visits, asked, strict=True)]


def body_of(asked: Asked, run: int) -> bytes:
    """Return the body of a request of a run."""
    ids = (asked.prompt.token_ids() + run * _SHIFT) % len(_VOCABULARY) + _VOCABULARY.start
    tokens = asked.output_tokens
    fixed = {"model": MODEL, "max_tokens": tokens, "min_tokens": tokens, "ignore_eos": True, "temperature": 0}
    return orjson.dumps({**fixed, "prompt": ids.tolist(), "stream": True})


def _request(address: str, body: bytes) -> Request:
    fields = Headers(((b"host", address.encode()), (b"content-type", b"application/json")))
    return Request(b"POST", b"/v1/completions", b"", fields, body)


def _seen(visit: Visit, asked: Asked) -> Seen:
    if visit.failure or not visit.pieces:
        raise RuntimeError(f"request {asked.number} failed: {visit.failure or 'no tokens'}")
    later = max(1, asked.output_tokens - 1)
    return Seen(asked.at_s, visit.first_s - visit.due_s, (visit.last_s - visit.first_s) / later)


def hit_rate(after: Mapping[str, float], before: Mapping[str, float]) -> float:
    """Return the share of prompt tokens that was in the engines' own caches between two looks."""
    grown: dict[str, float] = {name: value - before.get(name, 0.0) for name, value in after.items()}
    whole = sum(grown.values())
    return grown.get("local_cache_hit", 0.0) / whole if whole else 0.0
