"""With a Secret named, the gateway, its probes, its Service and whoever is told its address agree on TLS."""

from typing import Any

import pytest
import yaml

from helm_chart import Helm, Manifest

VALUES: dict[str, Any] = {"gateway": {"tls": {"secretName": "llm-tls"}, "service": {"port": 443}}}


@pytest.fixture(scope="module")
def rendered(helm: Helm) -> list[Manifest]:
    return helm.render(VALUES)


def one(manifests: list[Manifest], kind: str, end: str) -> Manifest:
    (found,) = (each for each in manifests if each["kind"] == kind and each["metadata"]["name"].endswith(end))
    return found


def container(manifests: list[Manifest], deployment: str) -> dict[str, Any]:
    found: dict[str, Any] = one(manifests, "Deployment", deployment)["spec"]["template"]["spec"]["containers"][0]
    return found


def test_the_router_reads_what_the_secret_is_mounted_as(rendered: list[Manifest]) -> None:
    config = yaml.safe_load(one(rendered, "ConfigMap", "-gateway")["data"]["router.yaml"])
    spec = one(rendered, "Deployment", "-gateway")["spec"]["template"]["spec"]
    (mount,) = (each for each in container(rendered, "-gateway")["volumeMounts"] if each["name"] == "tls")

    assert config["tls"] == {"certificate": f"{mount['mountPath']}/tls.crt", "key": f"{mount['mountPath']}/tls.key"}
    assert {"name": "tls", "secret": {"secretName": "llm-tls"}} in spec["volumes"]
    assert not mount["mountPath"].startswith("/etc/inferplane/"), "nothing can be mounted into a ConfigMap's volume"


def test_probes_speak_it(rendered: list[Manifest]) -> None:
    gateway = container(rendered, "-gateway")
    probes = [gateway[kind]["httpGet"]["scheme"] for kind in ("startupProbe", "readinessProbe", "livenessProbe")]

    assert probes == ["HTTPS"] * 3


def test_everybody_is_told_so(rendered: list[Manifest]) -> None:
    (port,) = one(rendered, "Service", "-gateway")["spec"]["ports"]
    test_pod = one(rendered, "Pod", "-test")["spec"]["containers"][0]

    assert port["appProtocol"] == "https"
    assert "--gateway-url=https://inferplane-gateway.inferplane-system.svc" in container(rendered, "-operator")["args"]
    assert test_pod["args"][-1] == "https://inferplane-gateway:443"


def test_without_one_nothing_speaks_it(helm: Helm) -> None:
    manifests = helm.render()

    assert "tls" not in yaml.safe_load(one(manifests, "ConfigMap", "-gateway")["data"]["router.yaml"])
    assert container(manifests, "-gateway")["readinessProbe"]["httpGet"]["scheme"] == "HTTP"
