"""Workloads for the simulated engine, and ways to look at what it did with them."""

from collections import Counter

from hypothesis import strategies as st

from inferplane_engine.profiles import CPU_TEST
from inferplane_engine.sim.config import EngineConfig, GroupKind, KvGroup, Speculation
from inferplane_engine.sim.content import Vocabulary
from inferplane_engine.sim.engine import SimEngine
from inferplane_engine.sim.events import (
    BlocksRemoved,
    BlocksStored,
    CacheChanged,
    EngineRequest,
    Event,
    Tokens,
)

VOCABULARY = Vocabulary(words=tuple(range(100, 164)), eos=1, mean_length=24)

HYBRID = (KvGroup(), KvGroup(GroupKind.SLIDING, 24))

_prefixes = st.sampled_from([0, 1, 2])


@st.composite
def requests(draw: st.DrawFn, name: str) -> EngineRequest:
    """Prompts share three prefixes, so that caches hit."""
    prefix = draw(_prefixes)
    shared = draw(st.integers(0, 60))
    own = draw(st.integers(1, 30))
    kind = draw(st.integers(0, 3))
    tokens = tuple(1000 * prefix + index for index in range(shared)) + tuple(
        7000 + 100 * kind + index for index in range(own)
    )
    return EngineRequest(
        request_id=name,
        prompt=tokens,
        max_tokens=draw(st.integers(1, 40)),
        salt=draw(st.sampled_from(["", "", "tenant"])),
        adapter=draw(st.sampled_from(["", "", "adapter"])),
        ignore_eos=draw(st.booleans()),
    )


@st.composite
def workloads(draw: st.DrawFn) -> list[tuple[float, EngineRequest]]:
    """(time, request) pairs in order of time."""
    count = draw(st.integers(1, 10))
    gaps = draw(st.lists(st.sampled_from([0.0, 0.0004, 0.003, 0.02]), min_size=count, max_size=count))
    now = 0.0
    workload: list[tuple[float, EngineRequest]] = []
    for index, gap in enumerate(gaps):
        now += gap
        workload.append((now, draw(requests(f"r{index}"))))
    return workload


@st.composite
def configs(draw: st.DrawFn, *, exact: bool = True) -> EngineConfig:
    groups = draw(st.sampled_from([(KvGroup(),), (KvGroup(),), HYBRID]))
    block_size = draw(st.sampled_from([1, 4, 16]))
    needed = len(groups) * -(-160 // block_size)
    return EngineConfig(
        block_size=block_size,
        blocks=1 + needed + draw(st.sampled_from([0, 3, 40, 4000])),
        max_model_len=160,
        max_num_seqs=draw(st.sampled_from([1, 3, 64])),
        max_num_batched_tokens=draw(st.sampled_from([8, 33, 2048])),
        prefix_caching=draw(st.sampled_from([True, True, True, False])),
        groups=groups,
        speculation=draw(st.sampled_from([None, None, Speculation(3, 0.6)])),
        exact=exact,
    )


Workload = list[tuple[float, EngineRequest]]


def run(
    config: EngineConfig, workload: Workload, aborts: tuple[tuple[float, str], ...] = ()
) -> tuple[SimEngine, list[Event]]:
    engine = SimEngine(config, CPU_TEST, VOCABULARY)
    events: list[Event] = []
    calls = sorted(
        [(at, 0, request.request_id, request) for at, request in workload]
        + [(at, 1, name, None) for at, name in aborts],
        key=lambda call: (call[0], call[1]),
    )
    for at, _, name, request in calls:
        events += engine.advance(at)
        if request is None:
            engine.abort(name, at)
        else:
            engine.submit(request, at)
    for _ in range(100_000):
        due = engine.next_event_at()
        if due is None:
            break
        events += engine.advance(due)
    return engine, events


def outputs(events: list[Event]) -> dict[str, tuple[int, ...]]:
    said: dict[str, tuple[int, ...]] = {}
    for event in events:
        if isinstance(event, Tokens):
            said[event.request_id] = said.get(event.request_id, ()) + event.tokens
    return said


def timed(events: list[Event]) -> list[tuple[float, str, int]]:
    return sorted(
        (at, event.request_id, token)
        for event in events
        if isinstance(event, Tokens)
        for token, at in zip(event.tokens, event.times, strict=True)
    )


def replayed(events: list[Event]) -> Counter[tuple[int, int]]:
    copies: Counter[tuple[int, int]] = Counter()
    for event in events:
        if not isinstance(event, CacheChanged):
            continue
        for change in event.events:
            if isinstance(change, BlocksStored):
                copies.update((value, change.group) for value in change.hashes)
            elif isinstance(change, BlocksRemoved):
                copies.subtract((value, change.group) for value in change.hashes)
                if any(copies[value, change.group] < 0 for value in change.hashes):
                    raise AssertionError(f"removed more often than stored: {change}")
    return +copies
