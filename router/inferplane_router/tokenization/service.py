"""Tokens for requests: at once where that is quick, later where files, threads or an engine are needed.

Problem: a prompt's tokens must be the engine's, its model's files are only where the engine is, building an encoder
takes a second, and the event loop may wait for none of this.
Idea: one encoder a digest, fetched and built in the background when the first request (or `prepare`) asks for it, and
checked once against an engine's `/tokenize`; short prompts are then encoded in place, long ones in a thread.
Trade-off: requests that come while a model is being prepared wait a little and are then placed by load alone.
Invariant: tokens that are given are the engine's; an encoder that disagrees with its engine is not used.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np
import structlog

from inferplane_engine.tokens import ModelFiles, ModelFilesError, NotEncodableError, PromptEncoder, PromptTooLongError
from inferplane_engine.tokens.probes import TEXTS
from inferplane_router.core.values import ModelFacts, ResolvedModel
from inferplane_router.gateway.seams import EncodedPrompt, PromptRejectedError
from inferplane_router.tokenization.agent_call import AgentCallError, AgentCalls
from inferplane_router.tokenization.engine_tokens import ask_engine, tokenize_body
from inferplane_router.tokenization.file_cache import FileCache, fetch_files
from inferplane_runtime.clock import Clock
from inferplane_runtime.http.api import Upstream
from inferplane_runtime.lifecycle import return_memory

_T = TypeVar("_T")
_CHAT: Final = "/v1/chat/completions"
_PATHS: Final = frozenset({_CHAT, "/v1/completions"})
_UNKNOWN: Final = EncodedPrompt(None)
_log = structlog.get_logger("inferplane.tokenization")


@dataclass(frozen=True, slots=True)
class TokenizationSettings:
    """Bounds; times in seconds."""

    long_body_bytes: int = 64 * 1024
    """Bodies from this size on are encoded in a thread, whichever of their fields makes them long: a template prints
    tools, calls and arguments of its own as well as contents."""
    wait_for_model_s: float = 2.0
    """How long a request waits for its model's encoder before it is placed without tokens."""
    retry_s: float = 5.0
    """After a failed preparation, the next one begins no sooner."""
    file_timeout_s: float = 60.0
    engine_timeout_s: float = 5.0
    max_file_bytes: int = 256 * 1024 * 1024
    max_tokenize_bytes: int = 64 * 1024 * 1024
    threads: int = 2


@dataclass(slots=True)
class _Model:
    """What is known of one digest."""

    encoder: PromptEncoder | None = None
    preparing: asyncio.Task[None] | None = None
    failed_at: float = float("-inf")
    trusted: bool = True


