"""What a hit in a lower tier is worth follows what engines measure there, whichever way it changes."""

from dataclasses import dataclass, field
from math import inf, nan

import pytest

from inferplane_api.proto import worker_pb2 as pb
from inferplane_kv_connector.worth import Worth
from inferplane_router.core.index_kernels import DISK, HOST
from inferplane_router.core.router import RouterCore
from inferplane_router.core.testing import BLOCK, FakeWorker, ask, make_core, prompt
from inferplane_router.core.tier_prices import DEAREST_S, prices_of
from inferplane_router.core.values import Routed
from inferplane_workers.agent.tier_prices import TierPrices

TOKENS = prompt(1, 2000)
BLOCKS = len(TOKENS) // BLOCK


def chosen(core: RouterCore) -> str:
    """Ask who would be chosen, and let it leave nothing behind."""
    answer = core.pick(ask(core, "r", TOKENS), 1.0)
    assert isinstance(answer, Routed)
    core.complete("r", pb.OUTCOME_REFUSED, 1.0)
    return answer.decode.worker_id


def price(token_s: float, plane: pb.Plane = pb.PLANE_DISK) -> pb.TierPrice:
    return pb.TierPrice(plane=plane, token_s=token_s)


def holding(*, disk: str) -> tuple[RouterCore, dict[str, FakeWorker]]:
    """Return a router of two workers, of which one has the prompt on its disk."""
    workers = {name: FakeWorker(name) for name in ("d1", "d2")}
    core = make_core(*workers.values())
    held = workers[disk].delta(stored=workers[disk].hashes(TOKENS), plane=pb.PLANE_DISK)
    core.on_worker_message(disk, held, 0.0)
    return core, workers


def test_a_slow_disk_draws_nobody_until_it_is_fast_again() -> None:
    core, workers = holding(disk="d1")
    said = [chosen(core)]
    for token_s in (1e-2, 1e-6):
        core.on_worker_message("d1", workers["d1"].status(tier_prices=[price(token_s)]), 0.0)
        said.append(chosen(core))

    assert said == ["d1", "d2", "d1"]


def test_of_two_that_hold_it_the_faster_disk_is_chosen() -> None:
    core, workers = holding(disk="d1")
    core.on_worker_message("d2", workers["d2"].delta(stored=workers["d2"].hashes(TOKENS), plane=pb.PLANE_DISK), 0.0)
    said: list[str] = []
    for fast, slow in (("d1", "d2"), ("d2", "d1")):
        core.on_worker_message(fast, workers[fast].status(tier_prices=[price(1e-6)]), 0.0)
        core.on_worker_message(slow, workers[slow].status(tier_prices=[price(4e-5)]), 0.0)
        said.append(chosen(core))

    assert said == ["d1", "d2"]


def test_a_tier_that_nobody_measured_costs_what_the_settings_say() -> None:
    core, workers = holding(disk="d1")
    core.on_worker_message("d1", workers["d1"].status(tier_prices=[price(1e-2, pb.PLANE_HOST)]), 0.0)

    assert chosen(core) == "d1"


@pytest.mark.parametrize("token_s", [0.0, -1.0, nan, inf])
def test_a_price_that_is_no_time_is_not_heard(token_s: float) -> None:
    assert prices_of([price(token_s), price(2.0, pb.PLANE_HOST)]) == {HOST: DEAREST_S}


def test_a_plane_of_a_later_version_is_left_alone() -> None:
    later = price(1e-3)
    later.plane = 77  # type: ignore[assignment]  # as it comes over the wire

    assert prices_of([later, price(1e-3)]) == {DISK: 1e-3}


@dataclass(slots=True)
class Loop:
    """An engine that measures its loads from disk, its agent and a router, in virtual time."""

    core: RouterCore
    worker: FakeWorker
    now: float = 0.0
    worth: Worth = field(default_factory=lambda: Worth(BLOCK))
    prices: TierPrices = field(default_factory=TierPrices)
    told: int = 0

    def load(self, block_s: float) -> None:
        """Let a prompt be loaded whose blocks take so long each."""
        tiers = ["ssd"] * BLOCKS
        self.worth.load_began("r", tiers, self.now)
        self.now += BLOCKS * block_s
        self.worth.load_ended("r", self.now)
        if self.prices.take({"engines": [self.worth.told()]}):
            self.told += 1
            self.core.on_worker_message("d1", self.worker.status(tier_prices=self.prices.messages()), self.now)


def test_the_price_follows_the_disk_there_and_back() -> None:
    core, workers = holding(disk="d1")
    loop, said = Loop(core, workers["d1"]), list[str]()
    for block_s in (1e-5, 0.1, 1e-5):
        for _ in range(30):
            loop.load(block_s)
        said.append(chosen(core))

    assert said == ["d1", "d2", "d1"]


def test_a_steady_disk_is_told_once() -> None:
    core, workers = holding(disk="d1")
    loop = Loop(core, workers["d1"])
    for number in range(200):
        loop.load(1e-5 * (1.0 + 0.01 * (number % 3)))

    assert loop.told == 1
