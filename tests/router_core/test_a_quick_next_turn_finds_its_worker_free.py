"""Who sees an answer's end asks for the next turn before the agent's words of the last one have come."""

import numpy as np
import pytest

from inferplane_api.proto import worker_pb2
from inferplane_router.core.router import RouterCore
from inferplane_router.core.testing import FakeWorker, accepted, ask, make_core, prompt
from inferplane_router.core.values import Routed, Tokens

OK = worker_pb2.OUTCOME_OK


def place(core: RouterCore, request_id: str, tokens: Tokens, now: float) -> str:
    answer = core.pick(ask(core, request_id, tokens), now)
    assert isinstance(answer, Routed)
    return answer.decode.worker_id


@pytest.mark.parametrize("rng_seed", range(5))
def test_a_turn_that_follows_at_once_stays_although_the_last_ones_acceptance_is_told_late(rng_seed: int) -> None:
    workers = {name: FakeWorker(name) for name in ("d", "e", "f")}
    core = make_core(*workers.values(), rng_seed=rng_seed)
    first = prompt(rng_seed, 320)
    home = place(core, "turn-1", first, 1.0)
    core.complete("turn-1", OK, 1.01)
    core.on_worker_message(home, workers[home].delta(stored=workers[home].hashes(first)), 1.01)
    core.on_worker_message(home, workers[home].load(accepted("turn-1", prompt_tokens=320, uncached=320)), 1.01)

    assert place(core, "turn-2", np.concatenate((first, prompt(99, 32))), 1.02) == home