class PromptService:
    """The gateway's `PromptEncoder`; all calls from the loop's thread."""

    def __init__(
        self, *, upstream: Upstream, cache: Path, clock: Clock, settings: TokenizationSettings | None = None
    ) -> None:
        self._settings = settings or TokenizationSettings()
        bounds = self._settings
        self._files = AgentCalls(upstream, timeout_s=bounds.file_timeout_s, max_bytes=bounds.max_file_bytes)
        self._engines = AgentCalls(upstream, timeout_s=bounds.engine_timeout_s, max_bytes=bounds.max_tokenize_bytes)
        self._cache = FileCache(cache)
        self._clock = clock
        self._models: dict[str, _Model] = {}
        self._threads = ThreadPoolExecutor(bounds.threads, thread_name_prefix="encode")

    def encode(
        self, model: ResolvedModel, path: str, body: Mapping[str, Any], *, size: int
    ) -> EncodedPrompt | Awaitable[EncodedPrompt]:
        """Return tokens, or what will give them; no tokens where they cannot be known."""
        facts = model.facts
        if facts is None or path not in _PATHS or not facts.tokenizer_digest or not facts.file_sources:
            return _UNKNOWN
        known = self._models.get(facts.tokenizer_digest)
        if known is None or known.encoder is None:
            known = self.prepare(facts, model.model_name)
            return self._after_preparation(known, model, path, body, size)
        if not known.trusted:
            return self._by_engine(facts, model.model_name, path, body)
        if size >= self._settings.long_body_bytes:
            return self._in_thread(known.encoder, model, path, body)
        try:
            return _encoded(known.encoder, path, body)
        except NotEncodableError:
            return self._by_engine(facts, model.model_name, path, body)

    def prepare(self, facts: ModelFacts, model_name: str) -> _Model:
        """Begin to fetch and build a model's encoder, unless that is done or under way."""
        known = self._models.setdefault(facts.tokenizer_digest, _Model())
        waited = self._clock.monotonic() - known.failed_at
        if known.encoder is None and known.preparing is None and waited >= self._settings.retry_s:
            known.preparing = asyncio.get_running_loop().create_task(
                self._prepare(known, facts, model_name), name=f"prepare {facts.tokenizer_digest[:12]}"
            )
        return known

    async def close(self) -> None:
        """Stop what is under way."""
        tasks = [known.preparing for known in self._models.values() if known.preparing is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._threads.shutdown(wait=False, cancel_futures=True)

    # --- preparation ------------------------------------------------------------------------------------------------

    async def _prepare(self, known: _Model, facts: ModelFacts, model_name: str) -> None:
        digest = facts.tokenizer_digest
        try:
            files = await self._model_files(facts)
            encoder = await self._run(_built, files)
            known.trusted = await self._agrees(encoder, facts, model_name)
            known.encoder = encoder
        except (AgentCallError, ModelFilesError, OSError) as error:
            known.failed_at = self._clock.monotonic()
            _log.error(
                "a model's prompts cannot be encoded; it is routed by load alone", digest=digest, error=str(error)
            )
        except Exception:  # noqa: BLE001  # the task's boundary: a model that breaks the encoder must not stop the others
            known.failed_at = self._clock.monotonic()
            _log.exception("a model's prompts cannot be encoded; it is routed by load alone", digest=digest)
        else:
            _report(encoder, digest=digest, trusted=known.trusted)
        finally:
            known.preparing = None

    async def _model_files(self, facts: ModelFacts) -> ModelFiles:
        digest = facts.tokenizer_digest
        files = await self._run(self._cache.have, digest)
        if files is not None:
            return files
        reasons: list[str] = []
        for address in facts.file_sources:
            try:
                contents = await fetch_files(self._files, address, digest)
                return await self._run(partial(self._cache.keep, digest), contents)
            except (AgentCallError, ModelFilesError) as error:
                reasons.append(str(error))
        raise AgentCallError("no agent gave the model's files: " + "; ".join(reasons))

    async def _agrees(self, encoder: PromptEncoder, facts: ModelFacts, model_name: str) -> bool:
        """Compare with an engine on what breaks tokenizers; an engine that cannot be asked proves nothing."""
        text = "".join(TEXTS).replace("\x00", "")
        chat: dict[str, Any] = {"messages": [{"role": "user", "content": text}]}
        for path, body in (("/v1/completions", {"prompt": text}), (_CHAT, chat)):
            try:
                ours = await self._run(encoder.encode, path, body)
                asked = tokenize_body(path, model_name, body)
                theirs = await ask_engine(self._engines, facts.file_sources[0], asked or {})
            except (NotEncodableError, PromptTooLongError):
                continue  # an engine would refuse it as well
            except AgentCallError as error:
                _log.warning("an engine could not be asked for tokens to compare", error=str(error))
                continue
            if not np.array_equal(ours.tokens, theirs):
                _log.error("the engine makes other tokens of a prompt; it is asked for all of them", path=path)
                return False
        return True

    # --- slow ways --------------------------------------------------------------------------------------------------

    async def _after_preparation(
        self, known: _Model, model: ResolvedModel, path: str, body: Mapping[str, Any], size: int
    ) -> EncodedPrompt:
        if known.preparing is not None:
            await asyncio.wait({known.preparing}, timeout=self._settings.wait_for_model_s)
        if known.encoder is None:
            return _UNKNOWN
        encoded = self.encode(model, path, body, size=size)
        return encoded if isinstance(encoded, EncodedPrompt) else await encoded

    async def _in_thread(
        self, encoder: PromptEncoder, model: ResolvedModel, path: str, body: Mapping[str, Any]
    ) -> EncodedPrompt:
        try:
            return await self._run(_encoded, encoder, path, body)
        except NotEncodableError:
            if model.facts is None:
                return _UNKNOWN
            return await self._by_engine(model.facts, model.model_name, path, body)

    async def _by_engine(self, facts: ModelFacts, model_name: str, path: str, body: Mapping[str, Any]) -> EncodedPrompt:
        """Ask the agents in turn; a request that the engine refuses is placed without tokens, and refused there."""
        asked = tokenize_body(path, model_name, body)
        if asked is None:
            return _UNKNOWN
        for address in facts.file_sources[:2]:
            try:
                return _given(path, await ask_engine(self._engines, address, asked))
            except AgentCallError as error:
                _log.info("an engine gave no tokens", error=str(error))
        return _UNKNOWN

    async def _run(self, work: Callable[..., _T], *arguments: Any) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work, *arguments)


def _built(files: ModelFiles) -> PromptEncoder:
    """Build an encoder that keeps no more than it needs: reading a vocabulary takes several times its size."""
    encoder = PromptEncoder(files)
    if encoder.tokenizer is not None:
        encoder.tokenizer.drop_reference()
    return_memory()
    return encoder


def _encoded(encoder: PromptEncoder, path: str, body: Mapping[str, Any]) -> EncodedPrompt:
    """Encode; raises NotEncodableError, PromptRejectedError."""
    try:
        return _given(path, encoder.encode(path, body).tokens)
    except PromptTooLongError as error:
        raise PromptRejectedError(str(error), param="messages" if path == _CHAT else "prompt") from error


def _given(path: str, tokens: np.ndarray[Any, np.dtype[np.int32]]) -> EncodedPrompt:
    return EncodedPrompt(tokens, templated=path == _CHAT)


def _report(encoder: PromptEncoder, *, digest: str, trusted: bool) -> None:
    tokenizer = encoder.tokenizer
    templates = {name: template.fallback_reason or template.backend for name, template in encoder.templates.items()}
    _log.info(
        "prompts can be encoded",
        digest=digest,
        tokenizer=(tokenizer.fallback_reason or tokenizer.backend) if tokenizer else "",
        templates=templates,
        chats_by_engine=encoder.refuses_chat,
        trusted=trusted,
    )
