"""A user's Pod template has the last word, as `kubectl patch` would give it, but cannot break the worker."""

from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from inferplane_operator.render.errors import RenderError
from inferplane_operator.render.merge import check_merged, strategic_merge

OURS: dict[str, Any] = {
    "metadata": {"labels": {"inferplane.dev/pool": "p", "app": "x"}, "annotations": {}},
    "spec": {
        "initContainers": [{"name": "agent", "image": "a", "resources": {"limits": {"memory": "1Gi"}}}],
        "containers": [
            {
                "name": "engine",
                "image": "e",
                "args": ["serve", "m"],
                "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
                "volumeMounts": [{"name": "run", "mountPath": "/run"}],
                "ports": [{"name": "kv-0", "containerPort": 5600}],
            }
        ],
        "volumes": [{"name": "cache", "emptyDir": {}}],
    },
}


def merged(spec: dict[str, Any], metadata: dict[str, Any] | None = None) -> dict[str, Any]:
    over = {"spec": spec} | ({"metadata": metadata} if metadata else {})
    result = strategic_merge(OURS, over, path="t")
    check_merged(OURS, result, path="t")
    return result


def test_containers_merge_by_name_and_new_ones_come_after() -> None:
    engine = {"name": "engine", "env": [{"name": "B", "value": "3"}, {"name": "C", "value": "4"}]}

    found = merged({"containers": [{"name": "log", "image": "l"}, engine]})["spec"]["containers"]

    assert [container["name"] for container in found] == ["engine", "log"]
    assert found[0]["image"] == "e"
    assert [(entry["name"], entry["value"]) for entry in found[0]["env"]] == [("A", "1"), ("B", "3"), ("C", "4")]


def test_the_agent_is_changed_where_it_is() -> None:
    agent = {"name": "agent", "resources": {"requests": {"cpu": "2"}}}

    found = merged({"initContainers": [agent]})["spec"]["initContainers"]

    assert found == [
        {"name": "agent", "image": "a", "resources": {"limits": {"memory": "1Gi"}, "requests": {"cpu": "2"}}}
    ]


def test_a_volume_replaces_ours_whole() -> None:
    volume = {"name": "cache", "persistentVolumeClaim": {"claimName": "c"}}

    assert merged({"volumes": [volume]})["spec"]["volumes"] == [volume]


def test_null_removes_and_directives_delete_and_replace() -> None:
    found = merged(
        {
            "containers": [{"name": "engine", "args": None, "env": [{"name": "A", "$patch": "delete"}]}],
            "nodeSelector": {"$patch": "replace", "a": "b"},
        }
    )["spec"]

    assert "args" not in found["containers"][0]
    assert found["containers"][0]["env"] == [{"name": "B", "value": "2"}]
    assert found["nodeSelector"] == {"a": "b"}


def test_lists_without_a_key_replace_ours() -> None:
    tolerations = [{"key": "gpu", "operator": "Exists"}]

    found = merged({"tolerations": tolerations, "containers": [{"name": "engine", "args": ["x"]}]})["spec"]

    assert found["tolerations"] == tolerations
    assert found["containers"][0]["args"] == ["x"]


@pytest.mark.parametrize(
    ("spec", "metadata", "path"),
    [
        ({"containers": [{"image": "x"}]}, None, "t.spec.containers[0]"),
        ({"containers": {"name": "x"}}, None, "t.spec.containers"),
        ({"containers": ["x"]}, None, "t.spec.containers[0]"),
        ({"containers": [{"name": "agent"}]}, None, "t.spec.containers"),
        ({"containers": [{"name": "engine", "$patch": "delete"}]}, None, "t.spec"),
        ({"initContainers": [{"name": "agent", "$patch": "delete"}]}, None, "t.spec"),
        ({"initContainers": None}, None, "t.spec"),
        ({"initContainers": [{"name": "engine"}]}, None, "t.spec.containers"),
        ({"containers": [{"name": ["x"]}]}, None, "t.spec.containers[0]"),
        ({"volumes": 5}, None, "t.spec.volumes"),
        ({}, {"labels": ["x"]}, "t.metadata.labels"),
        ({}, {"labels": {"inferplane.dev/pool": "q"}}, "t.metadata.labels.inferplane.dev/pool"),
        ({}, {"labels": {"inferplane.dev/pool": None}}, "t.metadata.labels.inferplane.dev/pool"),
        ({}, {"annotations": {"inferplane.dev/x": "q"}}, "t.metadata.annotations.inferplane.dev/x"),
    ],
)
def test_a_worker_cannot_be_broken(spec: dict[str, Any], metadata: dict[str, Any] | None, path: str) -> None:
    with pytest.raises(RenderError) as caught:
        merged(spec, metadata)

    assert path == caught.value.path


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abcdef"), inner, max_size=3),
    max_leaves=8,
)
OBJECT = st.dictionaries(st.sampled_from("abcdef"), JSON, max_size=4)


@pytest.mark.slow
@settings(deadline=None, max_examples=50)
@given(OBJECT, OBJECT)
def test_merging_the_same_again_changes_nothing(base: dict[str, Any], over: dict[str, Any]) -> None:
    try:
        once = strategic_merge(base, over, path="t")
    except RenderError:
        assume(condition=False)
        raise

    assert strategic_merge(once, over, path="t") == once


@pytest.mark.slow
@settings(deadline=None, max_examples=50)
@given(OBJECT)
def test_merging_nothing_changes_nothing(base: dict[str, Any]) -> None:
    assert strategic_merge(base, {}, path="t") == base
