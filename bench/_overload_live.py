"""Overload of real processes: a router, agents, simulated engines, and real Envoy where it is asked for.

Engines are processes of their own; router, agents and the client share one.  Capacity is small (two engines that take
four requests each and compute slowly), so that the machine's own speed hardly matters.
"""

import asyncio
import random
import tempfile
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import orjson

from envoy_front import WITH_PICKER, behind_envoy
from inferplane_runtime.http.api import Headers, Request, ResponseHead, UpstreamFailure
from inferplane_workers.agent.config import Role
from one_loop_service import OneLoopService, WorkerSpec, one_loop_service

TTFT_S: Final = 2.0
TPOT_S: Final = 0.1
"""The service's limits: the catalogue's defaults."""
_PLACES: Final = 4
_TOKENS: Final = 24
_SPEED: Final = 0.15
_WORDS: Final = {False: 30, True: 200}
"""Of short and long prompts: so many that prompts and answers each take a part of the time."""
_LONG_SHARE: Final = 0.25
_HIGH_SHARE: Final = 0.2
_FAILED: Final = 0


@dataclass(slots=True)
class Visit:
    """One request of a client, as the client saw it; it is the sink of its answer."""

    important: bool
    long: bool
    begun: float
    done: "asyncio.Future[None]"
    status: int = _FAILED
    retry_after_s: float = 0.0
    first: float = 0.0
    last: float = 0.0
    pieces: int = 0

    def on_head(self, head: ResponseHead) -> None:
        self.status = head.status
        self.retry_after_s = float(head.headers.get(b"retry-after") or 0)

    def on_body(self, data: bytes) -> None:
        self.last = time.monotonic()
        self.first = self.first or self.last
        self.pieces += data.count(b"data: {")

    def on_end(self) -> None:
        self.done.set_result(None)

    def on_failure(self, failure: UpstreamFailure, detail: str) -> None:
        del failure, detail
        self.status = _FAILED
        self.done.set_result(None)

    @property
    def answered(self) -> bool:
        return self.status == 200  # noqa: PLR2004 - HTTP

    @property
    def met(self) -> bool:
        """Both limits were kept."""
        if not self.answered:
            return False
        tpot_s = (self.last - self.first) / max(1, self.pieces - 1)
        return self.first - self.begun <= TTFT_S and tpot_s <= TPOT_S


@dataclass(slots=True)
class Clients:
    """Who sends requests through one front."""

    service: OneLoopService
    rng: random.Random
    visits: list[Visit] = field(default_factory=list[Visit])
    _sent: int = 0

    async def visit(self) -> Visit:
        """Send one request, and wait for its end."""
        self._sent += 1
        important, long = self.rng.random() < _HIGH_SHARE, self.rng.random() < _LONG_SHARE
        visit = Visit(important, long, time.monotonic(), asyncio.get_running_loop().create_future())
        words = " ".join(f"w{self.rng.randrange(10_000)}" for _ in range(_WORDS[long]))
        body = {"model": "tiny", "prompt": words, "max_tokens": _TOKENS, "ignore_eos": True, "stream": True}
        pairs = ((b"content-type", b"application/json"), (b"x-inferplane-priority", b"10" if important else b"0"))
        request = Request(b"POST", b"/v1/completions", b"", Headers(pairs), orjson.dumps(body))
        self.service.client.send(self.service.address, request, visit, silence_s=60.0)
        await visit.done
        return visit

    async def capacity_per_s(self, seconds: float) -> float:
        """Keep more requests than places going; return how many a second are answered."""
        ends, answered = time.monotonic() + seconds, 0

        async def go_on() -> None:
            nonlocal answered
            while time.monotonic() < ends:
                visit = await self.visit()
                answered += visit.answered and visit.last <= ends
                if not visit.answered:
                    await asyncio.sleep(0.5)

        await asyncio.gather(*(go_on() for _ in range(3 * _PLACES)))
        return answered / seconds

    async def load(self, per_s: float, seconds: float, warm_up_s: float) -> list[Visit]:
        """Send requests at random moments; return those after the warm-up."""
        begun = due = time.monotonic()
        async with asyncio.TaskGroup() as group:
            tasks = list[asyncio.Task[Visit]]()
            while due - begun < warm_up_s + seconds:
                await asyncio.sleep(max(0.0, due - time.monotonic()))
                tasks.append(group.create_task(self.visit(), name="visit"))
                due += self.rng.expovariate(per_s)
        return [visit for visit in (task.result() for task in tasks) if visit.begun - begun >= warm_up_s]


@asynccontextmanager
async def fronted(front: str, folder: Path) -> AsyncGenerator[OneLoopService]:
    flags = ["--max-num-seqs", str(_PLACES), "--sim-speed", str(_SPEED)]
    specs = [
        WorkerSpec(name, Role.DECODE, engine_flags=flags, own_process=True, changes={"max_num_seqs": _PLACES})
        for name in ("d0", "d1")
    ]
    async with one_loop_service(folder, specs, config=WITH_PICKER) as service:
        if front == "gateway":
            yield service
            return
        async with behind_envoy(service, folder) as envoy:
            yield envoy


def summed(visits: list[Visit], seconds: float) -> dict[str, Any]:
    """Say what became of requests."""
    refused = [visit for visit in visits if visit.status == 429]  # noqa: PLR2004 - HTTP
    kinds = {
        "high": [visit for visit in visits if visit.important],
        "low": [visit for visit in visits if not visit.important],
        "short": [visit for visit in visits if not visit.long],
        "long": [visit for visit in visits if visit.long],
    }
    return {
        "requests": len(visits),
        "goodput_per_s": round(sum(visit.met for visit in visits) / seconds, 2),
        "attained_by": {name: round(sum(v.met for v in of) / max(1, len(of)), 3) for name, of in kinds.items()},
        "answered": sum(visit.answered for visit in visits),
        "refused": len(refused),
        "refused_without_a_time": sum(not 1 <= visit.retry_after_s <= 60 for visit in refused),  # noqa: PLR2004 - seconds
        "otherwise": len(visits) - len(refused) - sum(visit.answered for visit in visits),
        "refused_high": sum(visit.important for visit in refused),
    }


async def run_live(front: str, *, seconds: float, warm_up_s: float, seed: int, loads: list[float]) -> dict[str, Any]:
    """Measure a front's capacity, then load it with parts and multiples of that."""
    with tempfile.TemporaryDirectory() as folder:
        async with fronted(front, Path(folder)) as service:
            clients = Clients(service, random.Random(seed))  # noqa: S311 - arrivals, nothing secret
            await clients.capacity_per_s(6.0)  # until it is known to the router, too
            capacity = await clients.capacity_per_s(12.0)
            found: dict[str, Any] = {}
            for load in loads:
                visits = await clients.load(capacity * load, seconds, warm_up_s)
                found[f"{load:g}"] = summed(visits, seconds)
                await asyncio.sleep(5.0)  # what was left of the load is served meanwhile
            return {"front": front, "capacity_per_s": round(capacity, 2), "loads": found}
