"""Prefill here, decode there: what arrives decides what is said."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inferplane_engine.profiles import CPU_TEST
from inferplane_engine.sim.cache import Contents
from inferplane_engine.sim.config import EngineConfig, GroupKind, KvGroup, LoadFailurePolicy
from inferplane_engine.sim.engine import SimEngine
from inferplane_engine.sim.events import (
    EngineDied,
    EngineRequest,
    Event,
    Finished,
    FinishReason,
    LeaseEnded,
    PullWanted,
    RemoteSource,
    Tokens,
)
from inferplane_engine.sim.testing import VOCABULARY, outputs, run

HYBRID = (KvGroup(), KvGroup(GroupKind.SLIDING, 32))


class Pair:
    """A producer and a consumer, joined by hand."""

    def __init__(self, config: EngineConfig) -> None:
        self.producer = SimEngine(config, CPU_TEST, VOCABULARY)
        self.consumer = SimEngine(config, CPU_TEST, VOCABULARY)

    def prefill(self, request: EngineRequest, now: float) -> RemoteSource:
        self.producer.submit(replace(request, max_tokens=1, hold=True), now)
        finished = next(event for event in self.producer.advance(now + 1) if isinstance(event, Finished))
        assert finished.held_blocks is not None
        return RemoteSource("p", request.request_id, "host", 1, finished.held_blocks)

    def decode(self, request: EngineRequest, source: RemoteSource, now: float) -> list[Event]:
        self.consumer.submit(replace(request, source=source), now)
        return self.consumer.advance(now)

    def deliver(self, wanted: PullWanted, now: float, contents: Contents | None = None) -> list[Event]:
        if contents is None:
            contents = self.producer.read(wanted.source.request_id, wanted.blocks, now)
            assert contents is not None
        longest = max(len(group) for group in contents)
        padded = tuple((0,) * (longest - len(group)) + group for group in contents)
        self.consumer.pulled(wanted.request_id, padded, now)
        return self.consumer.advance(now + 5)

    def contents(self, wanted: PullWanted, now: float) -> Contents:
        contents = self.producer.read(wanted.source.request_id, wanted.blocks, now)
        assert contents is not None
        return contents


def ask(length: int, name: str = "r", **more: object) -> EngineRequest:
    return EngineRequest(name, tuple(range(300, 300 + length)), 20, **more)  # type: ignore[arg-type]  # fields by name


def pull_of(events: list[Event]) -> PullWanted:
    return next(event for event in events if isinstance(event, PullWanted))


def alone(request: EngineRequest, config: EngineConfig) -> tuple[int, ...]:
    return outputs(run(config, [(0.0, request)])[1])[request.request_id]


@given(length=st.integers(1, 150), groups=st.sampled_from([(KvGroup(),), HYBRID]), block_size=st.sampled_from([4, 16]))
@settings(deadline=None, max_examples=40)
def test_disaggregated_output_equals_aggregated(length: int, groups: tuple[KvGroup, ...], block_size: int) -> None:
    config = EngineConfig(
        groups=groups, block_size=block_size, max_num_batched_tokens=64, blocks=400, max_model_len=256
    )
    pair, request = Pair(config), ask(length)
    wanted = pull_of(pair.decode(request, pair.prefill(request, 0.0), 1.0))
    events = pair.deliver(wanted, 1.1)

    assert outputs(events)["r"] == alone(request, config)


def test_the_consumer_counts_everything_as_cached_and_computes_one_token() -> None:
    pair, request = Pair(EngineConfig()), ask(100)
    wanted = pull_of(pair.decode(request, pair.prefill(request, 0.0), 1.0))
    finished = next(event for event in pair.deliver(wanted, 1.1) if isinstance(event, Finished))

    assert (finished.stats.local_cached, finished.stats.external_cached) == (0, 100)
    assert wanted.tokens == 100


def test_only_what_is_missing_is_pulled() -> None:
    pair, request = Pair(EngineConfig()), ask(100)
    pair.deliver(pull_of(pair.decode(request, pair.prefill(request, 0.0), 1.0)), 1.1)
    again = ask(100, "again")
    wanted = pull_of(pair.decode(again, pair.prefill(again, 10.0), 11.0))

    assert wanted.tokens == 4
    assert len(wanted.blocks[0]) == 1


@pytest.mark.parametrize("length", [16, 17, 40, 48])
@pytest.mark.parametrize("victim", [0, -1])
def test_one_wrong_block_changes_the_output(length: int, victim: int) -> None:
    pair, request = Pair(EngineConfig()), ask(length)
    wanted = pull_of(pair.decode(request, pair.prefill(request, 0.0), 1.0))
    damaged = [list(group) for group in pair.contents(wanted, 1.0)]
    damaged[0][victim] ^= 1
    events = pair.deliver(wanted, 1.1, tuple(tuple(group) for group in damaged))

    assert outputs(events)["r"] != alone(request, EngineConfig())


def test_a_wrong_window_changes_the_output() -> None:
    config = EngineConfig(groups=HYBRID, blocks=400, max_model_len=1024)
    pair, request = Pair(config), ask(100)
    wanted = pull_of(pair.decode(request, pair.prefill(request, 0.0), 1.0))
    full, window = pair.contents(wanted, 1.0)
    events = pair.deliver(wanted, 1.1, (full, (*window[:-2], window[-2] ^ 1, window[-1])))

    assert outputs(events)["r"] != alone(request, config)


def test_damage_received_is_handed_on_by_the_cache() -> None:
    pair, request = Pair(EngineConfig()), ask(48)
    wanted = pull_of(pair.decode(request, pair.prefill(request, 0.0), 1.0))
    (group,) = pair.contents(wanted, 1.0)
    pair.deliver(wanted, 1.1, ((group[0] ^ 1, *group[1:]),))
    later = ask(48, "later")
    pair.consumer.submit(later, 20.0)

    assert outputs(pair.consumer.advance(30.0))["later"] != alone(later, EngineConfig())


def test_a_transfer_takes_the_link_its_time() -> None:
    slow = replace(CPU_TEST, link=replace(CPU_TEST.link, bytes_per_s=1e5))
    pair, request = Pair(EngineConfig()), ask(100)
    pair.consumer = SimEngine(EngineConfig(), slow, VOCABULARY)
    wanted = pull_of(pair.decode(request, pair.prefill(request, 0.0), 1.0))
    tokens = [event for event in pair.deliver(wanted, 1.1) if isinstance(event, Tokens)]

    assert tokens[0].times[0] > 1.0 + 100 * slow.kv_bytes_per_token / 1e5


def test_blocks_are_held_until_confirmed() -> None:
    pair = Pair(EngineConfig())
    source = pair.prefill(ask(100), 0.0)

    assert pair.producer.held_blocks == 7
    pair.producer.confirm(source.request_id, 2.0)
    assert pair.producer.held_blocks == 0
    assert [event for event in pair.producer.advance(2.0) if isinstance(event, LeaseEnded)] == [
        LeaseEnded(2.0, "r", expired=False)
    ]


def test_a_lease_ends_after_its_time_unless_renewed() -> None:
    pair = Pair(EngineConfig(lease_s=30.0))
    finished_at = 0.0
    source = pair.prefill(ask(100), finished_at)
    pair.producer.renew([source.request_id], 25.0)
    pair.producer.advance(44.9)

    assert pair.producer.held_blocks == 7
    ended = pair.producer.advance(45.1)
    assert ended == [LeaseEnded(45.0, "r", expired=True)]
    assert pair.producer.held_blocks == 0


def test_a_failed_pull_fails_the_request_by_default() -> None:
    pair, request = Pair(EngineConfig()), ask(100)
    pair.decode(request, pair.prefill(request, 0.0), 1.0)
    pair.consumer.pull_failed("r", 1.1, "refused")
    finished = [event for event in pair.consumer.advance(2.0) if isinstance(event, Finished)]

    assert [(event.reason, event.detail) for event in finished] == [(FinishReason.ERROR, "refused")]
    assert pair.consumer.held_blocks == 0


def test_a_failed_pull_is_computed_here_where_allowed() -> None:
    config = EngineConfig(load_failure=LoadFailurePolicy.RECOMPUTE)
    pair, request = Pair(config), ask(100)
    pair.decode(request, pair.prefill(request, 0.0), 1.0)
    pair.consumer.pull_failed("r", 1.1, "refused")

    assert outputs(pair.consumer.advance(5.0))["r"] == alone(request, config)


@pytest.mark.parametrize("blocks", [(), ((),), ((1, 2),), ((1, 2, 3), (4,))], ids=["none", "empty", "few", "groups"])
def test_forged_blocks_kill_the_engine(blocks: tuple[tuple[int, ...], ...]) -> None:
    pair = Pair(EngineConfig())
    pair.decode(ask(100), RemoteSource("p", "r", "host", 1, blocks), 0.0)

    assert pair.consumer.next_event_at() is None


def test_a_producer_refuses_what_it_does_not_hold() -> None:
    pair = Pair(EngineConfig())
    source = pair.prefill(ask(100), 0.0)
    other = tuple(block + 1 for block in source.block_ids[0])

    assert pair.producer.read("unknown", source.block_ids, 1.0) is None
    assert pair.producer.read("r", (other,), 1.0) is None
    assert pair.producer.read("r", source.block_ids, 1.0) is not None


def test_a_dead_engine_says_nothing_more() -> None:
    pair = Pair(EngineConfig())
    pair.consumer.submit(ask(100), 0.0)
    pair.consumer.die("forged", 0.0)

    assert pair.consumer.advance(10.0) == [EngineDied(0.0, "forged")]


def test_an_aborted_pull_gives_its_blocks_back() -> None:
    pair, request = Pair(EngineConfig()), ask(100)
    wanted = pull_of(pair.decode(request, pair.prefill(request, 0.0), 1.0))
    pair.consumer.abort("r", 1.05)
    pair.deliver(wanted, 1.1)

    assert pair.consumer.held_blocks == 0
