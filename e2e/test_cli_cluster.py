"""The command line against a real API server: what only a fake has answered elsewhere."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from e2e.support.cluster import Cluster
from inferplane.cli import root
from inferplane.cluster import AbsentKindError, Choice, Connection, ForbiddenError, NotFoundError, Question
from inferplane.context import Context
from inferplane.kube import kinds
from inferplane.kube.kinds import Kind
from inferplane.kube.objects import exists, get, items
from inferplane.kubeconfig import connect

pytestmark = pytest.mark.usefixtures("crds")

Call = Callable[..., Result]
SERVICE: dict[str, Any] = {
    "apiVersion": "inferplane.dev/v1alpha1",
    "kind": "InferenceService",
    "metadata": {"name": "chat"},
    "spec": {
        "model": {"name": "inferplane/sim", "servedNames": ["sim"]},
        "engine": {"type": "sim", "args": ["--seed=1"]},
        "slo": {"ttft": "800ms", "tpot": "25ms"},
        "mode": "aggregated",
        "decode": {"replicas": 2, "maxReplicas": 4},
    },
}


@pytest.fixture
def connection(cluster: Cluster, namespace: str) -> Connection:
    found = connect(Choice(namespace=namespace, kubeconfig=cluster.access.kubeconfig), {})
    assert found is not None
    return found


@pytest.fixture
def call(cluster: Cluster, namespace: str, tmp_path: Path) -> Call:
    """Call `inferplane ARGS... -n NAMESPACE` on this cluster."""
    environment = {"KUBECONFIG": str(cluster.access.kubeconfig), "XDG_STATE_HOME": str(tmp_path / "state")}
    context = Context(environment=environment, working_dir=tmp_path)

    def run(*args: str, code: int = 0) -> Result:
        result = CliRunner().invoke(root, [*args, "-n", namespace], obj=context)
        assert result.exit_code == code, result.output
        return result

    return run


def with_spec(**spec: Any) -> dict[str, Any]:
    return {**SERVICE, "spec": {**SERVICE["spec"], **spec}}


def written(folder: Path, document: Mapping[str, Any]) -> str:
    path = folder / "service.json"
    path.write_text(json.dumps(document))
    return str(path)


# ---- the seam


def test_a_real_server_is_asked_as_the_fake_one_is(cluster: Cluster, connection: Connection, namespace: str) -> None:
    cluster.apply(SERVICE, namespace=namespace)
    for number in range(3):
        cluster.kubectl("create", "secret", "generic", f"s{number}", "--from-literal=k=v", "-n", namespace)
    seam = connection.cluster

    assert get(seam, kinds.SERVICES, namespace, "chat")["spec"]["model"]["name"] == "inferplane/sim"
    assert [it["kind"] for it in items(seam, kinds.SERVICES, namespace)] == ["InferenceService"]
    assert exists(seam, kinds.SECRETS, namespace, "s1")
    question = Question(kinds.SECRETS.path(namespace, "s1"), metadata_only=True)
    reply = seam.ask(question)
    assert "data" not in reply.document
    assert reply.served_at is not None
    with pytest.raises(NotFoundError):
        get(seam, kinds.SERVICES, namespace, "nobody")
    for absent in (Kind("no.such.group/v1", "things"), Kind("apps/v1", "things")):
        with pytest.raises(AbsentKindError):
            items(seam, absent, namespace)
    with pytest.raises(NotFoundError):
        list(seam.lines(Question(f"{kinds.PODS.path(namespace, 'gone')}/log")))


def test_who_may_not_is_told_whom_to_ask(
    cluster: Cluster, connection: Connection, namespace: str, tmp_path: Path
) -> None:
    cluster.kubectl("create", "serviceaccount", "nobody", "-n", namespace)
    token = cluster.kubectl("create", "token", "nobody", "-n", namespace).strip()
    config = yaml.safe_load(cluster.access.kubeconfig.read_text())
    user = {"name": "nobody", "user": {"token": token}}
    context = {"name": "main", "context": {"cluster": config["clusters"][0]["name"], "user": "nobody"}}
    file = tmp_path / "config"
    # JSON is YAML, and its writer has types.
    file.write_text(json.dumps({**config, "users": [user], "contexts": [context], "current-context": "main"}))
    found = connect(Choice(namespace=namespace, kubeconfig=file), {})

    assert found is not None
    with pytest.raises(ForbiddenError, match="ask whoever runs the cluster"):
        items(found.cluster, kinds.SERVICES, namespace)
    assert items(connection.cluster, kinds.SERVICES, namespace) == []


# ---- looking


def test_a_service_that_no_operator_has_seen_is_shown_as_unknown(cluster: Cluster, call: Call, namespace: str) -> None:
    cluster.apply(SERVICE, namespace=namespace)

    assert call("status").stdout.splitlines()[1].split()[:2] == ["chat", "Unknown"]
    assert "has not seen the latest change yet" in call("status", "chat").stdout
    assert [namespace, "chat"] in [line.split()[:2] for line in call("status", "-A").stdout.splitlines()]


# ---- changing


def test_a_pool_is_scaled_through_the_real_subresource(
    cluster: Cluster, call: Call, namespace: str, tmp_path: Path
) -> None:
    pools = call("render", "-f", written(tmp_path, SERVICE), "--pools").stdout
    cluster.apply(pools, "--server-side", namespace=namespace)

    assert call("scale", "chat/decode", "3").stdout == "chat-decode scaled from 2 to 3\n"
    found = cluster.get("decodepools.inferplane.dev", "chat-decode", namespace=namespace)
    assert found["spec"]["replicas"] == 3
    assert "9 is more than maxReplicas" in call("scale", "chat/decode", "9", code=2).stderr


def test_a_service_is_frozen_and_let_go(cluster: Cluster, call: Call, namespace: str) -> None:
    cluster.apply(SERVICE, namespace=namespace)

    def annotations() -> dict[str, str]:
        found = cluster.get("inferenceservices.inferplane.dev", "chat", namespace=namespace)
        return {key: value for key, value in found["metadata"]["annotations"].items() if "inferplane" in key}

    call("freeze", "chat", "--reason", "weekend")
    assert annotations() == {"inferplane.dev/freeze": "weekend"}

    call("unfreeze", "chat")
    assert annotations() == {}
