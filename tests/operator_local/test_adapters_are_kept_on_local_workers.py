"""Local mode loads adapters through agents, by the operator's rules, and says what is in the way of Ready."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from inferplane_operator.adapters.testing import FakeAgents
from inferplane_operator.local.adapter_keeper import AdapterKeeper
from inferplane_operator.local.assemble import assemble
from inferplane_operator.local.blueprint import Blueprint, LocalAdapter
from inferplane_operator.local.desired import Desired
from inferplane_operator.local.machine import Machine
from inferplane_operator.local.status import AdapterStatus
from inferplane_operator.reconcile.adapter import AdapterWorker, WantedAdapter
from inferplane_operator.render.adapter_need import AdapterNeed, Place, PlaceKind

API = "inferplane.dev/v1alpha1"
FOLDER = Place(PlaceKind.FOLDER, "/srv/adapters")
ROOM = AdapterNeed(2, 16, (FOLDER,))
ONE = WantedAdapter("a", "a", "1", 8, path="/srv/adapters/a", places=(FOLDER,))
W1, W2 = AdapterWorker("w1", "here:1", ROOM), AdapterWorker("w2", "here:2", ROOM)


def service(**spec: Any) -> dict[str, Any]:
    given = {"model": {"name": "m"}, "engine": {"type": "sim"}, "decode": {}, **spec}
    return {"apiVersion": API, "kind": "InferenceService", "metadata": {"name": "demo"}, "spec": given}


def adapter(name: str, source: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    given = {"service": "demo", "source": source or {"path": f"/srv/adapters/{name}"}, **spec}
    return {"apiVersion": API, "kind": "LoRAAdapter", "metadata": {"name": name}, "spec": given}


def build(*manifests: dict[str, Any], before: Blueprint | None = None) -> Blueprint:
    return assemble(Desired(manifests=list(manifests)), machine=Machine(), before=before)


def keeping(scenario: Callable[[AdapterKeeper, FakeAgents], Coroutine[Any, Any, None]]) -> None:
    async def bounded() -> None:
        agents = FakeAgents("here:1", "here:2")
        keeper = AdapterKeeper(agents, now=asyncio.get_running_loop().time, on_change=lambda: None)
        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            running = group.create_task(keeper.run())
            await scenario(keeper, agents)
            running.cancel()

    asyncio.run(bounded())


async def until(keeper: AdapterKeeper, good: Callable[[AdapterStatus], bool]) -> AdapterStatus:
    while not good(status := keeper.statuses()[0]):  # noqa: ASYNC110 - a task's progress, which nobody announces
        await asyncio.sleep(0.005)
    return status


def test_what_is_shown_is_loaded_on_who_is_shown() -> None:
    async def scenario(keeper: AdapterKeeper, agents: FakeAgents) -> None:
        keeper.show("demo", [LocalAdapter(ONE)], [W1])
        one = await until(keeper, lambda status: status.ready)
        keeper.show("demo", [LocalAdapter(ONE)], [W1, W2])
        assert not keeper.statuses()[0].ready
        both = await until(keeper, lambda status: status.ready)

        assert (one.loaded_on, both.loaded_on, both.wanted_on) == (1, 2, 2)
        assert both.message == "loaded on 2 of 2 workers"
        keeper.show("demo", [], [W1, W2])
        while agents.at["here:2"].adapters:  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.005)
        assert keeper.statuses() == ()

    keeping(scenario)


def test_a_failure_is_shown_in_the_engines_words() -> None:
    async def scenario(keeper: AdapterKeeper, agents: FakeAgents) -> None:
        agents.at["here:1"].broken["a"] = "No adapter found"
        keeper.show("demo", [LocalAdapter(ONE)], [W1])
        status = await until(keeper, lambda status: status.failed)

        assert status.message == "loaded on 0 of 1 workers; w1: No adapter found"

    keeping(scenario)


def test_what_cannot_be_offered_here_is_not_loaded_but_said() -> None:
    async def scenario(keeper: AdapterKeeper, agents: FakeAgents) -> None:
        keeper.show("demo", [LocalAdapter(ONE, "exists in a cluster only")], [W1])
        status = await until(keeper, lambda status: status.failed)

        assert (status.message, status.ready) == ("exists in a cluster only", False)
        assert not agents.at["here:1"].told

    keeping(scenario)


def test_adapters_of_the_file_are_wanted_and_change_no_revision() -> None:
    one = build(service(), adapter("a"))
    elsewhere = {"path": "/another/folder"}  # of which a machine's processes need no mount
    two = build(service(), adapter("a"), adapter("b", elsewhere, servedName="team/b"), before=one)
    none = build(service(), before=two)

    assert [each.wanted.name for each in two.adapters] == ["a", "team/b"]
    assert {pool.revision for each in (one, two, none) for pool in each.pools} == {one.pools[0].revision}
    assert two.service.adapters == ("a", "team/b")
    assert none.adapters == ()
    assert build(service()).pools[0].offers is None


@pytest.mark.parametrize(
    ("manifest", "words"),
    [
        (adapter("x", {"pvc": {"claimName": "c"}}), "spec.source.pvc exists in a cluster only"),
        (adapter("x", {"oci": "image"}), "spec.source.oci exists in a cluster only"),
        (adapter("x", servedName="m"), "m is a served name of service demo itself"),
        (adapter("x", servedName="a"), "a is served by LoRAAdapter a"),
    ],
    ids=["claim", "image", "model", "other adapter"],
)
def test_what_is_in_the_way_of_an_adapter_names_the_field(manifest: dict[str, Any], words: str) -> None:
    found = build(service(), adapter("a"), manifest).adapters

    assert found[0].problem == ""
    assert words in found[1].problem


def test_a_hubs_adapter_is_read_with_the_users_own_token() -> None:
    found = build(service(), adapter("x", {"hf": "org/x"}, secretRef="cluster-only")).adapters[0]

    assert (found.wanted.hf, found.wanted.token_file, found.problem) == ("org/x", "", "")
