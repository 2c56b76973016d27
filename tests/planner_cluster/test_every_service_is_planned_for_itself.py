"""Tasks that come and go with the services, streams that they share, and one that leads."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field

import pytest

from inferplane_api.claims import Key
from inferplane_api.proto import router_pb2 as pb
from inferplane_api.proto.worker_pb2 import OUTCOME_OK, ROLE_DECODE, RequestReport
from inferplane_planner.act.journal import Journal
from inferplane_planner.act.planning import Planning
from inferplane_planner.act.world import Findings, Sight, World, WorldError
from inferplane_planner.cluster.fleet import Fleet, Making, lead
from inferplane_planner.cluster.lease import KubeLeases
from inferplane_planner.cluster.tables import Tables
from inferplane_planner.cluster.testing import FakeCalls, holding, service
from inferplane_planner.observe.events import Finished
from inferplane_planner.observe.shared import SharedStreams
from inferplane_planner.observe.stream import Follow
from inferplane_runtime.clock import FakeClock
from inferplane_runtime.kube.leadership import Leadership, LeaseName, LeaseTimes

pytestmark = pytest.mark.anyio


@dataclass
class Seen:
    """A world that only notes that it is looked at."""

    key: Key
    looks: list[Key]
    broken: bool = False

    async def look(self) -> Sight:
        self.looks.append(self.key)
        if self.broken:
            raise RuntimeError("this one cannot be looked at")
        raise WorldError("nothing to see")

    async def scale(self, role: str, replicas: int) -> None: ...

    async def tell(self, findings: Findings, sight: Sight) -> None: ...


async def nobody(_source: str, _service: str, _listener: object, /) -> None: ...


def fleet(tables: Tables, looks: list[Key], gone: list[Key]) -> Fleet:
    def world(key: Key) -> World:
        return Seen(key, looks, broken=key.name == "broken")

    def planning(made: World, follow: Follow) -> Planning:
        return Planning(made, now=lambda: 0.0, period_s=5.0, journal=Journal(None), follow=follow)

    return Fleet(tables, Making(world, planning, gone.append), nobody)


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_services_come_and_go_and_one_that_breaks_takes_no_other_along() -> None:
    looks, gone = list[Key](), list[Key]()
    tables = holding(service("one"), service("broken"))
    async with asyncio.TaskGroup() as group:
        running = fleet(tables, looks, gone)
        task = group.create_task(running.run())
        await settle()
        first = sorted(key.name for key in looks)
        tables.services.put(service("two"))
        tables.services.drop(service("one"))
        await settle()
        task.cancel()

    assert first == ["broken", "one"]
    assert sorted(key.name for key in looks) == ["broken", "one", "two"]
    assert gone == [Key("team", "one")]


async def test_half_a_picture_is_not_planned_by() -> None:
    looks = list[Key]()
    tables = holding(service())
    tables.slices.listed = False
    async with asyncio.TaskGroup() as group:
        task = group.create_task(fleet(tables, looks, []).run())
        await settle()
        task.cancel()

    assert looks == []
    assert tables.missing == "endpointslices"


@dataclass
class Heard:
    """What one service hears."""

    words: list[str] = field(default_factory=list[str])

    def heard(self, source: str) -> None:
        self.words.append(f"heard {source}")

    def lost(self, source: str) -> None:
        self.words.append(f"lost {source}")

    def arrived(self, request_id: str) -> None:
        self.words.append(f"arrived {request_id}")

    def finished(self, request: Finished) -> None:
        self.words.append(f"finished {request.request_id} {request.doubt}".strip())


@dataclass
class Routers:
    """Streams that a test fills; None ends one."""

    opened: list[str] = field(default_factory=list[str])
    queues: dict[str, "asyncio.Queue[pb.Observation | None]"] = field(
        default_factory=dict[str, "asyncio.Queue[pb.Observation | None]"]
    )

    async def observe(self, source: str, service: str) -> AsyncIterator[pb.Observation | None]:
        assert not service
        self.opened.append(source)
        queue = self.queues.setdefault(source, asyncio.Queue())
        yield None
        while (each := await queue.get()) is not None:
            yield each


def arrival(namespace: str, request_id: str) -> pb.Observation:
    return pb.Observation(arrival=pb.Arrival(request_id=request_id, service="chat", namespace=namespace))


def finished(namespace: str, request_id: str, *, mode: str = "exact", mismatch: str = "") -> pb.Observation:
    report = RequestReport(side=ROLE_DECODE, outcome=OUTCOME_OK, prompt_tokens=10, output_tokens=2)
    record = pb.DecisionRecord(
        request_id=request_id, service="chat", namespace=namespace, mode=mode, mismatch=mismatch, observed=[report]
    )
    return pb.Observation(finished=record)


async def test_one_stream_of_a_router_serves_all_its_services() -> None:
    routers, one, other = Routers(), Heard(), Heard()
    async with asyncio.TaskGroup() as group:
        streams = SharedStreams(group, observe=routers.observe, retry_s=0.0)
        tasks = [
            group.create_task(streams.follow("r0", name, heard)) for name, heard in (("a/chat", one), ("b/chat", other))
        ]
        await settle()
        for each in (arrival("a", "1"), arrival("b", "2"), arrival("c", "3")):
            routers.queues["r0"].put_nowait(each)
        routers.queues["r0"].put_nowait(finished("a", "1", mode="approximate", mismatch="salt"))
        routers.queues["r0"].put_nowait(finished("b", "2"))
        await settle()
        for task in tasks:
            task.cancel()
        await settle()

    assert routers.opened == ["r0"]
    assert one.words == ["lost r0", "heard r0", "arrived 1", "finished 1 salt", "lost r0"][: len(one.words)]
    assert "finished 1 salt" in one.words
    assert [word for word in other.words if word[0] in "af"] == ["arrived 2", "finished 2"]


async def test_a_stream_that_breaks_is_opened_anew_and_nobody_takes_silence_for_peace() -> None:
    routers, heard = Routers(), Heard()
    async with asyncio.TaskGroup() as group:
        streams = SharedStreams(group, observe=routers.observe, retry_s=0.0)
        task = group.create_task(streams.follow("r0", "a/chat", heard))
        await settle()
        routers.queues["r0"].put_nowait(None)
        await settle()
        task.cancel()

    assert heard.words[:4] == ["lost r0", "heard r0", "lost r0", "heard r0"]


async def test_a_router_that_nobody_listens_to_is_not_dialled_any_more() -> None:
    routers = Routers()
    async with asyncio.TaskGroup() as group:
        streams = SharedStreams(group, observe=routers.observe)
        task = group.create_task(streams.follow("r0", "a/chat", Heard()))
        await settle()
        before = streams.sources
        task.cancel()
        await settle()

    assert before == ("r0",)
    assert streams.sources == ()


async def test_the_lease_is_held_while_the_process_runs_and_given_back_at_its_end() -> None:
    calls, clock, name = FakeCalls(), FakeClock(), LeaseName("system", "planner")

    async def sleep(seconds: float) -> None:
        clock.advance(seconds)
        await asyncio.sleep(0)

    leadership = Leadership(
        KubeLeases(calls, name),
        name,
        identity="me",
        times=LeaseTimes(),
        now=clock.monotonic,
        wall=clock.wall,
        sleep=sleep,
    )
    task = asyncio.create_task(lead(leadership))
    await settle()
    held = calls.lease
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task

    assert held is not None
    assert held["spec"]["holderIdentity"] == "me"
    assert calls.lease is not None
    assert calls.lease["spec"]["holderIdentity"] == ""
