"""The sockets of an engine's block events: one subscription and one replay dealer per rank.

All decisions are `RankBlocks`'; here frames are moved.  A publisher cannot say that its last batch was dropped on the
way, so after some silence the engine is asked for anything newer: an answer without batches costs it next to nothing.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Final

import structlog
import zmq
import zmq.asyncio

from inferplane_workers.agent.errors import ConfigError
from inferplane_workers.agent.rank_blocks import RankBlocks

END: Final = (-1).to_bytes(8, "big", signed=True)
_HIGH_WATER: Final = 100_000
_LIVE_FRAMES: Final = 3
_REPLAY_FRAMES: Final = 4
_log = structlog.get_logger("inferplane.agent.kv")


def endpoint_of_rank(endpoint: str, dp_rank: int) -> str:
    """Return where a rank publishes: vLLM adds the rank to a TCP port and refuses other kinds for ranks above 0."""
    if dp_rank == 0:
        return endpoint
    scheme, _, rest = endpoint.partition("://")
    if scheme == "tcp":
        host, _, port = rest.rpartition(":")
        return f"tcp://{host}:{int(port) + dp_rank}"
    if scheme == "ipc":
        return f"{endpoint}_dp{dp_rank}"
    raise ConfigError(f"--kv-events: {endpoint!r} must be tcp:// or ipc://")


class KvListener:
    """Feeds one rank's blocks from its engine."""

    def __init__(
        self,
        blocks: RankBlocks,
        *,
        events: str,
        replay: str | None,
        progress: Callable[[], None],
        silence_s: float = 2.0,
        replay_timeout_s: float = 5.0,
    ) -> None:
        self._blocks = blocks
        self._events = endpoint_of_rank(events, blocks.dp_rank)
        self._replay = endpoint_of_rank(replay, blocks.dp_rank) if replay else None
        self._progress = progress
        self._silence_s = silence_s
        self._replay_timeout_s = replay_timeout_s
        self._wanted: int | None = None
        self._begun = False
        self._begin = False
        self._restart = False
        self._poked: asyncio.Future[None] | None = None

    def begin(self) -> None:
        """Catch up with an engine that has answered for the first time."""
        self._begin = True
        self._poke()

    def engine_restarted(self) -> None:
        """Have the map begun anew: the engine is known to have started again."""
        self._restart = True
        self._poke()

    async def run(self) -> None:
        """Listen until cancelled."""
        context = zmq.asyncio.Context.instance()
        socket = context.socket(zmq.SUB)
        socket.set(zmq.RCVHWM, _HIGH_WATER)
        socket.set(zmq.LINGER, 0)
        socket.connect(self._events)
        socket.subscribe(b"")
        try:
            while True:
                if self._begin:
                    self._begin, self._begun = False, True
                    self._wanted = self._blocks.begin()
                if self._restart:
                    self._restart = False
                    self._wanted = self._blocks.engine_restarted()
                if self._wanted is not None:
                    await self._replay_from(context, self._wanted)
                await self._live(context, socket)
        finally:
            socket.close()

    async def _live(self, context: zmq.asyncio.Context, socket: zmq.asyncio.Socket) -> None:
        """Take what has come; after a silence, ask whether something was missed."""
        if self._begin or self._restart:
            return
        if not await self._readable(socket):
            if not (self._begin or self._restart):
                await self._look_for_newer(context)
            return
        for _ in range(1_000):
            try:
                frames: list[bytes] = await socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            if len(frames) != _LIVE_FRAMES:
                continue
            self._progress()
            self._wanted = self._blocks.live(frames[1], frames[2])
            if self._wanted is not None:
                return

    async def _readable(self, socket: zmq.asyncio.Socket) -> bool:
        """Wait for a batch, a silence or a poke; cancelling leaves nothing behind."""
        self._poked = asyncio.get_running_loop().create_future()
        polling = asyncio.ensure_future(socket.poll(int(self._silence_s * 1000)))
        try:
            await asyncio.wait((polling, self._poked), return_when=asyncio.FIRST_COMPLETED)
            return polling.done() and bool(polling.result())
        finally:
            polling.cancel()

    def _poke(self) -> None:
        if self._poked is not None and not self._poked.done():
            self._poked.set_result(None)

    async def _replay_from(self, context: zmq.asyncio.Context, number: int) -> None:
        """Ask for batches and hand them over as a replay; without an answer it has simply ended."""
        self._wanted = None
        if self._replay is not None:
            async for sequence, payload in self._asked(context, number):
                self._blocks.replayed(sequence, payload)
        self._wanted = self._blocks.replay_ended()

    async def _look_for_newer(self, context: zmq.asyncio.Context) -> None:
        if self._replay is None or not self._begun:
            return
        async for sequence, payload in self._asked(context, self._blocks.expected):
            wanted = self._blocks.live(sequence, payload)
            self._wanted = wanted if wanted is not None else self._wanted

    async def _asked(self, context: zmq.asyncio.Context, number: int) -> AsyncIterator[tuple[bytes, bytes]]:
        socket = context.socket(zmq.DEALER)
        socket.set(zmq.LINGER, 0)
        socket.connect(self._replay or "")
        try:
            await socket.send_multipart([b"", number.to_bytes(8, "big")])  # pyright: ignore[reportUnknownMemberType]  # untyped in pyzmq
            while await socket.poll(int(self._replay_timeout_s * 1000)):
                frames: list[bytes] = await socket.recv_multipart()
                if len(frames) != _REPLAY_FRAMES or frames[2] == END:
                    return
                yield frames[2], frames[3]
            _log.info("no answer to a replay", endpoint=self._replay, number=number)
        finally:
            socket.close()
