"""The command line against a real API server: what only a fake has answered elsewhere."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from e2e.cluster.places import REPOSITORY
from e2e.support.cluster import Cluster
from e2e.support.waiting import until
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
EXAMPLES = [path for path in sorted((REPOSITORY / "examples").glob("*.yaml")) if "InferenceService" in path.read_text()]


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

    def run(*args: str, code: int | None = 0) -> Result:
        result = CliRunner().invoke(root, [*args, "-n", namespace], obj=context)
        assert code in (result.exit_code, None), result.output
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


def test_preflight_finds_the_definitions_whole_and_judges_the_rest(call: Call, cluster: Cluster) -> None:
    shown = json.loads(call("preflight", "-o", "json", code=int(_lacks_release(cluster))).stdout)
    found = {it["name"]: it for it in shown["checks"]}

    assert found["kubernetes"]["level"] == "ok"
    assert {it["level"] for name, it in found.items() if name.startswith("resource ")} == {"ok"}
    assert found["your rights"]["level"] == "ok"
    assert not [name for name in found if name.startswith("clock of")]
    assert "this machine's clock" not in found


def _lacks_release(cluster: Cluster) -> bool:
    selector = "app.kubernetes.io/part-of=inferplane,inferplane.dev/component=operator"
    return not cluster.kubectl("get", "deployments", "-A", "-l", selector, "-o", "name").strip()


def test_preflight_lets_the_server_judge_a_file(call: Call, cluster: Cluster, tmp_path: Path) -> None:
    source = {"name": "m", "source": {"pvc": {"claimName": "w"}}}
    good, bad = written(tmp_path, SERVICE), tmp_path / "bad.json"
    bad.write_text(json.dumps(with_spec(model=source, engine={"type": "vllm", "device": "cpu"})))

    def judged(file: str, code: int) -> dict[str, dict[str, Any]]:
        shown = json.loads(call("preflight", "-f", file, "-o", "json", code=code).stdout)
        return {it["name"]: it for it in shown["checks"]}

    assert judged(good, int(_lacks_release(cluster)))["InferenceService chat"]["level"] == "ok"
    assert judged(str(bad), 1)["PersistentVolumeClaim w"]["level"] == "lacking"


# ---- before an apply


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
@pytest.mark.parametrize("option", ["", "--pools"], ids=["objects", "pools"])
def test_what_is_rendered_is_taken(
    cluster: Cluster, call: Call, tmp_path: Path, path: Path, option: str, *, namespace: str
) -> None:
    """By a cluster without the operator; pools by one that knows their kinds."""
    file = tmp_path / path.name
    file.write_text(path.read_text("utf-8").replace("path: ../", "path: /srv/").replace("  namespace: inference\n", ""))
    objects = call("render", "-f", str(file), *([option] if option else [])).stdout

    cluster.apply(objects, "--server-side", "--dry-run=server", "--validate=strict", namespace=namespace)


def test_a_diff_agrees_with_what_kubectl_then_does(
    cluster: Cluster, call: Call, namespace: str, tmp_path: Path
) -> None:
    new = call("diff", "-f", written(tmp_path, SERVICE), code=1).stdout
    cluster.apply(SERVICE, namespace=namespace)
    edited = {
        **with_spec(engine={"type": "sim", "args": ["--seed=2"]}),
        "metadata": {"name": "chat", "labels": {"a": "b"}},
    }
    del edited["spec"]["slo"]
    file = written(tmp_path, edited)
    shown = json.loads(call("diff", "-f", file, "-o", "json", code=1).stdout)
    before = cluster.get("inferenceservices.inferplane.dev", "chat", namespace=namespace)
    cluster.apply(edited, namespace=namespace)
    after = cluster.get("inferenceservices.inferplane.dev", "chat", namespace=namespace)

    assert new.startswith("InferenceService chat: is created\n")
    assert shown["objects"][0]["changes"] == [
        'spec.engine.args: ["--seed=1"] -> ["--seed=2"]',
        *[line for line in shown["objects"][0]["changes"] if line.startswith("spec.slo")],
        'metadata.labels.a: (none) -> "b"',
    ]
    assert any(line.startswith("spec.slo") for line in shown["objects"][0]["changes"])
    assert before["spec"]["engine"]["args"] == ["--seed=1"]
    assert after["spec"]["engine"]["args"] == ["--seed=2"]
    again = json.loads(call("diff", "-f", file, "-o", "json", code=1).stdout)
    assert again["objects"][0]["changes"] == []


def test_a_file_that_the_server_refuses_is_said_with_its_words(
    cluster: Cluster, call: Call, namespace: str, tmp_path: Path
) -> None:
    """What is right in itself, and not allowed here: only the server knows.

    Until a quota of a kind that is new to the cluster has been counted, which takes up to a minute and more, its words
    are that nothing is known of it yet; afterwards, that it is exceeded.
    """
    cluster.kubectl("create", "quota", "none", "--hard=count/inferenceservices.inferplane.dev=0", "-n", namespace)
    file = written(tmp_path, SERVICE)

    until(lambda: "quota: none" in call("diff", "-f", file, code=None).stderr, what="the quota's words")
    assert call("diff", "-f", file, code=2).stderr.startswith("error: ")


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


def test_a_service_goes_back_to_a_revision_that_is_kept(cluster: Cluster, call: Call, namespace: str) -> None:
    cluster.apply(with_spec(engine={"type": "sim", "args": ["--seed=2"]}, slo={"ttft": "1s"}), namespace=namespace)
    service = cluster.get("inferenceservices.inferplane.dev", "chat", namespace=namespace)
    owner = {
        "apiVersion": service["apiVersion"],
        "kind": service["kind"],
        "name": "chat",
        "uid": service["metadata"]["uid"],
        "controller": True,
    }
    kept: dict[str, Any] = {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {"name": "chat-aaa", "ownerReferences": [owner]},
        "revision": 1,
        "data": {"spec": SERVICE["spec"], "modelRevision": "", "templates": {}},
    }
    cluster.apply(kept, namespace=namespace)

    assert call("rollback", "chat", "--dry-run").stdout.splitlines()[-1] == "chat would be rolled back to aaa"
    call("rollback", "chat", "--to", "aaa")
    spec = cluster.get("inferenceservices.inferplane.dev", "chat", namespace=namespace)["spec"]

    assert spec["engine"]["args"] == ["--seed=1"]
    assert spec["slo"]["ttft"] == "1s"


def test_an_archive_holds_a_service_without_its_secrets(
    cluster: Cluster, call: Call, namespace: str, tmp_path: Path
) -> None:
    cluster.apply(with_spec(engine={"type": "sim", "env": {"TOKEN": "hush"}}), namespace=namespace)
    said = call("dump", "chat", "--to", str(tmp_path / "case.tar.gz")).stdout

    assert said.startswith(str(tmp_path / "case.tar.gz"))
    assert b"hush" not in (tmp_path / "case.tar.gz").read_bytes()
