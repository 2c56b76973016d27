"""Several routers over one small fleet, in virtual time: what the one does not know of the other costs hits.

Each router has its own core and its own stream from every worker, as replicas have; they share nothing else.  Workers
keep so many blocks as an engine does, say what they store and remove, announce to the other routers what a request will
store, and tell a router that starts all they have.  Invariant: the same arguments give the same result.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Final

import numpy as np

from inferplane_api.proto import worker_pb2
from inferplane_router.core.router import RouterCore
from inferplane_router.core.testing import BLOCK, FakeWorker, accepted, ask, catalogue, connect, finished, service
from inferplane_router.core.values import Hashes, Routed, Tokens

_WORKERS: Final = 6
_BLOCKS_HELD: Final = 700
"""Of each worker: conversations that are going on take more than all of them together."""
_PER_S: Final = 30.0
_TOKEN_S: Final = 5e-5
_BASE_S: Final = 0.01
_DECODE_S: Final = 2.0
_REPLACED: Final = 0.1
"""How often somebody who says the next thing is somebody new."""


@dataclass
class Router:
    """One router process, and the agents' streams to it."""

    epoch: int
    core: RouterCore
    voices: dict[str, FakeWorker]


@dataclass
class Cache:
    """What a worker holds; the block that was used longest ago goes first."""

    blocks: OrderedDict[int, None] = field(default_factory=OrderedDict[int, None])
    in_flight: dict[str, int] = field(default_factory=dict[str, int])
    """Requests, and the epochs of the routers that sent them."""
    free_at: float = 0.0

    def take(self, keys: Hashes) -> tuple[int, list[int], list[int]]:
        """Use a chain; return how much of it was there, what is stored and what is removed."""
        chain = [int(key) for key in keys]
        hit = next((at for at, key in enumerate(chain) if key not in self.blocks), len(chain))
        for key in reversed(chain):  # leaves go before what leads to them
            self.blocks[key] = None
            self.blocks.move_to_end(key)
        removed = [self.blocks.popitem(last=False)[0] for _ in range(len(self.blocks) - _BLOCKS_HELD)]
        return hit, [key for key in chain[hit:] if key in self.blocks], removed


