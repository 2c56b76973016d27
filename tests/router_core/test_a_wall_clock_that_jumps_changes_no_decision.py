"""Waiting, deadlines, costs and expiry go by a clock that never goes back; the wall clock is for records alone."""

from collections.abc import Callable, Iterator
from itertools import chain, cycle, repeat
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inferplane_api.proto import worker_pb2
from inferplane_router.core.router import RouterCore
from inferplane_router.core.testing import (
    EPOCH,
    FakeWorker,
    accepted,
    ask,
    catalogue,
    connect,
    finished,
    prompt,
    service,
)
from inferplane_router.core.values import Queued, Refused, Routed


class Play:
    """Two workers of one place each, and the requests that they have."""

    def __init__(self, wall: Iterator[float]) -> None:
        wall_clock: Callable[[], float] = wall.__next__
        self.core = RouterCore(epoch=EPOCH, rng=Random(1), wall_clock=wall_clock)
        self.workers = {name: FakeWorker(name, max_num_seqs=1) for name in ("d1", "d2")}
        self.core.apply_catalogue(catalogue((service(queue_limit=3),), self.workers.values()), 0.0)
        connect(self.core, *self.workers.values())
        self.running = dict[str, FakeWorker]()
        self.heard = list[Any]()

    def end_one(self, now: float) -> None:
        request_id, worker = self.running.popitem()
        self.core.on_worker_message(worker.worker_id, worker.load(finished(request_id)), now)
        self.core.complete(request_id, worker_pb2.OUTCOME_OK, now)

    def hear(self, request_id: str, answer: object, now: float) -> None:
        self.heard.append((request_id, *_words(answer)))
        if isinstance(answer, Routed):
            worker = self.running[request_id] = self.workers[answer.decode.worker_id]
            self.core.on_worker_message(worker.worker_id, worker.load(accepted(request_id)), now)


def played(wall: Iterator[float], steps: list[tuple[int, float]]) -> list[Any]:
    """Send requests, let some end, and return every answer in words."""
    play, now = Play(wall), 0.0
    for number, (kind, pause_s) in enumerate(steps):
        now += pause_s
        if kind == 0 and play.running:
            play.end_one(now)
        else:
            request_id = f"r{number}"
            play.hear(
                request_id, play.core.pick(ask(play.core, request_id, prompt(kind, 64), deadline_s=5.0), now), now
            )
        for request_id, late in play.core.poll(now):
            play.hear(request_id, late, now)
    return [*play.heard, play.core.next_wakeup()]


def _words(answer: object) -> tuple[Any, ...]:
    if isinstance(answer, Routed):
        return ("routed", answer.decode.worker_id)
    if isinstance(answer, Queued):
        return ("queued", answer.position, answer.deadline)
    assert isinstance(answer, Refused)
    return ("refused", answer.reason, answer.retry_after_s)


STEPS = st.lists(st.tuples(st.integers(0, 3), st.floats(0, 4)), min_size=1, max_size=25)


@pytest.mark.slow  # each example plays twice
@settings(max_examples=25)
@given(steps=STEPS, jumps=st.lists(st.floats(-2e9, 2e9), min_size=1, max_size=8))
def test_a_wall_clock_that_jumps_changes_no_decision(steps: list[tuple[int, float]], jumps: list[float]) -> None:
    steady, jumping = repeat(1_800_000_000.0), chain([1_800_000_000.0], cycle(jumps))

    assert played(jumping, steps) == played(steady, steps)
