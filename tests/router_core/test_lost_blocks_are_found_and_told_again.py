"""The index against the workers' own word: what was lost is found, named and put right; what is on its way is not."""

import asyncio
from random import Random

import numpy as np
import orjson
import pytest

from inferplane_router.core.index_check import Held, compare, lasting
from inferplane_router.core.index_kernels import DEVICE, HOST
from inferplane_router.core.router import RouterCore
from inferplane_router.core.testing import FakeWorker, make_core
from inferplane_router.core.values import Hashes
from inferplane_router.index_check import IndexCheck, WorkerCheck
from inferplane_router.streams.worker_blocks import NoSnapshotError
from inferplane_runtime.clock import FakeClock
from inferplane_runtime.http.api import Exchange, Request
from inferplane_runtime.http.testing import RecordedExchange


def hashes(*numbers: int) -> Hashes:
    return np.array(numbers, np.uint64)


class Agent:
    """A worker's truth, and a stream that loses some of what it should say without a gap in its numbers."""

    def __init__(self, rng: Random, *, loses: float) -> None:
        self.worker = FakeWorker("d")
        self.core = make_core(self.worker)
        self.there: set[int] = set()
        self._rng = rng
        self._loses = loses

    def live(self, changes: int) -> None:
        for _ in range(changes):
            stored = set(self._rng.sample(range(1, 400), 8))
            removed = set(self._rng.sample(sorted(self.there), min(5, len(self.there)))) - stored
            self.there = (self.there - removed) | stored
            if self._rng.random() >= self._loses:
                delta = self.worker.delta(stored=hashes(*stored), removed=hashes(*removed))
                self.core.on_worker_message("d", delta, 0.0)

    def held(self) -> Held:
        return {(0, DEVICE): hashes(*self.there)} if self.there else {}


def check(core: RouterCore, *answers: Held | NoSnapshotError) -> list[WorkerCheck]:
    told = list(answers)

    async def read(address: str) -> Held:
        assert address == "d:8101"
        answer = told.pop(0) if len(told) > 1 else told[0]
        if isinstance(answer, NoSnapshotError):
            raise answer
        return answer

    async def sleep(_: float) -> None:
        """Pass no time."""

    return asyncio.run(IndexCheck(core, FakeClock(), read=read, sleep=sleep).check())


@pytest.mark.parametrize("seed", range(20))
def test_exactly_what_was_lost_is_found_and_a_snapshot_puts_it_right(seed: int) -> None:
    agent = Agent(Random(seed), loses=0.2)
    agent.live(40)
    known = {int(key) for key in agent.core.held_blocks("d").get((0, DEVICE), hashes())}
    (found,) = check(agent.core, agent.held())
    (place,) = found.differences

    assert {int(key) for key in place.missing} == agent.there - known
    assert {int(key) for key in place.surplus} == known - agent.there
    assert found.differs

    resync = agent.core.on_worker_message("d", agent.worker.heartbeat(), 0.0)
    agent.core.on_worker_message("d", agent.worker.snapshot(hashes(*agent.there)), 0.0)

    assert resync is not None
    assert not check(agent.core, agent.held())[0].differs


def test_a_stream_that_loses_nothing_is_left_alone() -> None:
    agent = Agent(Random(1), loses=0.0)
    agent.live(40)

    assert not check(agent.core, agent.held())[0].differs
    assert agent.core.on_worker_message("d", agent.worker.heartbeat(), 0.0) is None


def test_what_differs_once_was_only_on_its_way() -> None:
    agent = Agent(Random(1), loses=0.0)
    agent.live(5)
    ahead = {(0, DEVICE): hashes(*agent.there, 901)}
    behind = {(0, DEVICE): hashes(*sorted(agent.there)[1:])}

    assert not check(agent.core, ahead, behind)[0].differs


def test_places_are_told_apart() -> None:
    before = compare(
        {(0, DEVICE): hashes(1, 2), (1, DEVICE): hashes(3)}, {(0, DEVICE): hashes(2, 1), (0, HOST): hashes(3)}
    )
    differing = [each for each in lasting(before, before) if not each.is_none]

    assert [(each.rank, each.plane, each.missing.tolist(), each.surplus.tolist()) for each in differing] == [
        (0, HOST, [], [3]),
        (1, DEVICE, [3], []),
    ]


def test_a_worker_that_does_not_say_what_it_has_is_told_of_and_keeps_its_blocks() -> None:
    agent = Agent(Random(1), loses=0.0)
    agent.live(5)
    (found,) = check(agent.core, agent.held(), NoSnapshotError("no answer"))

    assert (found.problem, found.differs) == ("no answer", False)
    assert agent.core.held_blocks("d")


def test_it_is_asked_for_beside_other_paths() -> None:
    agent = Agent(Random(1), loses=0.0)
    agent.live(5)
    agent.there.add(901)
    others: list[bytes] = []

    async def read(_: str) -> Held:
        return agent.held()

    async def sleep(_: float) -> None:
        """Pass no time."""

    def other(request: Request, exchange: Exchange) -> None:
        del exchange
        others.append(request.path)

    async def ask() -> RecordedExchange:
        index = IndexCheck(agent.core, FakeClock(), read=read, sleep=sleep)
        handle, exchange = index.beside(other), RecordedExchange()
        handle(Request(b"GET", b"/metrics"), RecordedExchange())
        handle(Request(b"GET", b"/index"), exchange)
        await asyncio.gather(*(asyncio.all_tasks() - {asyncio.current_task()}))
        return exchange

    exchange = asyncio.run(ask())
    place = {"rank": 0, "plane": "device", "blocks": len(agent.there), "missing": 1, "surplus": 0}

    assert others == [b"/metrics"]
    assert orjson.loads(exchange.body) == {
        "workers": [{"worker": "d", "problem": "", "places": [{**place, "examples": [f"{901:016x}"]}]}]
    }
