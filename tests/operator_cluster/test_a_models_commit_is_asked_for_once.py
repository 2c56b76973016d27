"""Resolving revisions through a hub that may be slow."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from inferplane_engine.memory import ModelFacts
from inferplane_operator.cluster import model_revisions
from inferplane_operator.cluster.model_revisions import ModelRevisions, Resolution, pinned_revision
from inferplane_operator.cluster.work_keys import WorkKey
from inferplane_operator.reconcile.values import Observed
from inferplane_runtime.clock import FakeClock

pytestmark = pytest.mark.anyio
MODEL = {"name": "m", "source": {"hf": "org/m"}, "revision": "main"}


@dataclass
class Hub:
    answer: Resolution = field(default_factory=lambda: Resolution("c0ffee"))
    asked: list[str] = field(default_factory=list[str])
    gate: asyncio.Event = field(default_factory=asyncio.Event)

    async def resolve(self, model: Mapping[str, Any]) -> Resolution:
        self.asked.append(str(model["source"]["hf"]))
        await self.gate.wait()
        return self.answer


@dataclass
class World:
    hub: Hub = field(default_factory=Hub)
    clock: FakeClock = field(default_factory=FakeClock)
    queued: list[WorkKey] = field(default_factory=list[WorkKey])

    def __post_init__(self) -> None:
        self.revisions = ModelRevisions(self.hub, now=self.clock.monotonic, queue=self.queued.append)


def service(model: Mapping[str, Any] = MODEL, *, generation: int = 1, **status: Any) -> Observed:
    metadata = {"namespace": "ns", "name": "s", "generation": generation}
    return Observed(service={"metadata": metadata, "spec": {"model": model}, "status": status})


async def test_a_model_without_a_hub_is_not_asked_about() -> None:
    world = World()
    found = await world.revisions.add_to(service({"name": "m"}))

    assert found.observed.model_revision == ""
    assert world.hub.asked == []


async def test_services_of_one_model_ask_once_and_keep_the_answer() -> None:
    world = World()
    world.hub.gate.set()
    found = await asyncio.gather(*(world.revisions.add_to(service()) for _ in range(5)))
    again = await world.revisions.add_to(service())

    assert {one.observed.model_revision for one in (*found, again)} == {"c0ffee"}
    assert world.hub.asked == ["org/m"]


async def test_a_slow_hub_holds_nobody_up_and_the_service_is_looked_at_when_it_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(model_revisions, "_PATIENCE_S", 0.0)
    world = World()
    found = await world.revisions.add_to(service())
    assert found.observed.model_problem
    assert found.observed.model_revision == ""

    world.hub.gate.set()
    while not world.queued:  # noqa: ASYNC110 - a callback of the loop, a few turns away
        await asyncio.sleep(0)
    assert world.queued == [WorkKey("InferenceService", "ns", "s")]
    assert (await world.revisions.add_to(service())).observed.model_revision == "c0ffee"


async def test_a_problem_is_asked_about_again_after_a_while() -> None:
    world = World(Hub(Resolution(problem="no such model")))
    world.hub.gate.set()
    found = await world.revisions.add_to(service())
    assert found.observed.model_problem == "no such model"
    assert found.again_in_s is not None

    await world.revisions.add_to(service())
    world.clock.advance(found.again_in_s)
    await world.revisions.add_to(service())
    assert len(world.hub.asked) == 2


async def test_what_the_status_holds_is_not_asked_for_again() -> None:
    world = World()
    found = await world.revisions.add_to(service(observedGeneration=1, modelRevision="f00"))

    assert found.observed.model_revision == "f00"
    assert world.hub.asked == []


@pytest.mark.parametrize(
    ("model", "pinned"), [(MODEL, "f00"), ({**MODEL, "revision": "v2"}, "")], ids=["same", "other"]
)
def test_an_edit_of_something_else_does_not_move_the_model(model: Mapping[str, Any], pinned: str) -> None:
    past = {"metadata": {"name": "s-r1"}, "data": {"spec": {"model": MODEL}}}
    edited = service(model, generation=2, observedGeneration=1, modelRevision="f00", revision="r1")
    observed = Observed(service=edited.service, histories=[past])

    assert pinned_revision(observed) == pinned


FACTS = ModelFacts(weights_bytes=1 << 30, layers=2, kv_values_per_token=64, kv_heads=1, max_length=4096)
REFUSED = [{"type": "Ready", "status": "False", "reason": "InvalidSpec"}]


def on_devices(observed: Observed, *, past: Mapping[str, Any] = MODEL) -> Observed:
    """Put a service on devices; `past` is the model of the revision that runs."""
    spec = {**observed.service["spec"], "decode": {"accelerator": "h100"}}
    history = {"metadata": {"name": "s-r1"}, "data": {"spec": {"model": past}}}
    return Observed(service={**observed.service, "spec": spec}, histories=[history])


@pytest.mark.parametrize(
    ("observed", "conditions", "facts"),
    [(1, [], FACTS), (2, [], None), (2, REFUSED, FACTS)],
    ids=["another edit", "carried out", "refused"],
)
async def test_what_a_pinned_commit_weighs_is_asked_for_an_edit_that_is_not_carried_out(
    observed: int, conditions: list[dict[str, str]], facts: ModelFacts | None
) -> None:
    world = World(Hub(Resolution("f00", facts=FACTS)))
    world.hub.gate.set()
    status: dict[str, Any] = {
        "observedGeneration": observed,
        "modelRevision": "f00",
        "revision": "r1",
        "conditions": conditions,
    }
    found = await world.revisions.add_to(on_devices(service(generation=2, **status)))

    assert found.observed.model_revision == "f00"
    assert found.observed.model_facts == facts


async def test_a_silent_hub_does_not_hold_up_an_edit_of_a_pinned_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_revisions, "_PINNED_PATIENCE_S", 0.0)
    world = World()
    edited = service(generation=2, observedGeneration=1, modelRevision="f00", revision="r1")
    found = await world.revisions.add_to(on_devices(edited))
    world.hub.gate.set()
    await world.revisions.close()

    assert (found.observed.model_revision, found.observed.model_facts) == ("f00", None)


async def test_a_refused_edit_of_the_model_has_not_pinned_it() -> None:
    """Its status still has the commit of the model that runs."""
    world = World(Hub(Resolution("beef", facts=FACTS)))
    world.hub.gate.set()
    status: dict[str, Any] = {"observedGeneration": 2, "modelRevision": "f00", "revision": "r1", "conditions": REFUSED}
    larger = {**MODEL, "source": {"hf": "org/larger"}}
    found = await world.revisions.add_to(on_devices(service(larger, generation=2, **status)))

    assert (found.observed.model_revision, found.observed.model_facts) == ("beef", FACTS)


async def test_adapters_from_a_hub_are_resolved_the_same_way() -> None:
    world = World()
    world.hub.gate.set()
    adapters = [
        {"metadata": {"name": "a"}, "spec": {"service": "s", "source": {"hf": "org/a"}, "revision": "main"}},
        {"metadata": {"name": "b"}, "spec": {"service": "s", "source": {"path": "/b"}}},
        {
            "metadata": {"name": "c", "generation": 2},
            "spec": {"service": "s", "source": {"hf": "org/c"}},
            "status": {"revision": "f00", "observedGeneration": 2},
        },
    ]
    key = WorkKey("LoRAAdapters", "ns", "s")

    assert await world.revisions.of_adapters(adapters, key) == {"a": "c0ffee", "c": "f00"}
    await world.revisions.close()
