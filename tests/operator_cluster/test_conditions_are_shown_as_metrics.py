from typing import Any

from inferplane_operator.cluster.condition_meters import ConditionMeters
from inferplane_operator.cluster.stored import Stored, store_form
from inferplane_runtime.metrics.instruments import Instruments


def service(name: str, version: int, **conditions: str) -> Stored:
    said = [{"type": kind, "status": status, "reason": "Any"} for kind, status in conditions.items()]
    raw: dict[str, Any] = {
        "apiVersion": "inferplane.dev/v1alpha1",
        "kind": "InferenceService",
        "metadata": {"namespace": "a", "name": name, "uid": name, "resourceVersion": str(version)},
        "spec": {"model": {"name": "m"}},
        "status": {"conditions": said},
    }
    return store_form(raw)


def shown(instruments: Instruments) -> set[tuple[str, str, str]]:
    return {
        (sample.labels["service"], sample.labels["condition"], sample.labels["status"])
        for family in instruments.registry.collect()
        for sample in family.samples
        if sample.value
    }


def test_a_page_shows_the_conditions_of_the_services_that_are_there() -> None:
    instruments = Instruments()
    meters = ConditionMeters(instruments)
    meters.refresh([service("x", 1, Ready="False"), service("y", 1, Ready="True", Degraded="True")])
    before = shown(instruments)
    meters.refresh([service("x", 2, Ready="True")])

    assert before == {("x", "Ready", "False"), ("y", "Ready", "True"), ("y", "Degraded", "True")}
    assert shown(instruments) == {("x", "Ready", "True")}


def test_a_service_without_a_status_shows_nothing() -> None:
    instruments = Instruments()
    ConditionMeters(instruments).refresh([service("x", 1)])

    assert shown(instruments) == set()
