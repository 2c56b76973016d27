"""Carries out what `Adapters` says is next, and keeps it where a restart finds it.

Weights are brought side by side, a few at once, so that a large or a stuck download holds up no other adapter; the
engine is asked one thing at a time.  A step that fails is noted in the engine's own words and not tried again from
here: whoever wants the adapter asks again, at its own pace, and after each start of the engine everything is tried once
more.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import structlog

from inferplane_workers.agent.adapter_dialect import AdapterDialect, is_loaded_already, is_unknown, refusal
from inferplane_workers.agent.adapter_source import AdapterSource, SourceError
from inferplane_workers.agent.adapters import Adapters, Load, Step, Unload, Wish
from inferplane_workers.agent.engine_client import EngineClient, NoAnswer

_LOAD_S: Final = 300.0
_FETCH_S: Final = 3_600.0
_FETCHED_AT_ONCE: Final = 4
_PAUSE_S: Final = 1.0
_log = structlog.get_logger("inferplane.agent.adapters")


class AdapterLoader:
    """Runs until cancelled; `wake` whenever something changed."""

    def __init__(
        self,
        adapters: Adapters,
        *,
        client: EngineClient,
        dialect: AdapterDialect,
        source: AdapterSource,
        state_dir: Path,
        load_s: float = _LOAD_S,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._adapters = adapters
        self._client = client
        self._dialect = dialect
        self._source = source
        self._file = state_dir / "adapters.json"
        self._load_s = load_s
        self._sleep = sleep
        self._saved = b""
        self._news = asyncio.Event()
        self._fetching = asyncio.Semaphore(_FETCHED_AT_ONCE)
        self._engine = asyncio.Lock()

    def wake(self) -> None:
        self._news.set()

    def restore(self) -> None:
        """Take up what an earlier process of this agent was told."""
        try:
            self._adapters.restore(self._file.read_bytes())
        except FileNotFoundError:
            return
        except (OSError, ValueError) as error:
            _log.warning("saved adapters are not used", reason=str(error))

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            while True:
                await self._news.wait()
                self._news.clear()
                while (step := self._adapters.next_step()) is not None:
                    await self._begin(step, group)
                self._save()

    async def _begin(self, step: Step, group: asyncio.TaskGroup) -> None:
        if isinstance(step, Load):
            self._adapters.begun(step.wish)
            group.create_task(self._load(step.wish), name=f"load-{step.wish.name}")
        else:
            async with self._engine:
                await self._unload(step)

    async def _load(self, wish: Wish) -> None:
        try:
            async with self._fetching, asyncio.timeout(_FETCH_S):
                path = await self._source.locate(wish)
        except SourceError as error:
            self._fail(wish, str(error))
        except TimeoutError:
            self._fail(wish, f"its files have not come within {_FETCH_S / 60:.0f} minutes")
        else:
            async with self._engine:
                await self._tell_engine(wish, path)

    async def _tell_engine(self, wish: Wish, path: str) -> None:
        body = {"lora_name": wish.engine_name, "lora_path": path}
        answer = await self._client.post(self._dialect.load_path, body, timeout_s=self._load_s)
        if isinstance(answer, NoAnswer):
            self._fail(wish, f"the engine does not answer ({answer.detail or answer.failure.value})")
        elif (words := refusal(answer)) and not is_loaded_already(answer):
            self._fail(wish, words)
        else:
            _log.info("adapter loaded", adapter=wish.name, revision=wish.revision)
            self._adapters.loaded(wish)

    def _fail(self, wish: Wish, words: str) -> None:
        _log.warning("adapter not loaded", adapter=wish.name, revision=wish.revision, reason=words)
        self._adapters.failed(wish, words)

    async def _unload(self, step: Unload) -> None:
        body = {"lora_name": step.engine_name}
        answer = await self._client.post(self._dialect.unload_path, body, timeout_s=self._load_s)
        if isinstance(answer, NoAnswer):
            await self._sleep(_PAUSE_S)
            return
        words = "" if is_unknown(answer) else refusal(answer)
        if words:
            _log.warning("adapter not unloaded", adapter=self._adapters.meaning(step.engine_name).name, reason=words)
        self._adapters.unloaded(step.engine_name)  # asking again would not help: it stays unused until the next start

    def _save(self) -> None:
        if (saved := self._adapters.saved()) == self._saved:
            return
        self._file.parent.mkdir(parents=True, exist_ok=True)
        partial = self._file.with_suffix(".partial")
        partial.write_bytes(saved)
        partial.replace(self._file)
        self._saved = saved
