"""The router's configuration names one source of catalogues, and says what is wrong with anything else."""

import json
from pathlib import Path
from typing import Any

import pytest

from inferplane_router.config import Discovery, KubernetesDiscovery, read_config
from inferplane_runtime.settings import SettingsError


def read(folder: Path, discovery: Any) -> Discovery:
    path = folder / "router.yaml"
    path.write_text(json.dumps({"cacheDir": "/cache", "discovery": discovery}))
    return read_config(path).discovery


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ({"file": "/c.json"}, Discovery(file=Path("/c.json"))),
        ({"kubernetes": {}}, Discovery(kubernetes=KubernetesDiscovery())),
        ({"kubernetes": {"namespace": "a"}}, Discovery(kubernetes=KubernetesDiscovery(namespace="a"))),
    ],
    ids=["file", "cluster", "namespace"],
)
def test_either_is_taken(tmp_path: Path, written: Any, expected: Discovery) -> None:
    assert read(tmp_path, written) == expected


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ({}, "discovery: has nothing"),
        ({"kubernetes": None}, "discovery: has nothing"),
        ({"file": "/c.json", "kubernetes": {}}, "discovery: has both"),
        ({"kubernetes": {"namespaces": "a"}}, "discovery.kubernetes.namespaces: unknown key"),
        ({"kubernetes": {"namespace": "A b"}}, "discovery.kubernetes.namespace"),
        ({"kubernetes": {"namespace": ["a"]}}, "discovery.kubernetes.namespace"),
        ({"kubernetes": "yes"}, "discovery.kubernetes: must be a mapping"),
    ],
    ids=["nothing", "null", "both", "typo", "no name", "list", "text"],
)
def test_anything_else_names_the_field(tmp_path: Path, written: Any, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        read(tmp_path, written)
