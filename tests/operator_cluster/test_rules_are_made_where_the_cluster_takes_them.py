"""PrometheusRules are a kind that a cluster may lack: then none are made, and nobody asks for them."""

import pytest

from inferplane_operator.cluster.api_presence import watched_kinds
from inferplane_operator.cluster.applied import Memory
from inferplane_operator.cluster.event_recording import EventRecorder
from inferplane_operator.cluster.intake import Intake
from inferplane_operator.cluster.kinds import BUILT_IN, EVENT, LEASE, OURS, PROMETHEUS_RULE, SERVICE
from inferplane_operator.cluster.metrics import OperatorMetrics
from inferplane_operator.cluster.objects import Objects
from inferplane_operator.cluster.picture import observe
from inferplane_operator.cluster.store import Store
from inferplane_operator.cluster.stored import ObjectId
from inferplane_operator.cluster.testing import FakeCluster, RecordedQueue
from inferplane_operator.cluster.transport import Answer
from inferplane_operator.cluster.writing import Writer
from inferplane_operator.reconcile.core import PureCore
from inferplane_operator.reconcile.values import Apply, Outcome

pytestmark = pytest.mark.anyio
WITHOUT = (*OURS, *BUILT_IN, EVENT, LEASE)
SIM = {
    "apiVersion": SERVICE.api_version,
    "kind": SERVICE.kind,
    "metadata": {"namespace": "ns", "name": "chat"},
    "spec": {
        "model": {"name": "m"},
        "engine": {"type": "sim"},
        "prefill": {"replicas": 1},
        "decode": {"replicas": 1},
        "slo": {"ttft": "1s", "tpot": "50ms"},
    },
}


class World:
    """The core and the writer around a cluster with one service."""

    def __init__(self, *, knows_rules: bool) -> None:
        self.cluster = FakeCluster((*WITHOUT, PROMETHEUS_RULE) if knows_rules else WITHOUT)
        self.store = Store()
        self.objects, memory, metrics = Objects(self.cluster), Memory(), OperatorMetrics()
        self.intake = Intake(self.store, RecordedQueue(), memory, now=lambda: 0.0)
        recorder = EventRecorder(self.objects, allowed=lambda: None, wall=lambda: 0.0, identity="me", metrics=metrics)
        self.writer = Writer(
            self.objects,
            self.store,
            recorder=recorder,
            memory=memory,
            take_in=self.intake.written,
            allowed=lambda: None,
            metrics=metrics,
        )
        self.intake.seen(self.cluster.add(SIM), listed=False)

    async def watch(self, *, asked: bool = True) -> None:
        self.intake.watched(await watched_kinds(self.objects, rules=asked))

    async def step(self) -> str:
        """Reconcile the service once; return what was said against bookkeeping."""
        return await self.writer.carry_out(self.decided())

    def decided(self) -> Outcome:
        stored = self.store.get(ObjectId(SERVICE.kind, "ns", "chat"))
        assert stored is not None
        return PureCore().service(observe(self.store, stored, now="2026-01-01T00:00:00Z"))

    @property
    def rules(self) -> list[str]:
        return [each["metadata"]["name"] for each in self.cluster.of(PROMETHEUS_RULE)]


@pytest.mark.parametrize(
    ("knows", "asked", "expected"),
    [(True, True, ["chat-objectives"]), (True, False, []), (False, True, [])],
    ids=["known and asked for", "known", "asked for"],
)
async def test_one_is_made_where_it_is_known_and_asked_for(*, knows: bool, asked: bool, expected: list[str]) -> None:
    world = World(knows_rules=knows)
    await world.watch(asked=asked)
    said = await world.step()

    assert said == ""
    assert world.rules == expected


async def test_it_is_written_once() -> None:
    world = World(knows_rules=True)
    await world.watch()
    for _ in range(4):
        await world.step()
    written = [call for call in world.cluster.writes() if PROMETHEUS_RULE.plural in call.path]

    assert len(written) == 1


async def test_a_refused_rule_is_told_and_stops_nothing() -> None:
    world = World(knows_rules=True)
    await world.watch()
    (rule,) = [each for each in world.decided().writes if isinstance(each, Apply) and each.bookkeeping]
    world.cluster.failures.append(Answer(403, b'{"reason": "Forbidden", "message": "no rules here"}'))

    assert "no rules here" in await world.writer.carry_out(Outcome(writes=(rule,)))
    assert world.rules == []
    assert await world.writer.carry_out(Outcome(writes=(rule,))) == ""
    assert world.rules == ["chat-objectives"]
