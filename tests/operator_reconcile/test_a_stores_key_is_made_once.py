"""The Secret that keys a KVStore's checksums: made where nobody named one, once, and named in the status after that."""

from typing import Any

import pytest

from inferplane_operator.reconcile.core import PureCore
from inferplane_operator.reconcile.scene import Settings, set_scene
from inferplane_operator.reconcile.values import Create, Merge, Observed, ObservedKVStore, Outcome
from inferplane_operator.render import RenderError

KEY = "ab" * 32


def store(*, spec: dict[str, Any] | None = None, status: dict[str, Any] | None = None, uid: str = "12345678-9") -> Any:
    tiers = {"tiers": [{"name": "memory", "medium": "dram", "capacity": "1Gi"}]}
    made = {
        "apiVersion": "inferplane.dev/v1alpha1",
        "kind": "KVStore",
        "metadata": {"name": "cache", "namespace": "ns", "generation": 1, "uid": uid},
        "spec": {**tiers, **(spec or {})},
    }
    return made if status is None else {**made, "status": status}


def reconciled(seen: Any) -> Outcome:
    return PureCore(draw_key=lambda: KEY).kv_store(ObservedKVStore(seen, now="2026-01-01T00:00:00Z"))


def test_a_store_that_names_no_secret_is_given_one_of_its_own() -> None:
    create, merge = reconciled(store()).writes

    assert isinstance(create, Create)
    assert create.secret
    assert create.manifest["stringData"] == {"hmac": KEY}
    assert create.manifest["immutable"] is True
    (owner,) = create.manifest["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"]) == ("KVStore", "cache", "12345678-9")
    assert isinstance(merge, Merge)
    assert merge.subresource == "status"
    assert merge.patch == {"status": {"integritySecret": create.manifest["metadata"]["name"]}}


def test_one_that_was_made_is_kept_whatever_else_changes() -> None:
    first = reconciled(store(status={"integritySecret": "cache-integrity-1"}))
    changed = reconciled(store(spec={"ttl": "1h"}, status={"integritySecret": "cache-integrity-1"}))

    assert first.writes == changed.writes == ()
    assert "integritySecret" not in {
        key for merge in first.status for key, value in merge.patch["status"].items() if value is None
    }


@pytest.mark.parametrize("spec", [{"integritySecretRef": "mine"}])
def test_one_that_the_spec_names_is_left_to_its_owner(spec: dict[str, Any]) -> None:
    assert reconciled(store(spec=spec)).writes == ()


def test_a_store_that_goes_is_given_none() -> None:
    going = store()
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"

    assert reconciled(going).writes == ()


def test_a_store_that_is_made_anew_has_another_secret() -> None:
    names = {
        write.manifest["metadata"]["name"]
        for uid in ("11111111-1", "22222222-2")
        for write in reconciled(store(uid=uid)).writes
        if isinstance(write, Create)
    }

    assert names == {"cache-integrity-11111111", "cache-integrity-22222222"}


def test_until_it_is_there_the_store_says_that_it_waits() -> None:
    (merge,) = reconciled(store()).status
    (ready,) = merge.patch["status"]["conditions"]

    assert (ready["status"], ready["reason"]) == ("Unknown", "Pending")
    assert "Secret" in ready["message"]


SERVICE: dict[str, Any] = {
    "apiVersion": "inferplane.dev/v1alpha1",
    "kind": "InferenceService",
    "metadata": {"name": "chat", "namespace": "ns", "generation": 1, "uid": "1"},
    "spec": {
        "model": {"name": "org/m", "source": {"path": "/models/m"}},
        "engine": {"type": "vllm"},
        "mode": "aggregated",
        "kvStore": {"name": "cache"},
    },
}


def test_workers_come_as_soon_as_it_is_named_in_the_status() -> None:
    waiting = Observed(service=SERVICE, kv_store=store())
    with pytest.raises(RenderError, match="no Secret yet"):
        set_scene(waiting, Settings())

    seen = Observed(service=SERVICE, kv_store=store(status={"integritySecret": "cache-integrity-1"}))
    (pool,) = set_scene(seen, Settings()).rendered.pools

    assert "cache-integrity-1" in [
        volume["secret"]["secretName"] for volume in pool.pod_template["spec"]["volumes"] if "secret" in volume
    ]


def test_keys_are_random_and_long() -> None:
    keys = {PureCore().draw_key() for _ in range(3)}

    assert len(keys) == 3
    assert {len(key) for key in keys} == {64}
