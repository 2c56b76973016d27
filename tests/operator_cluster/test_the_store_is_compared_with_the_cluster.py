"""When the auditor compares, and what it makes of it."""

from dataclasses import dataclass, field

import pytest

from inferplane_operator.cluster.audit import Audit
from inferplane_operator.cluster.auditing import Auditor
from inferplane_operator.cluster.health import Health
from inferplane_operator.cluster.kinds import POD, SERVICE
from inferplane_operator.cluster.metrics import OperatorMetrics
from inferplane_operator.cluster.objects import Objects
from inferplane_operator.cluster.store import Store
from inferplane_operator.cluster.stored import Stored
from inferplane_operator.cluster.testing import FakeCluster
from inferplane_operator.cluster.transport import Answer

pytestmark = pytest.mark.anyio


class EnoughError(Exception):
    """Ends a loop that would run for ever."""


@dataclass
class World:
    cluster: FakeCluster = field(default_factory=FakeCluster)
    store: Store = field(default_factory=Store)
    health: Health = field(default_factory=Health)
    troubles: list[bool] = field(default_factory=list[bool])
    restarts: int = 0
    sleeps: list[float] = field(default_factory=list[float])
    gone: list[Stored] = field(default_factory=list[Stored])

    def __post_init__(self) -> None:
        audit = Audit(Objects(self.cluster), self.store, (), on_gone=self.gone.append)
        self.auditor = Auditor(
            audit,
            kinds=lambda: (SERVICE, POD),
            restart=self._restart,
            troubles=self,
            health=self.health,
            metrics=OperatorMetrics(),
            period_s=60.0,
            sleep=self._sleep,
        )
        self.patience = 0

    def take(self) -> bool:
        return self.troubles.pop(0) if self.troubles else False

    async def ticks(self, count: int) -> None:
        self.patience = count
        with pytest.raises(EnoughError):
            await self.auditor.run()

    def service(self, *, watched: bool = True) -> None:
        name = f"s{len(self.cluster.objects)}"
        metadata = {"namespace": "ns", "name": name}
        made = self.cluster.add({"apiVersion": SERVICE.api_version, "kind": SERVICE.kind, "metadata": metadata})
        if watched:
            self.store.put(made)

    def _restart(self) -> None:
        self.restarts += 1

    async def _sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        self.patience -= 1
        if self.patience < 0:
            raise EnoughError


async def test_the_store_is_warm_when_nothing_is_missing() -> None:
    world = World()
    world.service(watched=False)
    world.patience = 2
    with pytest.raises(EnoughError):
        await world.auditor.warm()
    assert not world.health.warm
    assert "1 objects" in world.health.waiting_for

    world.store.put(next(iter(world.cluster.objects.values())))
    await world.auditor.warm()
    assert world.health.warm


async def test_a_missing_right_is_what_the_probe_says() -> None:
    world = World()
    world.cluster.failures = [Answer(403, b'{"message": "pods is forbidden"}')] * 3
    world.patience = 2
    with pytest.raises(EnoughError):
        await world.auditor.warm()

    assert "pods is forbidden" in world.health.waiting_for


async def test_it_compares_once_a_period_and_soon_after_trouble() -> None:
    world = World()
    world.service()
    await world.ticks(11)
    assert world.cluster.calls == []

    await world.ticks(12)
    assert len(world.cluster.calls) == 2  # one page of each kind
    world.cluster.calls.clear()
    world.troubles = [True]
    await world.ticks(1)
    assert len(world.cluster.calls) == 2


async def test_what_a_watch_never_brings_starts_all_watches_anew_and_then_fails_the_probe() -> None:
    world = World()
    world.service(watched=False)
    world.troubles = [True] * 9
    await world.ticks(1)
    assert world.restarts == 0  # it may be on its way
    await world.ticks(1)
    assert world.restarts == 1
    assert world.health.stuck == ""
    await world.ticks(1)
    assert world.health.stuck == SERVICE.kind

    world.store.put(next(iter(world.cluster.objects.values())))
    await world.ticks(1)
    assert world.health.stuck == ""


async def test_an_outage_is_not_taken_for_an_empty_cluster() -> None:
    world = World()
    world.service()
    world.cluster.failures = [None, Answer(503, b"")]
    world.troubles = [True, True]
    await world.ticks(2)

    assert len(world.store) == 1
    assert world.gone == []
