"""A prefix that only a KV store has draws a request where fetching it is cheaper than computing."""

from random import Random

import pytest

from inferplane_api.proto import worker_pb2
from inferplane_router.core.cost import CostSettings
from inferplane_router.core.router import RouterCore
from inferplane_router.core.testing import FakeWorker, ask, catalogue, connect, make_core, prompt, service
from inferplane_router.core.values import Routed

TOKENS = prompt(1, 2000)
TIERS = {"host": worker_pb2.PLANE_HOST, "disk": worker_pb2.PLANE_DISK, "remote": worker_pb2.PLANE_REMOTE}


def chosen(core: RouterCore) -> str:
    answer = core.pick(ask(core, "r", TOKENS), 1.0)
    assert isinstance(answer, Routed)
    return answer.decode.worker_id


@pytest.mark.parametrize("tier", TIERS)
def test_a_stored_prefix_is_better_than_none(tier: str) -> None:
    workers = [FakeWorker("d1"), FakeWorker("d2"), FakeWorker("d3")]
    core = make_core(*workers)
    held = workers[1].delta(
        stored=workers[1].hashes(TOKENS), plane=TIERS[tier], store_id="s" if tier == "remote" else ""
    )
    core.on_worker_message("d2", held, 0.0)

    assert chosen(core) == "d2"


def test_a_prefix_in_the_engine_is_better_than_one_on_disk() -> None:
    workers = [FakeWorker("d1"), FakeWorker("d2")]
    core = make_core(*workers)
    hashes = workers[0].hashes(TOKENS)
    core.on_worker_message("d1", workers[0].delta(stored=hashes, plane=worker_pb2.PLANE_DISK), 0.0)
    core.on_worker_message("d2", workers[1].delta(stored=hashes), 0.0)

    assert chosen(core) == "d2"


def test_a_tier_dearer_than_computing_draws_nobody() -> None:
    assert CostSettings().disk_token_s < CostSettings().prefill_token_s
    workers = [FakeWorker("d1"), FakeWorker("d2")]
    dear = CostSettings(disk_token_s=1.0)
    core = RouterCore(epoch=1, rng=Random(1), wall_clock=lambda: 1_700_000_000.0, cost=dear)
    core.apply_catalogue(catalogue([service()], workers), 0.0)
    connect(core, *workers)
    held = workers[0].delta(stored=workers[0].hashes(TOKENS), plane=worker_pb2.PLANE_DISK)
    core.on_worker_message("d1", held, 0.0)

    assert chosen(core) == "d2"
