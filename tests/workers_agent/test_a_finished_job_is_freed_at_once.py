"""A job that holds itself alive waits for the garbage collector: memory grows cold, and collecting costs CPU."""

import gc
from collections.abc import Generator

import orjson
import pytest

from inferplane_workers.agent.job import Job
from inferplane_workers.agent.testing import Bench

ANSWER = {"id": "x", "choices": [{"text": "ok"}]}
OFFER = orjson.dumps({**ANSWER, "kv_transfer_params": {"remote_engine_id": "e", "remote_block_ids": [1]}})
HAND_OFF = ((b"x-inferplane-prefill", b"10.0.0.9:8100"),)


@pytest.fixture(autouse=True)
def _no_collector() -> Generator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def jobs() -> int:
    """Count what is left of jobs; only cycles can keep one, since nobody else does."""
    return sum(type(each) is Job for each in gc.get_objects())


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("handed_over", [False, True])
def test_a_job_is_gone_with_its_answer(*, stream: bool, handed_over: bool) -> None:
    bench = Bench()
    bench.send({"prompt": "hi", "stream": stream}, headers=HAND_OFF if handed_over else ())
    if handed_over:
        bench.upstream.last.answer(OFFER)

    assert jobs() == 1

    if stream:
        bench.upstream.last.begin_stream()
        bench.upstream.last.sink.on_body(b"data: [DONE]\n\n")
        bench.upstream.last.sink.on_end()
    else:
        bench.upstream.last.answer(orjson.dumps(ANSWER))
    bench.upstream.calls.clear()

    assert jobs() == 0
