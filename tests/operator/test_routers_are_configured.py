"""What is rendered for a router is what a router reads."""

import json
from pathlib import Path

from inferplane_operator.render import RouterSettings, cluster_router, router_config, router_grace_period_s
from inferplane_router.config import KubernetesDiscovery, read_config


def written(folder: Path, settings: RouterSettings) -> Path:
    path = folder / "router.json"
    path.write_text(json.dumps(router_config(settings)))
    return path


def test_a_routers_pod_watches_the_cluster_and_ends_slowly(tmp_path: Path) -> None:
    settings = cluster_router(namespace="team")

    found = read_config(written(tmp_path, settings))

    assert found.discovery.kubernetes == KubernetesDiscovery(namespace="team")
    assert found.discovery.file is None
    assert (found.lame_duck_s, found.drain_timeout_s) == (5.0, 600.0)
    assert router_grace_period_s(settings) == 620


def test_a_router_of_one_machine_reads_a_file(tmp_path: Path) -> None:
    found = read_config(written(tmp_path, RouterSettings("/cache", catalogue_file="/state/catalogue.json")))

    assert found.discovery.file == Path("/state/catalogue.json")
    assert found.discovery.kubernetes is None


def test_a_router_that_traces_is_told_where_and_how_much(tmp_path: Path) -> None:
    settings = RouterSettings("/cache", trace_endpoint="http://collector:4318", trace_ratio="0.05")

    found = read_config(written(tmp_path, settings)).tracing

    assert (found.endpoint, found.ratio) == ("http://collector:4318/v1/traces", 0.05)
    assert "tracing" not in router_config(RouterSettings("/cache"))


def test_a_router_of_several_processes_is_told_so(tmp_path: Path) -> None:
    assert read_config(written(tmp_path, RouterSettings("/cache", processes=4))).processes == 4
    assert "processes" not in router_config(RouterSettings("/cache"))