class World:
    def __init__(self, routers: int) -> None:
        self.caches = {f"d{number}": Cache() for number in range(_WORKERS)}
        self.routers: list[Router | None] = [self._start(epoch) for epoch in range(1, routers + 1)]
        self.due: list[tuple[float, int, Callable[[float], None]]] = []
        self.events = 0
        self.hit_tokens = self.asked_tokens = 0

    def kill(self, number: int) -> None:
        self.routers[number] = None

    def restart(self, number: int, now: float) -> None:
        """Start a router that knows nothing, and give it what agents give to whoever connects."""
        router = self._start(100 + number, now)
        for name, cache in self.caches.items():
            voice = router.voices[name]
            held = np.fromiter(cache.blocks, np.uint64, len(cache.blocks))
            entries = [accepted(request_id, epoch=epoch) for request_id, epoch in cache.in_flight.items()]
            router.core.on_worker_message(name, voice.snapshot(held), now)
            router.core.on_worker_message(name, voice.load(*entries, snapshot=True), now)
        self.routers[number] = router

    def send(self, request_id: str, tokens: Tokens, by: int, now: float) -> None:
        self._advance(now)
        router = self.routers[by % len(self.routers)] or next(each for each in self.routers if each is not None)
        answer = router.core.pick(ask(router.core, request_id, tokens), now)
        if not isinstance(answer, Routed):
            raise TypeError(f"request {request_id} got no place: {answer}")
        home = answer.decode.worker_id
        cache, keys = self.caches[home], router.voices[home].hashes(tokens)
        hit, stored, removed = cache.take(keys)
        uncached = tokens.shape[0] - hit * BLOCK
        self.hit_tokens += hit * BLOCK
        self.asked_tokens += tokens.shape[0]
        cache.in_flight[request_id] = router.epoch
        entry = accepted(request_id, epoch=router.epoch, prompt_tokens=tokens.shape[0], uncached=uncached)
        self._say(home, lambda voice: voice.load(entry), now)
        self._say(home, lambda voice: voice.delta(expected=keys, expected_by=request_id), now, but=router)
        cache.free_at = max(now, cache.free_at) + _BASE_S + _TOKEN_S * uncached

        def prefilled(when: float) -> None:
            done = accepted(request_id, epoch=router.epoch, prompt_tokens=tokens.shape[0])
            done.phase = worker_pb2.LOAD_PHASE_PREFILL_DONE
            new, old = np.array(stored, np.uint64), np.array(removed, np.uint64)
            self._say(home, lambda voice: voice.delta(stored=new, removed=old), when)
            self._say(home, lambda voice: voice.load(done), when)

        def ended(when: float) -> None:
            del cache.in_flight[request_id]
            self._say(home, lambda voice: voice.load(finished(request_id, epoch=router.epoch)), when)
            router.core.complete(request_id, worker_pb2.OUTCOME_OK, when)

        self._at(cache.free_at, prefilled)
        self._at(cache.free_at + _DECODE_S, ended)

    def _start(self, epoch: int, now: float = 0.0) -> Router:
        voices = {name: FakeWorker(name) for name in self.caches}
        rng = Random(epoch)  # noqa: S311  # nothing here is secret
        core = RouterCore(epoch=epoch, rng=rng, wall_clock=lambda: 0.0)
        core.apply_catalogue(catalogue((service(),), voices.values()), now)
        connect(core, *voices.values(), now=now)
        return Router(epoch, core, voices)

    def _at(self, when: float, happen: Callable[[float], None]) -> None:
        self.events += 1
        self.due.append((when, self.events, happen))

    def _advance(self, now: float) -> None:
        for when, number, happen in sorted(self.due, key=lambda event: event[:2]):
            if when <= now:
                happen(when)
                self.due = [event for event in self.due if event[1] != number]
        for router in self.routers:
            if router is not None:
                router.core.poll(now)

    def _say(
        self,
        name: str,
        message: Callable[[FakeWorker], worker_pb2.WorkerMessage],
        when: float,
        *,
        but: Router | None = None,
    ) -> None:
        for router in self.routers:
            if router is not None and router is not but:
                resync = router.core.on_worker_message(name, message(router.voices[name]), when)
                if resync is not None:
                    raise RuntimeError(f"{name} lost something: {resync.reason}")


def conversations(requests: int, seed: int) -> list[Tokens]:
    """Draw prompts: 40 people at a time talk on, each with one of four assistants, and are replaced in the end."""
    rng = np.random.default_rng(seed)
    assistants = [rng.integers(0, 30_000, 1024).astype(np.int32) for _ in range(4)]
    talks: list[Tokens] = [assistants[number % 4] for number in range(40)]
    prompts: list[Tokens] = []
    for _ in range(requests):
        who = int(rng.integers(len(talks)))
        if rng.random() < _REPLACED:
            talks[who] = assistants[int(rng.integers(4))]
        said = rng.integers(0, 30_000, int(rng.integers(64, 512))).astype(np.int32)
        talks[who] = np.concatenate((talks[who], said))
        prompts.append(talks[who])
    return prompts


def hit_rate(*, routers: int, killed: bool = False, requests: int = 900, seed: int = 3) -> float:
    """Return the share of prompt tokens that were cached where they were sent.

    `killed`: the first router dies after a third of the requests, and comes back after a half, knowing nothing.
    """
    world = World(routers)
    chance = Random(seed + 2)  # noqa: S311  # nothing here is secret
    for number, tokens in enumerate(conversations(requests, seed)):
        now = number / _PER_S
        if killed and number == requests // 3:
            world.kill(0)
        if killed and number == requests // 2:
            world.restart(0, now)
        world.send(f"r{number}", tokens, chance.randrange(routers), now)
    return world.hit_tokens / world.asked_tokens
