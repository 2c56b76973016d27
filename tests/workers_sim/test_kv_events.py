"""KV events leave the server as vLLM sends them."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
import zmq
import zmq.asyncio

from inferplane_engine.kv_events.wire import AllBlocksCleared, BlockRemoved, BlockStored, EventBatch, EventDecoder
from inferplane_workers.sim.testing import Sim, serving

END = (-1).to_bytes(8, "big", signed=True)
WORDS = "word " * 40


class Listener:
    """A subscriber and its way to ask for more."""

    def __init__(self, sim: Sim, events: zmq.asyncio.Socket, replay: zmq.asyncio.Socket) -> None:
        self.sim = sim
        self._events = events
        self._replay = replay
        self._decoder = EventDecoder()

    async def complete(self, prompt: str = WORDS, **more: object) -> None:
        await self.sim.json("/v1/completions", prompt=prompt, max_tokens=1, **more)

    async def next(self) -> tuple[int, EventBatch]:
        async with asyncio.timeout(30):
            frames = await self._events.recv_multipart()
        topic, sequence, payload = frames
        assert topic == b"kv@w1"
        return int.from_bytes(sequence, "big"), self._decoder.decode(payload)

    async def repeated(self, start: int) -> list[tuple[int, EventBatch]]:
        frames = [b"", start.to_bytes(8, "big")]
        await self._replay.send_multipart(frames)  # pyright: ignore[reportUnknownMemberType]  # untyped in pyzmq
        batches: list[tuple[int, EventBatch]] = []
        while True:
            async with asyncio.timeout(30):
                _, _, sequence, payload = await self._replay.recv_multipart()
            if sequence == END:
                return batches
            batches.append((int.from_bytes(sequence, "big"), self._decoder.decode(payload)))


@asynccontextmanager
async def listening(folder: Path, *flags: str, **config: object) -> AsyncGenerator[Listener]:
    ends = {"endpoint": f"ipc://{folder}/events", "replay_endpoint": f"ipc://{folder}/replay"}
    text = msgspec.json.encode({"enable_kv_cache_events": True, "publisher": "zmq", "topic": "kv@w1", **ends, **config})
    context = zmq.asyncio.Context()
    async with serving("--kv-events-config", text.decode(), *flags) as sim:
        events = context.socket(zmq.SUB)
        events.subscribe(b"")
        monitor = events.get_monitor_socket(zmq.Event.HANDSHAKE_SUCCEEDED)
        events.connect(ends["endpoint"])
        replay = context.socket(zmq.DEALER)
        replay.connect(ends["replay_endpoint"])
        try:
            async with asyncio.timeout(30):
                await monitor.recv_multipart()
            yield Listener(sim, events, replay)
        finally:
            events.disable_monitor()
            for socket in (monitor, events, replay):
                socket.close(linger=0)
            context.term()


def test_a_prompt_is_announced_with_its_tokens_salt_and_medium(tmp_path: Path) -> None:
    async def main() -> None:
        async with listening(tmp_path) as listener:
            tokens = (await listener.sim.json("/tokenize", prompt=WORDS))["tokens"]
            await listener.complete(cache_salt="s")
            sequence, batch = await listener.next()
            (event,) = batch.events

            assert isinstance(event, BlockStored)
            assert (sequence, batch.data_parallel_rank, event.medium, event.block_size) == (0, 0, "GPU", 16)
            assert list(event.token_ids) == tokens[: len(event.block_hashes) * 16]
            assert event.extra_keys is not None
            assert event.extra_keys[0] == ("s",)
            assert (event.group_idx, event.kv_cache_spec_kind) == (0, "full_attention")

    asyncio.run(main())


def test_old_engines_wrote_arrays(tmp_path: Path) -> None:
    async def main() -> None:
        async with listening(tmp_path, sim_positional=True) as listener:
            await listener.complete()
            _, batch = await listener.next()
            (event,) = batch.events

            assert isinstance(event, BlockStored)
            assert event.group_idx is None
            assert len(event.token_ids) == 16 * len(event.block_hashes)

    asyncio.run(main())


def test_replay_repeats_what_the_buffer_holds(tmp_path: Path) -> None:
    async def main() -> None:
        async with listening(tmp_path, buffer_steps=2) as listener:
            for number in range(4):
                await listener.complete(f"{number} {WORDS}")
            live = [await listener.next() for _ in range(4)]
            repeated = await listener.repeated(1)

            assert [sequence for sequence, _ in live] == [0, 1, 2, 3]
            assert repeated == live[2:]

    asyncio.run(main())


def test_removals_follow_when_blocks_are_taken_again(tmp_path: Path) -> None:
    async def main() -> None:
        flags = ("--num-gpu-blocks-override", "17", "--max-model-len", "256")
        async with listening(tmp_path, *flags) as listener:
            held: Counter[object] = Counter()
            for number in range(6):
                await listener.complete(f"{number} {WORDS}")
                for event in (await listener.next())[1].events:
                    if isinstance(event, BlockStored):
                        held.update(event.block_hashes)
                    elif isinstance(event, BlockRemoved):
                        held.subtract(event.block_hashes)

            assert 0 < sum(held.values()) <= 16
            assert min(held.values()) >= 0

    asyncio.run(main())


def test_a_reset_clears_with_the_next_request(tmp_path: Path) -> None:
    async def main() -> None:
        async with listening(tmp_path) as listener:
            await listener.complete()
            assert (await listener.sim.post("/reset_prefix_cache")).status_code == 200
            await listener.complete()
            await listener.next()
            _, batch = await listener.next()

            assert isinstance(batch.events[0], AllBlocksCleared)

    asyncio.run(main())


@pytest.mark.parametrize(
    ("kind", "seen", "kept"),
    [
        ("lost-events", [], [0, 1]),
        ("forgotten-events", [], []),
        ("duplicate-events", [0, 0, 1, 1], [0, 1]),
        ("reordered-events", [], [0, 1]),
    ],
)
def test_faulty_publishers(tmp_path: Path, kind: str, seen: list[int], kept: list[int]) -> None:
    async def main() -> None:
        fault = msgspec.json.encode({"kind": kind, "probability": 1.0}).decode()
        async with listening(tmp_path, "--sim-fault", fault) as listener:
            await listener.complete("1 " + WORDS)
            await listener.complete("2 " + WORDS)
            repeated = await listener.repeated(0)
            live = [(await listener.next())[0] for _ in seen]

            assert live == seen
            assert [sequence for sequence, _ in repeated] == kept

    asyncio.run(main())


def test_a_late_batch_comes_after_its_successor(tmp_path: Path) -> None:
    async def main() -> None:
        async with listening(tmp_path, "--sim-fault", '{"kind": "reordered-events"}') as listener:
            await listener.complete("1 " + WORDS)
            await listener.complete("2 " + WORDS)

            assert [(await listener.next())[0] for _ in range(2)] == [1, 0]

    asyncio.run(main())


def test_wrong_hashes_differ_from_right_ones(tmp_path: Path) -> None:
    async def hashes(folder: Path, *flags: str) -> tuple[object, ...]:
        async with listening(folder, *flags) as listener:
            await listener.complete()
            (event,) = (await listener.next())[1].events
            assert isinstance(event, BlockStored)
            return event.block_hashes

    async def main() -> None:
        right = await hashes(tmp_path)
        again = await hashes(tmp_path)
        wrong = await hashes(tmp_path, "--sim-fault", '{"kind": "wrong-events", "probability": 1}')

        assert right == again
        assert not set(right) & set(wrong)

    asyncio.run(main())


def test_events_missing_in_silence_leave_no_gap(tmp_path: Path) -> None:
    async def main() -> None:
        async with listening(tmp_path, "--sim-fault", '{"kind": "silent-events"}') as listener:
            await listener.complete("1 " + WORDS)
            await listener.complete("2 " + WORDS)
            batches = [await listener.next() for _ in range(2)]

            assert [(sequence, len(batch.events)) for sequence, batch in batches] == [(0, 0), (1, 1)]

    asyncio.run(main())
