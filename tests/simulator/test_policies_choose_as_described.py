"""Each policy to compare with, on a written-down situation."""

from random import Random

import numpy as np
import pytest

from inferplane_api.proto.worker_pb2 import OUTCOME_OK
from inferplane_router.core.router import RouterCore
from inferplane_router.core.testing import FakeWorker, catalogue, connect, prompt, resolve, service
from inferplane_router.core.values import Ask, Routed, Tokens
from inferplane_simulator.policies import POLICIES

SHARED = prompt(1, 1600)


class Situation:
    """Three workers; the first holds `SHARED`."""

    def __init__(self, policy: str) -> None:
        self.workers = [FakeWorker(f"w{number}") for number in range(3)]
        self.core = RouterCore(epoch=7, rng=Random(1), wall_clock=lambda: 0.0, policies=POLICIES)
        self.core.apply_catalogue(catalogue((service(policy=policy, queue_limit=0, ttft_s=20.0),), self.workers), 0.0)
        connect(self.core, *self.workers)
        self.asked = 0

    def hold(self, number: int) -> None:
        worker = self.workers[number]
        self.core.on_worker_message(worker.worker_id, worker.delta(stored=worker.hashes(SHARED)), 0.0)

    def ask(self, seed: int = 1, tokens: int = 1600) -> str:
        return self.ask_tokens(prompt(seed, tokens))

    def ask_tokens(self, tokens: Tokens) -> str:
        self.asked += 1
        answer = self.core.pick(Ask(f"r{self.asked}", resolve(self.core), tokens), 0.0)
        assert isinstance(answer, Routed)
        return answer.decode.worker_id


@pytest.mark.parametrize("policy", ["block-cost", "sticky", "kv-aware"])
def test_who_has_the_prefix_gets_the_request(policy: str) -> None:
    for number in range(3):
        situation = Situation(policy)
        situation.hold(number)

        assert situation.ask() == f"w{number}"


@pytest.mark.parametrize("policy", ["balanced-tree", "prefix-match"])
def test_who_was_sent_the_prefix_gets_the_next_one(policy: str) -> None:
    situation = Situation(policy)
    first = situation.ask()

    assert [situation.ask() for _ in range(4)] == [first] * 4


@pytest.mark.parametrize(("policy", "most"), [("prefix-match", 17), ("balanced-tree", 65)])
def test_an_imbalance_breaks_the_affinity(policy: str, most: int) -> None:
    situation = Situation(policy)
    chosen = [situation.ask(tokens=64) for _ in range(most + 3)]

    assert len(set(chosen[:most])) == 1
    assert len(set(chosen)) > 1


def test_block_cost_counts_a_block_once_however_many_decode_over_it() -> None:
    situation = Situation("block-cost")
    situation.hold(0)

    assert {situation.ask() for _ in range(6)} == {"w0"}


def test_block_cost_weighs_decoding_against_what_is_cached() -> None:
    situation = Situation("block-cost")
    situation.hold(0)
    chosen = [situation.ask_tokens(np.concatenate((SHARED, prompt(seed, 1600)))) for seed in range(10, 16)]

    assert chosen[0] == "w0"
    assert set(chosen) == {"w0", "w1", "w2"}


def test_block_cost_forgets_the_blocks_of_answers_that_have_ended() -> None:
    situation = Situation("block-cost")
    first = situation.ask(seed=10)
    others = {situation.ask(seed=seed) for seed in (11, 12)}
    situation.core.complete("r1", OUTCOME_OK, 0.0)

    assert first not in others
    assert situation.ask(seed=13) == first


@pytest.mark.parametrize("policy", POLICIES)
def test_unshared_prompts_are_spread(policy: str) -> None:
    situation = Situation(policy)

    assert len({situation.ask(seed) for seed in range(10, 40)}) == 3
