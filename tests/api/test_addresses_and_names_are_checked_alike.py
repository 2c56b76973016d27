"""Types and an API server refuse the same addresses, directories and aliases."""

from typing import Any

import pytest

from inferplane_api.schema.testing import ApiServer
from inferplane_api.v1alpha1.manifests import ManifestError, parse_resource


def store(address: str) -> dict[str, Any]:
    return resource("KVStore", tiers=[{"name": "shared", "medium": "redis", "address": address}])


def resource(kind: str, **spec: object) -> dict[str, Any]:
    return {"apiVersion": "inferplane.dev/v1alpha1", "kind": kind, "metadata": {"name": "demo"}, "spec": spec}


def both_refuse(value: dict[str, Any]) -> bool:
    """Return what the two agree on."""
    refused = bool(ApiServer(value["kind"]).refusals(value))
    try:
        parse_resource(value)
    except ManifestError:
        assert refused
        return True
    assert not refused
    return False


@pytest.mark.parametrize(
    "address",
    ["redis:6379", "redis.inference:6379", "127.0.0.1:6379", "[::1]:6379", "rediss://cache/0", "rdma://master:50051"],
)
def test_an_address_is_a_host_with_a_port_or_a_url(address: str) -> None:
    assert not both_refuse(store(address))


@pytest.mark.parametrize(
    "address", ["", "redis", "not an address", "redis:", ":6379", "redis:six", "redis:6379 ", "::1"]
)
def test_other_texts_are_no_addresses(address: str) -> None:
    assert both_refuse(store(address))


@pytest.mark.parametrize("path", ["/", "//", "/."])
def test_the_root_of_a_node_holds_no_weights(path: str) -> None:
    assert both_refuse(resource("LoRAAdapter", service="chat", source={"path": path}))


def test_an_alias_is_named_once() -> None:
    assert both_refuse(resource("ModelRoute", aliases=["a", "b", "a"], targets=[{"servedName": "c"}]))
