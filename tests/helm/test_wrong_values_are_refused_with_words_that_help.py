"""Whoever sets a value that cannot work is told which, before anything reaches the cluster."""

from typing import Any

import pytest

from helm_chart import Helm, HelmError

CASES: list[tuple[str, dict[str, Any], list[str]]] = [
    ("misspelt", {"gateway": {"replica": 3}}, ["/gateway", "'replica' not allowed"]),
    ("text for a number", {"gateway": {"replicas": "3"}}, ["/gateway/replicas", "got string, want integer"]),
    ("negative", {"operator": {"replicas": -1}}, ["/operator/replicas", "got -1, want 0"]),
    ("unknown choice", {"image": {"pullPolicy": "Sometimes"}}, ["/image/pullPolicy", "'IfNotPresent'"]),
    ("unicode name", {"fullnameOverride": "plané"}, ["/fullnameOverride", "does not match pattern"]),
    ("64 characters", {"fullnameOverride": "a" * 64}, ["/fullnameOverride", "does not match pattern"]),
    ("short digest", {"worker": {"image": {"digest": "sha256:12"}}}, ["/worker/image/digest", "sha256:[0-9a-f]{64}"]),
    ("registry with a scheme", {"image": {"registry": "https://x"}}, ["/image/registry", "does not match pattern"]),
    ("budget of none", {"gateway": {"podDisruptionBudget": {"maxUnavailable": 0}}}, ["maxUnavailable", "want 1"]),
    ("our own label", {"operator": {"podLabels": {"inferplane.dev/component": "x"}}}, ["/operator/podLabels"]),
    ("planner in no time", {"planner": {"periodS": 0}}, ["/planner/periodS", "got 0, want 1"]),
    (
        "no account of the planner's",
        {"planner": {"enabled": True, "serviceAccount": {"create": False}}},
        ["planner.serviceAccount.name", "name the ServiceAccount that is there"],
    ),
    (
        "no account",
        {"gateway": {"serviceAccount": {"create": False}}},
        ["gateway.serviceAccount.name", "name the ServiceAccount that is there"],
    ),
    ("route to nowhere", {"gateway": {"httpRoute": {"enabled": True}}}, ["gateway.httpRoute.parentRefs", "add"]),
    (
        "workers where nobody looks",
        {"watchNamespace": "a", "networkPolicies": {"workerNamespaces": ["b"]}},
        ["networkPolicies.workerNamespaces", "only namespace a is watched"],
    ),
]


@pytest.mark.parametrize(("values", "words"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_the_message_names_the_value_and_the_fix(helm: Helm, values: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(HelmError) as refused:
        helm.render(values)

    assert [word for word in words if word not in str(refused.value)] == []


def test_values_of_a_parent_chart_are_let_through(helm: Helm) -> None:
    assert helm.render({"global": {"anything": 1}}) == helm.render()
