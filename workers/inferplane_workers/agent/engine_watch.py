"""The engine's life as the agent sees it: waited for, examined, watched, found gone or hung, waited for again.

One task, one question at a time, each with a deadline.  What was seen is judged elsewhere (`watchdog`, `canary`); this
module moves the gate and tells the announcer.  Invariant: the gate opens only after this very start of the engine has
answered the canary, and closes before its requests are failed.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import structlog

from inferplane_runtime.http.api import Response, UpstreamFailure
from inferplane_workers.agent import canary, engine_facts, transport, watchdog
from inferplane_workers.agent.announcer import Announcer
from inferplane_workers.agent.canary import CanaryMemory, CanaryState
from inferplane_workers.agent.config import AgentConfig
from inferplane_workers.agent.engine_client import EngineClient, NoAnswer, json_object
from inferplane_workers.agent.engine_facts import Facts
from inferplane_workers.agent.engine_metrics import read_page
from inferplane_workers.agent.gate import Gate, Phase
from inferplane_workers.agent.job_context import JobContext
from inferplane_workers.agent.watchdog import Signs

_log = structlog.get_logger("inferplane.agent.engine")
_OK = 200
_SERVER_ERROR = 500


@dataclass(frozen=True, slots=True)
class Periods:
    """How often things are looked at, in seconds."""

    start_up: float = 0.25
    watch: float = 1.0
    health_deadline: float = 5.0
    after_failure: float = 2.0
    slowest_scrape: float = 30.0
    transport: float = 30.0
    reset: float = 60.0


class Starts(Protocol):
    """Hears which start of the engine is in force (the block listeners stand behind it)."""

    def engine_started(self, facts: Facts) -> None: ...


@dataclass(slots=True)
class _Seen:
    healthy_at: float
    refused: int = 0
    progress: float = -1.0
    next_scrape: float = 0.0
    scrape_every: float = 1.0
    next_canary: float = 0.0
    next_transport: float = 0.0
    next_reset: float = 0.0


class EngineWatch:
    """Runs until cancelled."""

    def __init__(
        self,
        *,
        config: AgentConfig,
        client: EngineClient,
        gate: Gate,
        announcer: Announcer,
        jobs: JobContext,
        memory: CanaryMemory,
        starts: Starts,
        now: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        periods: Periods | None = None,
        root: Path = Path("/"),
    ) -> None:
        self._config = config
        self._client = client
        self._gate = gate
        self._announcer = announcer
        self._jobs = jobs
        self._memory = memory
        self._starts = starts
        self._now = now
        self._sleep = sleep
        self._periods = periods or Periods()
        self._root = root
        self._count = 0
        self._asked = 0
        self._facts: Facts | None = None

    async def run(self) -> None:
        while True:
            await self._wait_for_engine()
            if await self._examine():
                await self._guard()
            await self._sleep(self._periods.after_failure)

    async def _wait_for_engine(self) -> None:
        while True:
            answer = await self._client.get(b"/health", timeout_s=self._periods.health_deadline)
            if isinstance(answer, Response) and answer.status == _OK:
                return
            await self._sleep(self._periods.start_up)

    async def _examine(self) -> bool:
        """Learn who the engine is and whether it computes right; open the gate if so."""
        facts = await engine_facts.ask(self._client, self._config, unnamed_start=self._unnamed_start())
        if facts.problem:
            self._fail(facts.problem)
            return False
        if self._facts is None or facts.start != self._facts.start:
            self._count += 1
            self._starts.engine_started(facts)
        self._facts = facts
        verdict = await self._canary(facts) if self._config.canary else canary.Verdict(CanaryState.UNKNOWN)
        if verdict is None or verdict.state is CanaryState.FAILED:
            self._fail(verdict.detail if verdict else "the canary prompt got no answer in time", restart=True)
            return False
        self._jobs.progress_at = self._now()
        if self._gate.phase is Phase.FAILED:
            self._gate.move(Phase.STARTING, "the engine is back")
        self._gate.move(Phase.READY)
        return True

    def _unnamed_start(self) -> str:
        """Name a start that nothing else names; after the engine was gone it is another one."""
        return f"{self._announcer.hub.epoch:x}-{self._count}"

    async def _canary(self, facts: Facts) -> canary.Verdict | None:
        model = self._config.names[0]
        response = await self._client.post(
            b"/v1/completions", self._question(model), timeout_s=self._config.canary_timeout
        )
        if isinstance(response, NoAnswer):
            return None
        if response.status < _SERVER_ERROR and response.status != _OK:
            _log.info("this model answers no completions: no canary", status=response.status)
            return canary.Verdict(CanaryState.UNKNOWN)
        fields = json_object(response)
        text = canary.answer_of(fields) if fields is not None else None
        expected = self._config.canary_expect or self._recall(facts)
        verdict = canary.judge(text, expected)
        self._announcer.canary_judged(verdict.state)
        if verdict.state is CanaryState.PASSED and text is not None:
            self._memory.remember(self._config.model, self._config.model_revision, facts.version, text)
        return verdict

    def _question(self, model: str) -> dict[str, Any]:
        self._asked += 1
        return canary.question(model, salt=f"canary-{self._announcer.hub.epoch:x}-{self._asked}")

    def _recall(self, facts: Facts) -> str | None:
        return self._memory.recall(self._config.model, self._config.model_revision, facts.version)

    async def _guard(self) -> None:
        """Watch a ready engine until it is gone, hung or wrong."""
        now = self._now()
        seen = _Seen(healthy_at=now, next_canary=now + self._config.canary_interval)
        while True:
            await self._sleep(self._periods.watch)
            await self._look(seen)
            verdict = watchdog.judge(self._signs(seen), hang_s=self._config.hang_timeout)
            if verdict is watchdog.Verdict.GONE:
                self._facts = None  # whatever answers next is another start, unless it can prove otherwise
                self._fail("the engine is gone")
                return
            if verdict is watchdog.Verdict.HUNG:
                self._fail("the engine hangs: it took requests and did no work", restart=True)
                for job in list(self._jobs.live):
                    job.fail("the engine of this worker hangs")
                return
            if await self._restarted_unseen() or await self._wrong(seen):
                return
            await self._recover_blocks(seen)

    async def _look(self, seen: _Seen) -> None:
        answer = await self._client.get(b"/health", timeout_s=self._periods.health_deadline)
        now = self._now()
        if isinstance(answer, Response) and answer.status == _OK:
            seen.healthy_at, seen.refused = now, 0
        elif isinstance(answer, Response) or answer.failure is not UpstreamFailure.TIMEOUT:
            seen.refused += 1
        if now >= seen.next_scrape:
            await self._scrape(seen)
        if now >= seen.next_transport:
            seen.next_transport = now + self._periods.transport
            self._announcer.transport_seen(self._transport())

    async def _scrape(self, seen: _Seen) -> None:
        """Read the engine's page; ask a slow engine less often."""
        began = self._now()
        answer = await self._client.get(b"/metrics", timeout_s=self._periods.health_deadline)
        took = self._now() - began
        if isinstance(answer, NoAnswer):
            seen.scrape_every = min(self._periods.slowest_scrape, seen.scrape_every * 2)
        else:
            page = read_page(answer.body)
            seen.scrape_every = min(self._periods.slowest_scrape, max(1.0, took * 20))
            if page.progress != seen.progress:
                seen.progress = page.progress
                self._jobs.progress_at = self._now()
            self._announcer.page_read(page)
        seen.next_scrape = self._now() + seen.scrape_every

    def _signs(self, seen: _Seen) -> Signs:
        return Signs(
            now=self._now(),
            in_flight=len(self._jobs.live),
            busy_since=self._jobs.busy_since,
            progress_at=self._jobs.progress_at,
            healthy_at=seen.healthy_at,
            refused=seen.refused,
        )

    async def _restarted_unseen(self) -> bool:
        """Notice an engine that went and came back between two looks."""
        start = engine_facts.start_of(self._config.engine_start_file)
        if not start or self._facts is None or start == self._facts.start:
            return False
        self._fail("the engine has started anew")
        return True

    async def _wrong(self, seen: _Seen) -> bool:
        """Ask the canary again now and then, while nothing else runs."""
        if not self._config.canary or self._now() < seen.next_canary or self._jobs.live or self._facts is None:
            return False
        seen.next_canary = self._now() + self._config.canary_interval
        verdict = await self._canary(self._facts)
        if verdict is None or verdict.state is not CanaryState.FAILED:
            return False
        self._fail(verdict.detail, restart=True)
        return True

    async def _recover_blocks(self, seen: _Seen) -> None:
        """Empty an idle engine's cache where that is allowed: an empty cache is one that is known."""
        if not self._config.kv_reset or not self._announcer.suspect or self._jobs.live:
            return
        if self._now() < seen.next_reset:
            return
        seen.next_reset = self._now() + self._periods.reset
        answer = await self._client.post(b"/reset_prefix_cache", {}, timeout_s=self._periods.health_deadline)
        if isinstance(answer, NoAnswer) or answer.status != _OK:
            _log.warning("the engine would not empty its cache", status=getattr(answer, "status", 0))
            return
        # vLLM publishes the clearing with the next request that it schedules.
        await self._client.post(
            b"/v1/completions", self._question(self._config.names[0]), timeout_s=self._config.canary_timeout
        )

    def _transport(self) -> transport.Transport:
        asked = self._config.kv_transport.value
        lines = _tail(self._config.engine_log)
        return transport.judge(
            asked, active_rdma_ports=transport.active_rdma_ports(self._root), chosen=transport.chosen_by_ucx(lines)
        )

    def _fail(self, detail: str, *, restart: bool = False) -> None:
        if self._gate.move(Phase.FAILED, detail, restart=restart):
            _log.error("the engine failed", detail=detail)


_TAIL_BYTES = 1024 * 1024


def _tail(log: Path | None) -> Sequence[bytes]:
    if log is None:
        return ()
    try:
        with log.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - _TAIL_BYTES))
            return file.read().splitlines()
    except OSError:
        return ()
