"""A small fleet in virtual time: one request at a time prefills on a worker, exactly as fast as the prior says."""

from dataclasses import dataclass, field

import numpy as np
import pytest

from inferplane_api.proto import worker_pb2
from inferplane_router.core.router import RouterCore
from inferplane_router.core.testing import FakeWorker, accepted, ask, finished, make_core, prompt
from inferplane_router.core.values import Routed, Tokens

TOKEN_S, BASE_S, DECODE_S = 5e-5, 0.01, 1.0


@dataclass
class Fleet:
    """Workers that prefill one after another, decode in parallel and tell the router what happens."""

    core: RouterCore
    workers: dict[str, FakeWorker]
    free_at: dict[str, float] = field(default_factory=dict[str, float])
    ends: list[tuple[float, int, str, str]] = field(default_factory=list[tuple[float, int, str, str]])
    served: dict[str, int] = field(default_factory=dict[str, int])
    hit_tokens: int = 0
    asked_tokens: int = 0
    waits: list[float] = field(default_factory=list[float])
    homes: list[str] = field(default_factory=list[str])

    def send(self, tokens: Tokens, now: float) -> None:
        self._advance(now)
        number = len(self.homes)
        answer = self.core.pick(ask(self.core, f"r{number}", tokens), now)
        assert isinstance(answer, Routed)
        home = answer.decode.worker_id
        begins = max(now, self.free_at.get(home, 0.0))
        prefilled = begins + BASE_S + TOKEN_S * answer.uncached_tokens
        self.free_at[home] = prefilled
        self.ends += [(prefilled, number, "prefilled", home), (prefilled + DECODE_S, number, "ended", home)]
        self.waits.append(prefilled - now)
        self.served[home] = self.served.get(home, 0) + 1
        self.hit_tokens += answer.prefill_cached_tokens
        self.asked_tokens += tokens.shape[0]
        self.homes.append(home)
        self._say(home, self.workers[home].delta(stored=self.workers[home].hashes(tokens)), prefilled)
        self._say(home, self.workers[home].load(accepted(f"r{number}")), now)

    def _advance(self, now: float) -> None:
        due = sorted(end for end in self.ends if end[0] <= now)
        self.ends = [end for end in self.ends if end[0] > now]
        for when, number, what, home in due:
            if what == "ended":
                self._say(home, self.workers[home].load(finished(f"r{number}")), when)
                self.core.complete(f"r{number}", worker_pb2.OUTCOME_OK, when)
            else:
                entry = accepted(f"r{number}")
                entry.phase = worker_pb2.LOAD_PHASE_PREFILL_DONE
                self._say(home, self.workers[home].load(entry), when)
        self.core.poll(now)

    def _say(self, home: str, message: worker_pb2.WorkerMessage, when: float) -> None:
        assert self.core.on_worker_message(home, message, when) is None


def make_fleet(count: int) -> Fleet:
    workers = {f"d{number}": FakeWorker(f"d{number}") for number in range(count)}
    return Fleet(make_core(*workers.values()), workers)


@pytest.mark.parametrize("shared_tokens", [0, 512], ids=["nothing shared", "a shared system prompt"])
def test_no_worker_starves_on_single_turn_load(shared_tokens: int) -> None:
    fleet = make_fleet(5)
    shared = prompt(0, shared_tokens)
    arrivals = np.cumsum(np.random.default_rng(1).exponential(1 / 60, 600))  # about 70 % of what five can prefill
    for number, now in enumerate(arrivals.tolist()):
        fleet.send(np.concatenate((shared, prompt(number + 1, 1024))), now)

    assert min(fleet.served.values()) > 0.6 * max(fleet.served.values())
    assert float(np.percentile(fleet.waits, 99)) < 0.5


def test_sessions_stay_with_their_cache_at_moderate_load() -> None:
    fleet = make_fleet(4)
    now = 0.0
    for turn in range(1, 6):
        for session in range(20):
            now += 0.05
            fleet.send(prompt(session, 600 * turn), now)

    assert fleet.hit_tokens / fleet.asked_tokens > 0.6
    assert len(fleet.served) == 4


def test_a_hot_prefix_is_released_only_as_far_as_its_worker_is_overloaded() -> None:
    fleet = make_fleet(4)
    hot, now = prompt(1000, 2048), 0.0
    sessions = [prompt(number, 2048) for number in range(8)]
    for tokens in sessions:
        now += 0.5
        fleet.send(tokens, now)
    before = dict(zip(range(8), fleet.homes, strict=True))
    kept = 0
    for number in range(400):
        now += 0.012
        fleet.send(np.concatenate((hot, prompt(2000 + number, 512))), now)
        if number % 50 == 49:
            session = number // 50
            fleet.send(np.concatenate((sessions[session], prompt(5000 + number, 64))), now)
            kept += fleet.homes[-1] == before[session]

    hot_share = fleet.hit_tokens / fleet.asked_tokens
    assert len(fleet.served) == 4
    assert hot_share > 0.7
    assert kept >= 5
