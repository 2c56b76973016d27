"""What agents are told follows from what is wanted and what they report, whatever happened before."""

from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferplane_api.claims import Key
from inferplane_operator.reconcile.adapter import (
    AdapterWorker,
    LoadAdapter,
    Reported,
    ReportedAdapter,
    WantedAdapter,
    calls_for,
    fitting,
)
from inferplane_operator.reconcile.service_adapters import (
    AdaptersOutcome,
    orphaned,
    reconcile_adapters,
    workers_of,
)
from inferplane_operator.reconcile.values import EventType, Manifest, Observed, ServedNameClaim
from inferplane_operator.render.adapter_need import ANNOTATION, AdapterNeed, Place, PlaceKind

FOLDER = Place(PlaceKind.FOLDER, "/srv/adapters")
ROOM = AdapterNeed(2, 16, (FOLDER,))
NOW = "2026-01-01T00:00:10Z"


def adapter(name: str, *, created: str = "2026-01-01T00:00:00Z", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "inferplane.dev/v1alpha1",
        "kind": "LoRAAdapter",
        "metadata": {"name": name, "namespace": "default", "generation": 1, "uid": name, "creationTimestamp": created},
        "spec": {"service": "demo", "source": {"path": f"/srv/adapters/{name}"}, **spec},
    }


def pod(name: str, *, offers: AdapterNeed | None = ROOM, ready: bool = True) -> dict[str, Any]:
    annotations = {ANNOTATION: offers.annotation} if offers is not None else {}
    return {
        "metadata": {"name": name, "namespace": "default", "annotations": annotations},
        "status": {
            "podIP": f"10.0.0.{name[-1]}",
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
        },
    }


def observed(*adapters: Manifest, pods: tuple[Manifest, ...] = (), engine: dict[str, Any] | None = None) -> Observed:
    service = {
        "apiVersion": "inferplane.dev/v1alpha1",
        "kind": "InferenceService",
        "metadata": {"name": "demo", "namespace": "default", "generation": 1},
        "spec": {
            "model": {"name": "m", "servedNames": ["m", "base"]},
            "engine": {"type": "sim", **(engine or {})},
            "decode": {},
        },
    }
    return Observed(service=service, adapters=adapters, pods=pods or (pod("w1"), pod("w2")), now=NOW)


@dataclass
class World:
    """Workers that do what they are told, at once."""

    has: dict[str, dict[str, ReportedAdapter]] = field(default_factory=dict[str, dict[str, ReportedAdapter]])
    errors: dict[str, str] = field(default_factory=dict[str, str])

    def workers(self, seen: Observed) -> list[AdapterWorker]:
        return [replace(worker, adapters=tuple(self.has.get(worker.name, {}).values())) for worker in workers_of(seen)]

    def round(self, seen: Observed) -> AdaptersOutcome:
        outcome = reconcile_adapters(seen, self.workers(seen))
        for call in outcome.calls:
            mine = self.has.setdefault(call.worker.name, {})
            if isinstance(call, LoadAdapter):
                wanted = call.adapter
                error = self.errors.get(wanted.name, "")
                state = Reported.FAILED if error else Reported.LOADED
                mine[wanted.name] = ReportedAdapter(
                    wanted.name, wanted.revision, wanted.source, state, error, None if error else wanted.revision
                )
            else:
                mine.pop(call.name, None)
        return outcome

    def names(self) -> dict[str, list[str]]:
        return {worker: sorted(mine) for worker, mine in self.has.items()}


def status(outcome: AdaptersOutcome, name: str) -> dict[str, Any]:
    patch = next(merge.patch for merge in outcome.status if merge.reference.name == name)
    found: dict[str, Any] = patch["status"]
    return found


def ready(outcome: AdaptersOutcome, name: str) -> tuple[str, str, str]:
    condition = status(outcome, name)["conditions"][0]
    return condition["status"], condition["reason"], condition["message"]


