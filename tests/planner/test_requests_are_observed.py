"""What is made of what routers tell, in order and out of it."""

import asyncio
import math
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferplane_api.proto import router_pb2 as pb
from inferplane_api.proto.worker_pb2 import OUTCOME_ENGINE_ERROR, OUTCOME_OK, ROLE_DECODE, RequestReport
from inferplane_planner.core.engine_model import Part
from inferplane_planner.core.solve import Objective
from inferplane_planner.observe.arrivals import Arrivals
from inferplane_planner.observe.events import Finished
from inferplane_planner.observe.stream import follow
from inferplane_planner.observe.window import Window
from inferplane_planner.observe.wire import finished

OBJECTIVE = Objective(1.0, 0.05, 0.95)


def listening(*sources: str) -> Arrivals:
    arrivals = Arrivals(interval_s=10.0, began_s=0.0)
    for source in sources or ("r0",):
        arrivals.hear(source, 0.0)
    return arrivals


def request(name: str, **more: float) -> Finished:
    values = {"prompt": 100, "cached": 40, "output": 11, "ttft_s": 0.2, "tpot_s": 0.02, "decode_s": 0.2, **more}
    return Finished(name, **values)  # type: ignore[arg-type]  # numbers by field name


@given(st.lists(st.floats(10.0, 99.9), max_size=60))
def test_each_request_counts_once_in_the_interval_in_which_it_is_heard(moments: list[float]) -> None:
    arrivals = listening()
    for index, moment in enumerate(sorted(moments)):
        assert arrivals.arrive(f"r{index}", moment)
        assert not arrivals.arrive(f"r{index}", moment)
    counts = arrivals.take(100.0)

    assert [count.ended_s for count in counts] == [10.0 * place for place in range(1, 11)]
    assert sum(count.requests for count in counts) == len(moments)
    assert [count.whole for count in counts] == [False] + [True] * 9


def test_an_interval_in_which_a_source_was_lost_is_not_whole() -> None:
    arrivals = listening("r0", "r1")
    arrivals.lose("r1", 25.0)
    arrivals.hear("r1", 45.0)

    assert [count.whole for count in arrivals.take(70.0)] == [False, True, False, False, False, True, True]


def test_a_source_that_is_no_more_is_not_waited_for() -> None:
    arrivals = listening("r0", "r1")
    arrivals.lose("r1", 25.0)
    arrivals.forget("r1", 28.0)

    assert [count.whole for count in arrivals.take(50.0)][3:] == [True, True]
    assert not arrivals.blind


def test_without_a_source_nothing_is_whole() -> None:
    arrivals = Arrivals(interval_s=10.0, began_s=0.0)

    assert arrivals.blind
    assert not any(count.whole for count in arrivals.take(50.0))


def test_a_late_arrival_counts_in_an_interval_that_was_not_told_yet() -> None:
    arrivals = listening()
    arrivals.take(30.0)
    arrivals.arrive("late", 12.0)

    assert [count.requests for count in arrivals.take(40.0)] == [1]


