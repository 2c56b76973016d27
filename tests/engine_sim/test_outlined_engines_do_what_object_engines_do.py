"""The kernels of outlined engines against the object engine: the same calls, the same events at the same times."""

import math
from collections import Counter
from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inferplane_engine.profiles import CPU_TEST
from inferplane_engine.sim.config import EngineConfig, LoadFailurePolicy
from inferplane_engine.sim.content import Vocabulary
from inferplane_engine.sim.engine import SimEngine
from inferplane_engine.sim.events import (
    BlocksRemoved,
    BlocksStored,
    CacheChanged,
    EngineRequest,
    Event,
    Finished,
    KeysChanged,
    Outline,
    PullWanted,
    RemoteSource,
    Tokens,
)
from inferplane_engine.sim.outlined import OutlinedEngine

Engine = SimEngine | OutlinedEngine
_WORDS = Vocabulary(words=(0,), eos=1, mean_length=0)
_LONGEST = 160


@dataclass(frozen=True, slots=True)
class Call:
    at_s: float
    request: EngineRequest
    aborted_after_s: float | None


@st.composite
def configs(draw: st.DrawFn) -> EngineConfig:
    size = draw(st.sampled_from([1, 4, 16]))
    return EngineConfig(
        block_size=size,
        blocks=1 + _LONGEST // size + draw(st.sampled_from([0, 3, 40, 400])),
        max_model_len=_LONGEST,
        max_num_seqs=draw(st.sampled_from([1, 3, 64])),
        max_num_batched_tokens=draw(st.sampled_from([8, 33, 2048])),
        prefix_caching=draw(st.sampled_from([True, True, False])),
        load_failure=draw(st.sampled_from(LoadFailurePolicy)),
        lease_s=1e9,
        content=False,
        every_token=False,
    )


@st.composite
def workloads(draw: st.DrawFn, size: int) -> list[Call]:
    """Prompts that share beginnings; some are kept for a consumer, some come from a producer."""
    calls: list[Call] = []
    now = 0.0
    for number in range(draw(st.integers(1, 12))):
        now += draw(st.sampled_from([0.0, 0.0004, 0.003, 0.02]))
        shared, own, answer = draw(st.integers(0, 80)), draw(st.integers(1, 30)), draw(st.integers(1, 45))
        prefix, same, blocks = draw(st.integers(1, 2)), shared // size, (shared + own + answer) // size
        names = [prefix * 1000 + at if at < same else 10_000 * (number + 1) + at for at in range(blocks)]
        offers = draw(st.sampled_from([None, None, None, 0, 7]))
        source = None
        if offers is not None:
            held = -(-(shared + own) // size)
            source = RemoteSource("p", f"p{number}", "", 0, (tuple(range(max(1, held - offers % 2))),))
        calls.append(
            Call(
                now,
                EngineRequest(
                    f"r{number}",
                    (),
                    answer,
                    ignore_eos=True,
                    hold=source is None and draw(st.booleans()),
                    source=source,
                    outline=Outline(shared + own, names),
                ),
                draw(st.sampled_from([None, None, None, 0.001, 0.01])),
            )
        )
    return calls


class Driver:
    """Drives one engine from event to event, serves its transfers, and writes down what it says."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.keys: set[int] = set()
        self.seen: list[tuple[float, str]] = []
        self._copies = Counter[int]()
        self._due: list[tuple[float, int, str, object]] = []

    def run(self, calls: list[Call]) -> list[tuple[float, str]]:
        """Return what was said in order of time, written out: times that are not known do not equal themselves."""
        for call in calls:
            self._put(call.at_s, "submit", call.request)
            if call.aborted_after_s is not None:
                self._put(call.at_s + call.aborted_after_s, "abort", call.request.request_id)
        for _ in range(20_000):
            at = self.engine.next_event_at()
            if self._due and (at is None or self._due[0][0] <= at):
                now, _, what, value = self._due.pop(0)
                self._take(self.engine.advance(now))
                self._do(what, value, now)
            elif at is None:
                break
            else:
                self._take(self.engine.advance(at))
        self.seen.append((math.inf, f"{self.engine.gauges()} {self.engine.free_blocks}"))
        return sorted(self.seen)

    def _put(self, at_s: float, what: str, value: object) -> None:
        self._due.append((at_s, len(self._due), what, value))
        self._due.sort(key=lambda each: each[:2])

    def _do(self, what: str, value: object, now: float) -> None:
        if isinstance(value, EngineRequest):
            self.engine.submit(value, now)
        elif isinstance(value, PullWanted) and len(value.request_id) % 2:
            self.engine.pull_failed(value.request_id, now, "gone")
        elif isinstance(value, PullWanted):
            self.engine.pulled(value.request_id, tuple((0,) * len(each) for each in value.blocks), now)
        elif what == "abort":
            self.engine.abort(str(value), now)
        else:
            self.engine.confirm(str(value), now)

    def _take(self, events: list[Event]) -> None:
        for event in events:
            if isinstance(event, CacheChanged | KeysChanged):
                before = set(self.keys)
                self._follow(event)
                if self.keys != before:
                    self.seen.append((event.at, str(sorted(self.keys))))
                continue
            self.seen.append((event.times[0] if isinstance(event, Tokens) else event.at, repr(event)))
            if isinstance(event, PullWanted):
                self._put(event.at + 0.0001, "pull", event)
            elif isinstance(event, Finished) and event.held_blocks is not None:
                blocks = tuple(each[-1:] for each in event.held_blocks)
                assert self.engine.read(event.request_id, blocks, event.at) is not None
                self._put(event.at + 0.002, "confirm", event.request_id)

    def _follow(self, event: CacheChanged | KeysChanged) -> None:
        if isinstance(event, KeysChanged):
            assert not self.keys & set(event.stored.tolist()) - set(event.removed.tolist())
            self.keys -= set(event.removed.tolist())
            self.keys |= set(event.stored.tolist())
            return
        for each in event.events:
            if isinstance(each, BlocksStored):
                self._copies.update(each.hashes)
            elif isinstance(each, BlocksRemoved):
                self._copies.subtract(each.hashes)
        self.keys = {name for name, copies in self._copies.items() if copies}


@settings(max_examples=150)
@given(data=st.data(), config=configs())
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_outlined_engines_say_what_object_engines_say(data: st.DataObject, config: EngineConfig) -> None:
    calls = data.draw(workloads(config.block_size))
    expected = Driver(SimEngine(config, CPU_TEST, _WORDS)).run(calls)

    assert Driver(OutlinedEngine(config, CPU_TEST)).run(calls) == expected
    assert Driver(OutlinedEngine(replace(config, exact=False), CPU_TEST)).run(calls) == expected
