"""The Secret of a KVStore: made once, known from the status alone, and nowhere in the operator after that."""

from typing import Any

import orjson
import pytest
from structlog.testing import capture_logs

from inferplane_operator.cluster.applied import Memory
from inferplane_operator.cluster.errors import ForbiddenError
from inferplane_operator.cluster.event_recording import EventRecorder
from inferplane_operator.cluster.intake import Intake
from inferplane_operator.cluster.kinds import KV_STORE, SECRET
from inferplane_operator.cluster.metrics import OperatorMetrics
from inferplane_operator.cluster.objects import Objects
from inferplane_operator.cluster.store import Store
from inferplane_operator.cluster.stored import ObjectId
from inferplane_operator.cluster.testing import FakeCluster, RecordedQueue
from inferplane_operator.cluster.transport import Answer
from inferplane_operator.cluster.writing import Writer
from inferplane_operator.reconcile.core import PureCore
from inferplane_operator.reconcile.values import ObservedKVStore

pytestmark = pytest.mark.anyio
KEY = "cd" * 32
CACHE: dict[str, Any] = {
    "apiVersion": KV_STORE.api_version,
    "kind": KV_STORE.kind,
    "metadata": {"namespace": "ns", "name": "cache"},
    "spec": {"tiers": [{"name": "memory", "medium": "dram", "capacity": "1Gi"}]},
}


class World:
    """The core and the writer around a cluster that has one KVStore."""

    def __init__(self) -> None:
        self.cluster = FakeCluster()
        self.store = Store()
        objects, memory, metrics = Objects(self.cluster), Memory(), OperatorMetrics()
        self.intake = Intake(self.store, RecordedQueue(), memory, now=lambda: 0.0)
        self.writer = Writer(
            objects,
            self.store,
            recorder=EventRecorder(objects, allowed=lambda: None, wall=lambda: 0.0, identity="me", metrics=metrics),
            memory=memory,
            take_in=self.intake.written,
            allowed=lambda: None,
            metrics=metrics,
        )
        self.intake.seen(self.cluster.add(CACHE), listed=False)

    async def step(self) -> None:
        seen = self.store.get(ObjectId(KV_STORE.kind, "ns", "cache"))
        assert seen is not None
        observed = ObservedKVStore(seen.manifest(), now="2026-01-01T00:00:00Z")
        await self.writer.carry_out(PureCore(draw_key=lambda: KEY).kv_store(observed))

    @property
    def secrets(self) -> list[dict[str, Any]]:
        return self.cluster.of(SECRET)

    @property
    def named(self) -> str | None:
        (found,) = self.cluster.of(KV_STORE)
        name: str | None = found.get("status", {}).get("integritySecret")
        return name


async def test_it_is_made_once_and_the_status_names_it() -> None:
    world = World()
    await world.step()
    made = len(world.cluster.writes())
    await world.step()
    (secret,) = world.secrets

    assert secret["stringData"] == {"hmac": KEY}
    assert secret["metadata"]["name"] == world.named
    assert [call.path for call in world.cluster.writes()[made:] if "secrets" in call.path] == []


async def test_one_that_is_there_already_is_left_as_it_is() -> None:
    """An operator that ended between the two writes does not know that it had made one."""
    world = World()
    await world.step()
    (found,) = world.cluster.of(KV_STORE)
    del found["status"]["integritySecret"]
    world.intake.seen({**found, "metadata": {**found["metadata"], "resourceVersion": "9999"}}, listed=False)
    (before,) = world.secrets
    await world.step()

    assert world.secrets == [before]
    assert [call.method for call in world.cluster.calls if "/secrets" in call.path] == ["POST", "POST"]


async def test_a_secret_that_is_refused_is_not_named() -> None:
    world = World()
    world.cluster.failures.append(Answer(403, b'{"reason": "Forbidden", "message": "no"}'))
    with pytest.raises(ForbiddenError):
        await world.step()

    assert world.secrets == []
    assert world.named is None

    await world.step()

    assert len(world.secrets) == 1
    assert world.named is not None


async def test_the_operator_neither_keeps_nor_tells_the_key() -> None:
    world = World()
    with capture_logs() as said:
        await world.step()
    kept = [orjson.dumps(each.manifest()).decode() for each in world.store.of_kind(KV_STORE.kind, "ns")]

    assert world.store.get(ObjectId("Secret", "ns", world.named or "")) is None
    assert KEY not in "".join(kept)
    assert "Secret" in str(said)
    assert KEY not in str(said)