def test_each_adapter_comes_to_each_ready_worker_and_then_there_is_silence() -> None:
    world, seen = World(), observed(adapter("a"), adapter("b"), pods=(pod("w1"), pod("w2"), pod("w3", ready=False)))
    first, second = world.round(seen), world.round(seen)

    assert first.busy
    assert world.names() == {"w1": ["a", "b"], "w2": ["a", "b"]}
    assert ready(first, "a") == ("False", "AdapterLoading", "loaded on 0 of 2 workers")
    assert not second.calls
    assert ready(second, "a") == ("True", "AdapterLoaded", "loaded on 2 of 2 workers")
    assert (status(second, "a")["loadedOn"], status(second, "a")["wantedOn"]) == (2, 2)
    assert [each["state"] for each in status(second, "a")["workers"]] == ["Loaded", "Loaded"]


def test_a_status_that_is_written_is_not_written_again() -> None:
    world, one = World(), adapter("a")
    world.round(observed(one))
    done = world.round(observed(one))
    kept = {**one, "status": dict(done.status[0].patch["status"])}

    again = world.round(observed(kept))

    assert not again.status
    assert not again.events


def test_what_no_adapter_names_any_more_is_unloaded_though_nobody_remembers_it() -> None:
    world = World()
    world.round(observed(adapter("a"), adapter("b")))
    world.round(observed(adapter("b")))
    deleted = adapter("b")
    deleted["metadata"]["deletionTimestamp"] = NOW

    assert world.names() == {"w1": ["b"], "w2": ["b"]}
    world.round(observed(deleted))
    assert world.names() == {"w1": [], "w2": []}


@pytest.mark.parametrize(
    "change",
    [{"revision": "2"}, {"source": {"path": "/srv/adapters/other"}}],
    ids=["revision", "place"],
)
def test_other_weights_are_loaded_in_place_of_the_old_ones(change: dict[str, Any]) -> None:
    world = World()
    world.round(observed(adapter("a")))
    before = world.has["w1"]["a"]
    world.round(observed(adapter("a", **change)))

    assert world.has["w1"]["a"].revision != before.revision


def test_an_error_of_one_worker_is_in_the_status_in_its_own_words() -> None:
    world, seen = World(errors={"a": "LoRA rank 64 is greater than max_lora_rank 16."}), observed(adapter("a"))
    world.round(seen)
    outcome = world.round(seen)

    assert ready(outcome, "a") == (
        "False",
        "AdapterFailed",
        "loaded on 0 of 2 workers; w1: LoRA rank 64 is greater than max_lora_rank 16.",
    )
    assert outcome.calls
    resting = {
        (call.worker.name, "a", call.adapter.revision) for call in outcome.calls if isinstance(call, LoadAdapter)
    }
    assert not reconcile_adapters(seen, world.workers(seen), resting=resting).calls


def test_pinned_and_older_ones_come_first_where_not_all_fit() -> None:
    world = World()
    seen = observed(
        adapter("young", created="2026-01-01T00:00:03Z", pinned=True),
        adapter("old", created="2026-01-01T00:00:01Z"),
        adapter("late", created="2026-01-01T00:00:02Z"),
    )
    world.round(seen)
    outcome = world.round(seen)

    assert world.names()["w1"] == ["old", "young"]
    assert ready(outcome, "late") == (
        "False",
        "AdaptersFull",
        (
            "loaded on 0 of 2 workers; w1: it holds 2 adapters, and others come first; "
            "raise spec.engine.lora.maxAdapters of the service, or delete one"
        ),
    )


def test_a_volume_that_is_not_mounted_yet_waits_for_the_next_revision() -> None:
    world, seen = World(), observed(adapter("a", source={"pvc": {"claimName": "weights"}}))
    outcome = world.round(seen)

    assert not outcome.calls
    assert ready(outcome, "a") == (
        "False",
        "RollingOut",
        (
            "loaded on 0 of 2 workers; w1: it was started without claim weights; "
            "workers of the service's next revision have it"
        ),
    )


def test_workers_of_before_adapters_are_not_called() -> None:
    seen = observed(adapter("a"), pods=(pod("w1", offers=None), pod("w2")))
    outcome = World().round(seen)

    assert [call.worker.name for call in outcome.calls] == ["w2"]
    assert ready(outcome, "a")[1] == "RollingOut"