def test_even_gaps_are_no_burst_and_clumps_are() -> None:
    even, clumps = listening(), listening()
    for index in range(200):
        even.arrive(f"e{index}", index * 0.1)
        clumps.arrive(f"c{index}", (index // 10) * 1.0)

    assert even.burst == 1.0
    assert clumps.burst > 4.0


def test_a_window_holds_what_ended_within_it_once() -> None:
    window = Window(length_s=60.0, began_s=0.0)
    window.finish(request("old", prompt=9, cached=0), 5.0)
    for _ in range(2):
        window.finish(request("new"), 90.0)
    sample = window.sample(100.0)

    assert sample is not None
    assert sample.uncached.tolist() == [60.0]
    assert sample.cached.tolist() == [40.0]
    assert window.sample(500.0) is None


def test_a_busy_window_is_sampled_from_its_newest_quarter_and_not_from_its_last_moment() -> None:
    window = Window(length_s=60.0, began_s=0.0)
    for index in range(3000):
        window.finish(request(f"r{index}", prompt=index, cached=0), index * 0.01)
    sample = window.sample(30.0)

    assert sample is not None
    assert sample.uncached.size <= 1024
    assert sample.uncached.min() == 1500
    assert sample.uncached.max() == 2999


def test_measured_percentiles_and_attainment_are_those_of_the_window() -> None:
    window = Window(length_s=60.0, began_s=0.0)
    for index in range(100):
        window.finish(request(f"r{index}", ttft_s=5.0 if index < 10 else 0.5), 10.0)
    measured = window.measured(20.0, OBJECTIVE)

    assert measured is not None
    assert measured.attainment == pytest.approx(0.9)
    assert measured.ttft_s == 5.0


def test_a_batch_follows_from_the_time_that_was_spent_decoding() -> None:
    window = Window(length_s=60.0, began_s=0.0, decode_length_s=60.0)
    for index in range(60):
        window.finish(request(f"r{index}", output=101, decode_s=2.0, apart=True), 40.0 + index)
    (decoding,) = [it for it in window.learned(100.0, decode_workers=1) if it.part is Part.DECODE]

    assert decoding.seconds == pytest.approx(0.02)
    assert decoding.batch == pytest.approx(2.0)
    assert window.learned(101.0, decode_workers=1) == ()


def test_nonsense_is_left_out() -> None:
    window = Window(length_s=60.0, began_s=0.0)
    window.finish(request("more cached than asked", cached=200), 10.0)
    window.finish(request("never timed", ttft_s=math.nan), 10.0)

    assert window.measured(20.0, OBJECTIVE) is None


def test_a_record_becomes_what_was_observed_on_the_answering_side() -> None:
    report = RequestReport(
        side=ROLE_DECODE,
        outcome=OUTCOME_OK,
        prompt_tokens=100,
        output_tokens=5,
        cached_tokens=64,
        cached_tokens_known=True,
        ttft_s=0.5,
        tpot_s=0.02,
        prefill_worker="p0",
    )
    record = pb.DecisionRecord(request_id="r", queued_s=0.25, observed=[report])
    found = finished(record)

    assert found is not None
    assert (found.prompt, found.uncached, found.output, found.ttft_s, found.apart) == (100, 36, 5, 0.75, True)
    report.outcome = OUTCOME_ENGINE_ERROR
    assert finished(pb.DecisionRecord(request_id="r", observed=[report])) is None


@dataclass
class Heard:
    """Notes what a stream tells."""

    told: list[str] = field(default_factory=list[str])
    done: asyncio.Event = field(default_factory=asyncio.Event)

    def heard(self, source: str) -> None:
        self.told.append(f"heard {source}")

    def lost(self, source: str) -> None:
        self.told.append(f"lost {source}")
        if len(self.told) >= 4:
            self.done.set()

    def arrived(self, request_id: str) -> None:
        self.told.append(f"arrived {request_id}")

    def finished(self, request: Finished) -> None:
        self.told.append(f"finished {request.request_id}")


async def _once(source: str, service: str) -> AsyncIterator[pb.Observation | None]:
    yield None
    yield pb.Observation(arrival=pb.Arrival(request_id=f"{service}-of-{source}"))
    raise grpc.aio.AioRpcError(grpc.StatusCode.UNAVAILABLE, grpc.aio.Metadata(), grpc.aio.Metadata())


def test_a_stream_that_breaks_is_said_to_be_lost() -> None:
    async def listen() -> Sequence[str]:
        heard = Heard()
        task = asyncio.create_task(follow("r0", "chat", heard, observe=_once))
        await heard.done.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return heard.told[:4]

    assert asyncio.run(listen()) == ["lost r0", "heard r0", "arrived chat-of-r0", "lost r0"]
