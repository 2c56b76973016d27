"""All ranks' blocks: their maps, the listeners that feed them, and what is saved of them."""

import asyncio
from collections.abc import Callable, Mapping

import structlog

from inferplane_engine.identity import Adapter, KeySpace
from inferplane_engine.kv_events import SavedMapError
from inferplane_workers.agent.announcer import Announcer
from inferplane_workers.agent.block_state import BlockState
from inferplane_workers.agent.config import AgentConfig
from inferplane_workers.agent.engine_facts import Facts
from inferplane_workers.agent.kv_listener import KvListener
from inferplane_workers.agent.rank_blocks import RankBlocks, Saved

_SAVE_EVERY_BATCHES = 4_000
_SAVE_LOOK_S = 5.0
_log = structlog.get_logger("inferplane.agent.blocks")


class Blocks:
    """The block maps of every rank, their listeners, and what is saved of them."""

    def __init__(
        self,
        config: AgentConfig,
        announcer: Announcer,
        progress: Callable[[], None],
        *,
        adapters: Callable[[str], Adapter] = Adapter,
    ) -> None:
        """`adapters` says what the engine's name of an adapter stands for."""
        self._announcer = announcer
        self._state = BlockState(config.state_dir)
        self._start = ""
        self._saved_at = 0
        space = KeySpace(config.model, config.model_revision, config.block_size)
        self.ranks: list[RankBlocks] = []
        self.listeners: list[KvListener] = []
        if not config.kv_events:
            return
        for dp_rank in range(config.dp_size):
            rank = RankBlocks(dp_rank, space, adapters=adapters, listener=announcer)
            announcer.add_rank(rank)
            self.ranks.append(rank)
            self.listeners.append(
                KvListener(rank, events=config.kv_events, replay=config.kv_replay or None, progress=progress)
            )

    def engine_started(self, facts: Facts) -> None:
        """Take up a start of the engine: restore what was saved of it, or begin anew."""
        first, self._start = not self._start, facts.start
        if first:
            self._restore(facts.start)
            for listener in self.listeners:
                listener.begin()
        else:
            for listener in self.listeners:
                listener.engine_restarted()

    def save(self) -> None:
        if self.ranks and self._start:
            self._state.write({rank.dp_rank: rank.save(self._start) for rank in self.ranks})
            self._saved_at = self._received

    async def keep_saved(self) -> None:
        """Save before the engine has forgotten what came after the last time."""
        while True:
            await asyncio.sleep(_SAVE_LOOK_S)
            if self._received - self._saved_at >= _SAVE_EVERY_BATCHES:
                self.save()

    @property
    def _received(self) -> int:
        return sum(rank.expected for rank in self.ranks)

    def _restore(self, start: str) -> None:
        found: Mapping[int, Saved] = self._state.read(start) if self.ranks else {}
        for rank in self.ranks:
            saved = found.get(rank.dp_rank)
            try:
                if saved is not None and rank.restore(saved):
                    _log.info("blocks restored", dp_rank=rank.dp_rank, blocks=rank.blocks)
            except SavedMapError as error:
                _log.warning("saved blocks are not used", dp_rank=rank.dp_rank, reason=str(error))
        self._announcer.hub.void(self._announcer.hub.epoch)
