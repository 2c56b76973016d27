"""Halves that are sent at once: every order of failures, on fakes and with whole agents beside fake servers."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferplane_runtime.http.api import Headers, Request, UpstreamFailure
from inferplane_runtime.http.client import UpstreamPool
from inferplane_workers.agent.app import Agent
from inferplane_workers.agent.config import Role
from inferplane_workers.agent.engine_adapter import ADAPTERS
from inferplane_workers.agent.engine_metrics import read_page
from inferplane_workers.agent.meeting import CancelDecode, CancelPrefill, Event, GiveUp, Meet, Meeting, State
from inferplane_workers.agent.testing import ENGINE, JSON, Bench, FakeCall
from inferplane_workers.agent.testing_sglang import METRICS, MODEL, FakeSglang, Fault, Rooms, Side
from inferplane_workers.agent.timeline import Outcome
from inferplane_workers.agent.timeline import Side as Half
from inferplane_workers.testing import agent_beside, ask, until

FIRST, SECOND = "10.0.0.1:8100", "10.0.0.2:8100"
PREFILL = (b"x-inferplane-prefill", f"{FIRST}, {SECOND}".encode())
ANSWER = {"id": "d", "choices": [{"text": "ok"}], "usage": {"prompt_tokens": 40, "completion_tokens": 2}}


def bench(role: Half = Half.DECODE) -> Bench:
    made = Bench(role=role, adapter=ADAPTERS["sglang"])
    rooms = count(1)
    made.path.context.draw_room = lambda: next(rooms)
    return made


def halves(found: Bench) -> tuple[FakeCall, FakeCall]:
    """Return the latest own half and the latest prefill half."""
    own = found.upstream.to(ENGINE)[-1]
    other = [call for call in found.upstream.calls if call.address != ENGINE][-1]
    return own, other


def in_force(found: Bench) -> int:
    return len(found.path.context.live) + len(found.ledger)


def test_both_halves_are_sent_at_once_and_name_one_room() -> None:
    found = bench()
    found.send({"prompt": "hi", "max_tokens": 5, "temperature": 0.5}, headers=(PREFILL,))
    own, other = halves(found)

    assert own.json == {
        "prompt": "hi",
        "max_tokens": 5,
        "temperature": 0.5,
        "bootstrap_host": "10.0.0.1",
        "bootstrap_port": 8998,
        "bootstrap_room": 1,
        "disagg_prefill_dp_rank": 0,
    }
    assert other.address == FIRST
    assert other.request.headers.get(b"x-inferplane-rendezvous") == b"10.0.0.1:8998/1"
    assert other.request.headers.get(b"x-inferplane-handoff") == b"prefill"


def test_a_prefill_agent_sends_the_whole_request_with_the_place() -> None:
    """The first token is sampled there, so nothing that shapes it may be missing."""
    found = bench(Half.PREFILL)
    asked = {"prompt": "hi", "max_tokens": 5, "logprobs": 2, "regex": "a*", "stream": True, "stream_options": None}
    headers = ((b"x-inferplane-handoff", b"prefill"), (b"x-inferplane-rendezvous", b"10.0.0.1:8998/77"))
    found.send(asked, headers=(*headers, (b"x-inferplane-dp-rank", b"3")))

    sent = found.upstream.last
    assert sent.json == {
        "prompt": "hi",
        "max_tokens": 5,
        "logprobs": 2,
        "regex": "a*",
        "stream": False,
        "bootstrap_host": "10.0.0.1",
        "bootstrap_port": 8998,
        "bootstrap_room": 77,
        "disagg_prefill_dp_rank": 3,
    }
    assert sent.request.headers.get(b"x-data-parallel-rank") == b"3"


@pytest.mark.parametrize("place", [b"", b"x", b"h:1", b"h:x/1", b":1/1", b"h:1/-1", b"h:1/99999999999999999999"])
def test_a_place_that_is_none_is_refused(place: bytes) -> None:
    found = bench(Half.PREFILL)
    exchange = found.send(
        {"prompt": "x"}, headers=((b"x-inferplane-handoff", b"prefill"), (b"x-inferplane-rendezvous", place))
    )

    assert exchange.status == 400
    assert found.upstream.calls == []


def test_a_prefill_half_without_a_place_is_refused() -> None:
    found = bench(Half.PREFILL)
    exchange = found.send({"prompt": "x"}, headers=((b"x-inferplane-handoff", b"prefill"),))

    assert orjson.loads(exchange.body)["error"]["param"] == "x-inferplane-rendezvous"


@pytest.mark.parametrize(
    "forged",
    [
        {"bootstrap_room": 1},
        {"bootstrap_host": "evil", "bootstrap_port": 1},
        {"routed_dp_rank": 3},
        {"data_parallel_rank": 3},
        {"rid": "other"},
        {"extra_key": "x"},
    ],
    ids=lambda forged: next(iter(forged)),
)
def test_clients_name_no_room_rank_or_key(forged: dict[str, Any]) -> None:
    found = bench()
    found.send({"prompt": "hi", **forged}, headers=((b"x-override-bootstrap-room", b"1"),))

    assert found.upstream.last.json == {"prompt": "hi"}
    assert found.observer.removed == list(forged)
    assert found.upstream.last.request.headers.get(b"x-override-bootstrap-room") is None


def test_ranks_of_both_sides_are_told() -> None:
    found = bench()
    ranks = ((b"x-inferplane-dp-rank", b"1"), (b"x-inferplane-prefill-dp-rank", b"3"))
    found.send({"prompt": "hi"}, headers=(PREFILL, *ranks))
    own, other = halves(found)

    assert own.request.headers.get(b"x-data-parallel-rank") == b"1"
    assert own.json["disagg_prefill_dp_rank"] == 3
    assert other.request.headers.get(b"x-inferplane-dp-rank") == b"3"


def test_each_prefill_worker_is_met_at_its_own_rank() -> None:
    found = bench()
    found.send({"prompt": "hi"}, headers=(PREFILL, (b"x-inferplane-prefill-dp-rank", b"3,5")))
    halves(found)[1].fail()
    own, other = halves(found)

    assert (other.address, own.json["disagg_prefill_dp_rank"]) == (SECOND, 5)
    assert other.request.headers.get(b"x-inferplane-dp-rank") == b"5"


def test_the_answer_is_the_own_engines_and_both_sides_are_counted() -> None:
    found = bench()
    exchange = found.send({"prompt": "hi"}, headers=(PREFILL,))
    own, other = halves(found)
    usage = {"prompt_tokens": 40, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 16}}
    other.answer(orjson.dumps({"usage": usage}), headers=JSON.plus((b"x-inferplane-worker", b"prefill-0")))
    own.answer(orjson.dumps(ANSWER))

    assert orjson.loads(exchange.body) == ANSWER
    assert exchange.header(b"x-inferplane-prefill-worker") == b"prefill-0"
    assert exchange.header(b"x-inferplane-cached-tokens") == b"16"
    assert in_force(found) == 0
    assert [call.request.path for call in found.upstream.calls] == [b"/v1/completions"] * 2, "nothing to confirm"


@pytest.mark.parametrize("status", [404, 429, 500, 503])
def test_a_prefill_half_that_fails_ends_the_other_and_both_are_sent_anew(status: int) -> None:
    found = bench()
    exchange = found.send({"prompt": "hi"}, headers=(PREFILL,))
    own, other = halves(found)
    other.answer(b"{}", status=status)
    again, second = halves(found)
    again.answer(orjson.dumps(ANSWER))

    assert own.cancelled
    assert (second.address, again.json["bootstrap_host"], again.json["bootstrap_room"]) == (SECOND, "10.0.0.2", 2)
    assert second.request.headers.get(b"x-inferplane-rendezvous") == b"10.0.0.2:8998/2"
    assert orjson.loads(exchange.body) == ANSWER
    assert found.observer.reports[0].failed_prefill_workers == (FIRST,)
    assert in_force(found) == 0


@pytest.mark.parametrize("failure", list(UpstreamFailure))
def test_a_prefill_half_that_is_lost_ends_the_other(failure: UpstreamFailure) -> None:
    found = bench()
    found.send({"prompt": "hi"}, headers=(PREFILL,))
    own, other = halves(found)
    other.fail(failure)

    assert own.cancelled
    assert found.observer.failures == [(FIRST, failure.value)]
    assert halves(found)[1].address == SECOND


def test_with_no_prefill_worker_left_another_decode_worker_may_be_tried() -> None:
    found = bench()
    exchange = found.send({"prompt": "hi"}, headers=(PREFILL,))
    halves(found)[1].fail()
    halves(found)[1].fail()

    assert (exchange.status, exchange.header(b"x-inferplane-retry")) == (502, b"1")
    assert all(call.cancelled for call in found.upstream.to(ENGINE))
    assert in_force(found) == 0


def test_a_request_at_fault_is_refused_once() -> None:
    found = bench()
    exchange = found.send({"prompt": "hi"}, headers=(PREFILL,))
    own, other = halves(found)
    other.answer(b'{"error": {"message": "too long"}}', status=400)

    assert own.cancelled
    assert (exchange.status, orjson.loads(exchange.body)["error"]["message"]) == (400, "too long")
    assert len(found.upstream.calls) == 2
    assert in_force(found) == 0


def test_an_own_engine_that_fails_with_a_pair_gets_another() -> None:
    found = bench()
    found.send({"prompt": "hi"}, headers=(PREFILL,))
    own, other = halves(found)
    own.answer(b"{}", status=500)
    again, second = halves(found)

    assert other.cancelled
    assert (second.address, again.json["bootstrap_room"]) == (SECOND, 2)


@pytest.mark.parametrize(("failure", "status"), [(UpstreamFailure.REFUSED, 503), (UpstreamFailure.LOST, 502)])
def test_an_own_engine_that_is_gone_ends_the_request(failure: UpstreamFailure, status: int) -> None:
    found = bench()
    exchange = found.send({"prompt": "hi"}, headers=(PREFILL,))
    own, other = halves(found)
    own.fail(failure)

    assert other.cancelled
    assert (exchange.status, exchange.header(b"x-inferplane-retry")) == (status, b"1")
    assert len(found.upstream.calls) == 2
    assert in_force(found) == 0


def test_an_own_engine_that_refuses_the_request_answers_it() -> None:
    found = bench()
    exchange = found.send({"prompt": "hi"}, headers=(PREFILL,))
    own, other = halves(found)
    own.answer(b'{"error": {}}', status=400)

    assert other.cancelled, "it would wait for its other half"
    assert exchange.status == 400
    assert in_force(found) == 0


def test_a_stream_that_begins_with_an_error_is_no_answer_yet() -> None:
    found = bench()
    exchange = found.send({"prompt": "hi", "stream": True}, headers=(PREFILL,))
    own, other = halves(found)
    own.begin_stream()
    assert not exchange.started
    own.sink.on_body(b'data: {"error": {"message": "KV transfer failed"}}\n\n')
    again, _ = halves(found)
    again.begin_stream()
    again.sink.on_body(b'data: {"choices": [{"text": "a"}]}\n\n')
    again.sink.on_end()

    assert other.cancelled
    assert exchange.head is not None
    assert b"".join(exchange.written) == b'data: {"choices": [{"text": "a"}]}\n\n'
    assert in_force(found) == 0


def test_a_prefill_half_that_fails_after_the_first_token_matters_no_more() -> None:
    found = bench()
    exchange = found.send({"prompt": "hi", "stream": True}, headers=(PREFILL,))
    own, other = halves(found)
    own.begin_stream()
    own.sink.on_body(b"data: {}\n\n")
    other.fail()
    own.sink.on_end()

    assert not own.cancelled
    assert exchange.ended
    assert found.observer.reports[0].outcome is Outcome.OK


def test_an_own_engine_that_breaks_off_ends_the_prefill_half() -> None:
    found = bench()
    exchange = found.send({"prompt": "hi", "stream": True}, headers=(PREFILL,))
    own, other = halves(found)
    own.begin_stream()
    own.sink.on_body(b"data: {}\n\n")
    own.fail()

    assert exchange.aborted
    assert other.cancelled
    assert in_force(found) == 0


@pytest.mark.parametrize("begun", [False, True], ids=["meeting", "decoding"])
def test_a_client_that_goes_ends_both_halves(begun: bool) -> None:  # noqa: FBT001 - a parameter
    found = bench()
    exchange = found.send({"prompt": "hi", "stream": True}, headers=(PREFILL,))
    own, other = halves(found)
    if begun:
        own.begin_stream()
        own.sink.on_body(b"data: {}\n\n")
    exchange.leave()

    assert own.cancelled
    assert other.cancelled
    assert in_force(found) == 0


@pytest.mark.parametrize("asked", [{"n": 2}, {"prompt": ["a", "b"]}, {"echo": True, "logprobs": 1}])
def test_what_cannot_be_handed_over_is_refused_with_words(asked: dict[str, Any]) -> None:
    found = bench()
    exchange = found.send({"prompt": "hi", **asked}, headers=(PREFILL,))

    assert exchange.status == 400
    assert "one answer to one prompt" in orjson.loads(exchange.body)["error"]["message"]
    assert found.upstream.calls == []


def test_without_candidates_the_engine_is_asked_as_it_is() -> None:
    found = bench()
    found.send({"prompt": "hi", "n": 2})

    assert found.upstream.last.json == {"prompt": "hi", "n": 2}


EVENTS = st.lists(st.sampled_from([event for event in Event if event is not Event.BEGIN]), max_size=30)


OVER_PREFILL = {Event.PREFILL_ANSWERED, Event.PREFILL_FAILED, Event.PREFILL_REJECTED}
OVER_DECODE = {Event.DECODE_FAILED, Event.DECODE_LOST, Event.ENDED, Event.BROKEN}
ONLY_WHILE = {
    Event.ENDED: State.DECODING,
    Event.DECODE_FAILED: State.MEETING,
    Event.DECODE_LOST: State.MEETING,
}


@dataclass(slots=True)
class Record:
    """What was sent and not ended, told by effects alone."""

    prefill: bool = False
    decode: bool = False

    def can_hear(self, event: Event, state: State) -> bool:
        """Whether somebody is there to say so."""
        there = (self.prefill or event not in OVER_PREFILL) and (self.decode or event not in OVER_DECODE)
        return there and state is ONLY_WHILE.get(event, state)

    def hear(self, event: Event) -> None:
        self.prefill = self.prefill and event not in OVER_PREFILL
        self.decode = self.decode and event not in OVER_DECODE

    def do(self, effect: object) -> None:
        if isinstance(effect, Meet):
            assert not self.prefill
            assert not self.decode
            self.prefill = self.decode = True
        self.prefill = self.prefill and not isinstance(effect, CancelPrefill)
        self.decode = self.decode and not isinstance(effect, CancelDecode)
        assert not isinstance(effect, GiveUp) or not self.decode


@given(EVENTS, st.integers(1, 4))
def test_at_most_one_pair_is_in_force_and_none_at_the_end(events: list[Event], candidates: int) -> None:
    rooms = count()
    meeting = Meeting(tuple(f"p{at}:1" for at in range(candidates)), draw=lambda: next(rooms))
    record = Record()
    for event in [Event.BEGIN, *events]:
        if not record.can_hear(event, meeting.state):
            continue
        record.hear(event)
        for effect in meeting.on(event):
            record.do(effect)
        if meeting.state is State.DONE:
            assert not record.decode
            assert event is Event.ENDED or not record.prefill
            break

    assert next(rooms) <= candidates


def test_its_metrics_are_read() -> None:
    page = read_page(METRICS)

    (gauges,) = page.gauges
    assert (gauges.dp_rank, gauges.running, gauges.waiting, gauges.kv_usage) == (1, 3, 3, 0.25)
    assert (page.block_size, page.kv_blocks, page.failed_transfers, page.progress) == (16, 512, 4.0, 70.0)


# Whole agents beside a pair of fake servers.


@dataclass(frozen=True, slots=True)
class Pair:
    """Two prefill workers and a decode worker."""

    rooms: Rooms
    engines: dict[str, FakeSglang]
    agents: dict[str, Agent]
    addresses: dict[str, str]

    @property
    def quiet(self) -> bool:
        live = sum(len(agent.jobs.live) + len(agent.announcer.ledger) for agent in self.agents.values())
        return live == 0 and self.rooms.in_force == 0

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        return (("x-inferplane-prefill", f"{self.addresses['p0']}, {self.addresses['p1']}"),)


@asynccontextmanager
async def pair(folder: Path) -> AsyncGenerator[Pair]:
    rooms = Rooms()
    engines: dict[str, FakeSglang] = {}
    agents: dict[str, Agent] = {}
    addresses: dict[str, str] = {}
    async with AsyncExitStack() as stack:
        for name in ("p0", "p1", "d0"):
            role = Role.DECODE if name == "d0" else Role.PREFILL
            engines[name] = await stack.enter_async_context(FakeSglang(Side(role.value), rooms).running())
            changes = {"engine": "sglang", "kv_events": "", "kv_replay": "", "model": MODEL}
            beside = agent_beside(folder, role, name, engines[name].port, changes=changes)
            agents[name], listening = await stack.enter_async_context(beside)
            addresses[name] = f"127.0.0.1:{listening.http}"
        yield Pair(rooms, engines, agents, addresses)


@dataclass(frozen=True, slots=True)
class Case:
    """What one request meets, and what becomes of it."""

    name: str
    where: str
    fault: Fault
    status: int
    pairs: int
    """Halves that met, two by two."""
    stream: bool


ORDERS = (
    ("good", "", Fault.FAIL, 200, 1),
    ("P refuses", "p0", Fault.REFUSE, 200, 1),
    ("P fails", "p0", Fault.FAIL, 200, 2),
    ("P dies", "p0", Fault.DIE, 200, 2),
    ("P rejects", "p0", Fault.REJECT, 400, 0),
    ("D refuses", "d0", Fault.REFUSE, 200, 1),
    ("D fails", "d0", Fault.FAIL, 200, 2),
    ("D errs in its stream", "d0", Fault.ERROR_IN_STREAM, 200, 2),
    ("D dies", "d0", Fault.DIE, 502, 1),
    ("D rejects", "d0", Fault.REJECT, 400, 0),
)
CASES = [
    Case(*order, stream)
    for order in ORDERS
    for stream in (False, True)
    if stream or order[2] is not Fault.ERROR_IN_STREAM
]


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.name}{', streamed' if case.stream else ''}")
def test_whatever_fails_the_answer_is_right_and_nothing_stays(tmp_path: Path, case: Case) -> None:
    async def run() -> None:
        async with pair(tmp_path) as found:
            if case.where:
                found.engines[case.where].faults = [case.fault]
            pool = UpstreamPool()
            body = {"model": MODEL, "prompt": "hi", "stream": case.stream}
            answer = await ask(pool, found.addresses["d0"], "/v1/completions", body, headers=found.headers)
            assert answer.status == case.status, answer.body
            await until(lambda: found.quiet)
            assert len(found.rooms.met) == case.pairs
            for prefill, decode in found.rooms.met:
                assert prefill["bootstrap_room"] == decode["bootstrap_room"]
            await pool.close()

    asyncio.run(run())


@pytest.mark.slow
def test_a_client_that_goes_leaves_no_half_waiting(tmp_path: Path) -> None:
    async def run() -> None:
        async with pair(tmp_path) as found:
            found.engines["d0"].rooms = Rooms()  # the halves never meet
            pool = UpstreamPool()
            sink = _Sink()
            headers = Headers(tuple((k.encode(), v.encode()) for k, v in found.headers))
            request = Request(b"POST", b"/v1/completions", b"", headers, orjson.dumps({"model": MODEL, "prompt": "x"}))
            call = pool.send(found.addresses["d0"], request, sink, silence_s=30.0)
            await until(lambda: found.rooms.in_force == 1 and found.engines["d0"].rooms.in_force == 1)
            call.cancel()
            await until(lambda: found.quiet and found.engines["d0"].rooms.in_force == 0)
            await pool.close()

    asyncio.run(run())


class _Sink:
    def on_head(self, head: object) -> None: ...

    def on_body(self, data: bytes) -> None: ...

    def on_end(self) -> None: ...

    def on_failure(self, failure: UpstreamFailure, detail: str) -> None: ...