def test_names_that_are_taken_are_refused_with_their_holder() -> None:
    seen = observed(
        adapter("a", servedName="base"),
        adapter("b", servedName="theirs"),
        adapter("c", servedName="x", created="2026-01-01T00:00:01Z"),
        adapter("d", servedName="x", created="2026-01-01T00:00:02Z"),
    )
    seen = replace(seen, lost_names=(ServedNameClaim("theirs", Key("default", "other")),))
    outcome = World().round(seen)

    assert {call.adapter.key for call in outcome.calls if isinstance(call, LoadAdapter)} == {"c"}
    assert ready(outcome, "a")[1:] == (
        "ServedNameConflict",
        "base is a served name of service demo itself; set spec.servedName",
    )
    assert "served by service default/other" in ready(outcome, "b")[2]
    assert "served by LoRAAdapter c" in ready(outcome, "d")[2]


def test_a_rank_above_the_services_own_limit_names_both_fields() -> None:
    outcome = World().round(observed(adapter("a", rank=64), engine={"lora": {"maxRank": 16}}))

    assert ready(outcome, "a")[1] == "InvalidSpec"
    assert "spec.rank 64 is more than spec.engine.lora.maxRank 16" in ready(outcome, "a")[2]


def test_an_adapter_without_its_service_or_without_workers_says_so() -> None:
    alone = orphaned(adapter("a"), now=NOW)
    seen = replace(observed(adapter("a")), pods=())

    assert ready(alone, "a")[1] == "ServiceNotFound"
    assert ready(World().round(seen), "a")[1:] == ("NoReadyWorkers", "no worker of service demo is ready")
    assert [event.type for event in alone.events] == [EventType.WARNING]


def test_an_agent_that_does_not_answer_is_told_nothing() -> None:
    seen = observed(adapter("a"))
    workers = [replace(worker, problem="its agent does not answer") for worker in workers_of(seen)]
    outcome = reconcile_adapters(seen, workers)

    assert not outcome.calls
    assert ready(outcome, "a")[1] == "WorkersFailed"


NAMES = st.sampled_from("abcd")
REPORTS = st.builds(
    ReportedAdapter,
    name=NAMES,
    revision=st.sampled_from("12"),
    source=st.just("/srv/adapters/x"),
    state=st.sampled_from(Reported),
)
WANTED = st.builds(
    WantedAdapter,
    key=NAMES,
    name=NAMES,
    revision=st.sampled_from("12"),
    rank=st.just(8),
    path=st.just("/srv/adapters/x"),
    pinned=st.booleans(),
    created=st.sampled_from(["", "1", "2"]),
    places=st.sampled_from([(), (FOLDER,), (Place(PlaceKind.HUB),)]),
)


@given(
    st.lists(WANTED, max_size=4, unique_by=lambda each: each.name),
    st.lists(REPORTS, max_size=4, unique_by=lambda each: each.name),
    st.sampled_from([ROOM, AdapterNeed(8, 16, (FOLDER,)), None]),
)
def test_from_any_state_one_round_of_calls_is_enough(
    wanted: list[WantedAdapter], reports: list[ReportedAdapter], offers: AdapterNeed | None
) -> None:
    worker = AdapterWorker("w", "w:1", offers, tuple(reports))
    has = {each.name: each for each in reports}
    for call in calls_for(wanted, [worker]):
        if isinstance(call, LoadAdapter):
            new = call.adapter
            has[new.name] = ReportedAdapter(new.name, new.revision, new.source, Reported.LOADED)
        else:
            del has[call.name]
    loading = {each.name for each in reports if each.state is Reported.LOADING}

    assert len(has) <= (offers.max_adapters if offers else 0)
    assert set(has) == {
        each.name
        for each in fitting(wanted, offers.max_adapters if offers else 0)
        if offers is not None and set(each.places) <= set(offers.places)
    }
    assert all(each.state is Reported.LOADED or each.name in loading for each in has.values())
    assert not calls_for(wanted, [replace(worker, adapters=tuple(has.values()))])
