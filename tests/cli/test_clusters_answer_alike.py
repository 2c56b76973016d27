"""The seam to a cluster: one suite for the fake and for the client that speaks HTTP; and which cluster is meant."""

from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from inferplane.cluster import (
    JSON_PATCH,
    AbsentKindError,
    Choice,
    Cluster,
    ClusterError,
    Connection,
    CredentialsError,
    ForbiddenError,
    NotFoundError,
    Question,
    RefusedError,
    UnreachableError,
)
from inferplane.errors import InvalidError
from inferplane.kube import kinds
from inferplane.kube.objects import change, exists, find, get, items, merge
from inferplane.kube.served import serve
from inferplane.kube.testing import FakeCluster
from inferplane.kube.testing_objects import make_pod, make_service
from inferplane.kubeconfig import connect
from inferplane.output import yaml_text

TOKEN = "letmein"  # noqa: S105  of the server in this process


def kubeconfig(server: str, token: str = TOKEN, **context: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "main",
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {"token": token}}],
        "contexts": [{"name": "main", "context": {"cluster": "c", "user": "u", **context}}],
    }


def write(path: Path, document: object) -> Path:
    path.write_text(yaml_text(document))
    return path


def connected(file: Path, choice: Choice | None = None) -> Connection:
    found = connect(choice or Choice(), {"KUBECONFIG": str(file)})
    assert found is not None
    return found


@pytest.fixture
def api(cluster: FakeCluster) -> Generator[str]:
    cluster.served_at = 1_800_000_000.0
    with serve(cluster, TOKEN) as url:
        yield url


@pytest.fixture(params=["fake", "http"])
def seam(request: pytest.FixtureRequest, cluster: FakeCluster, tmp_path: Path) -> Iterator[Cluster]:
    if request.param == "fake":
        cluster.served_at = 1_800_000_000.0
        yield cluster
        return
    url: str = request.getfixturevalue("api")
    yield connected(write(tmp_path / "config", kubeconfig(url))).cluster


def test_an_object_is_returned_as_it_is(seam: Cluster) -> None:
    assert get(seam, kinds.SERVICES, "default", "chat") == make_service()


def test_the_servers_clock_comes_with_the_answer(seam: Cluster) -> None:
    assert seam.ask(Question(kinds.PODS.collection("default"))).served_at == 1_800_000_000.0


def test_an_absent_object_is_told_from_an_absent_kind(seam: Cluster, cluster: FakeCluster) -> None:
    with pytest.raises(NotFoundError, match='inferenceservices "nobody" not found'):
        get(seam, kinds.SERVICES, "default", "nobody")
    cluster.served.discard("/apis/inferplane.dev/v1alpha1")
    with pytest.raises(AbsentKindError, match=r"knows no inferplane.dev resources; install the chart"):
        get(seam, kinds.SERVICES, "default", "chat")
    assert find(seam, kinds.SERVICES, "default", "chat") is None


def test_lists_are_read_to_their_last_page_with_the_kind_of_each_item(seam: Cluster, cluster: FakeCluster) -> None:
    for number in range(4):
        cluster.add("inferenceservices", make_service(f"s{number}", "other"))
    found = items(seam, kinds.SERVICES)

    assert [it["metadata"]["name"] for it in found] == ["chat", "s0", "s1", "s2", "s3"]
    assert {it["kind"] for it in found} == {"InferenceService"}
    assert [it["metadata"]["name"] for it in items(seam, kinds.SERVICES, "default")] == ["chat"]


def test_lists_are_narrowed_by_labels(seam: Cluster, cluster: FakeCluster) -> None:
    other = make_pod("other")
    other["metadata"]["labels"] = {"inferplane.dev/service": "other"}
    cluster.add("pods", other)
    found = items(seam, kinds.PODS, "default", labels="inferplane.dev/service=other")

    assert [it["metadata"]["name"] for it in found] == ["other"]


def test_a_merge_patch_changes_what_it_names_and_nothing_else(seam: Cluster, cluster: FakeCluster) -> None:
    path = kinds.SERVICES.path("default", "chat")
    changed = merge(seam, path, {"metadata": {"annotations": {"a": "b"}}, "spec": {"slo": None}})

    assert changed["metadata"]["annotations"] == {"a": "b"}
    assert "slo" not in cluster.held("inferenceservices", "chat")["spec"]
    assert cluster.written[0].query["fieldManager"] == "inferplane-cli"


def test_a_dry_run_changes_nothing(seam: Cluster, cluster: FakeCluster) -> None:
    merge(seam, kinds.SERVICES.path("default", "chat"), {"spec": {"slo": None}}, dry_run=True)

    assert "slo" in cluster.held("inferenceservices", "chat")["spec"]


def test_a_change_of_what_somebody_else_has_changed_is_refused(seam: Cluster, cluster: FakeCluster) -> None:
    operations: list[dict[str, Any]] = [
        {"op": "test", "path": "/metadata/resourceVersion", "value": "old"},
        {"op": "replace", "path": "/spec", "value": {}},
    ]
    with pytest.raises(RefusedError):
        change(seam, kinds.SERVICES.path("default", "chat"), operations, JSON_PATCH)

    assert cluster.held("inferenceservices", "chat")["spec"] != {}


def test_what_is_not_allowed_is_said_with_whom_to_ask(seam: Cluster, cluster: FakeCluster) -> None:
    cluster.forbidden.add(("list", "pods"))
    with pytest.raises(ForbiddenError, match=r"cannot list resource .*; ask whoever runs the cluster"):
        items(seam, kinds.PODS, "default")


def test_a_secret_is_looked_up_without_its_contents(seam: Cluster, cluster: FakeCluster) -> None:
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "s", "namespace": "default"},
        "data": {"k": "v"},
    }
    cluster.add("secrets", secret)
    question = Question(kinds.SECRETS.path("default", "s"), metadata_only=True)

    assert exists(seam, kinds.SECRETS, "default", "s")
    assert not exists(seam, kinds.SECRETS, "default", "t")
    assert "data" not in seam.ask(question).document


def test_logs_come_line_by_line(seam: Cluster, cluster: FakeCluster) -> None:
    path = f"{kinds.PODS.path('default', 'chat-decode-bbb-x1')}/log"
    cluster.log_lines[f"{path}?container=engine"] = ["one", "two", "three"]

    assert list(seam.lines(Question(path, query={"container": "engine", "tailLines": "2"}))) == ["two", "three"]
    with pytest.raises(NotFoundError):
        list(seam.lines(Question(f"{kinds.PODS.path('default', 'gone')}/log")))


def test_wrong_credentials_say_to_log_in(api: str, tmp_path: Path) -> None:
    found = connected(write(tmp_path / "config", kubeconfig(api, token="wrong")))  # noqa: S106
    with pytest.raises(CredentialsError, match="does not accept these credentials"):
        items(found.cluster, kinds.PODS)


def test_a_server_that_does_not_answer_is_named(tmp_path: Path, closed_port: int) -> None:
    found = connected(write(tmp_path / "config", kubeconfig(f"http://127.0.0.1:{closed_port}")))
    with pytest.raises(UnreachableError, match=rf"the cluster at http://127.0.0.1:{closed_port} does not answer"):
        found.cluster.ask(Question("/version"))


def test_namespace_and_context_come_from_options_then_from_the_file(tmp_path: Path) -> None:
    document = kubeconfig("http://one", namespace="team")
    document["contexts"].append({"name": "second", "context": {"cluster": "c", "user": "u"}})
    file = write(tmp_path / "config", document)

    assert connected(file).namespace == "team"
    assert connected(file, Choice(namespace="mine")).namespace == "mine"
    assert connected(file, Choice(context="second")).namespace == "default"
    assert connected(file, Choice(context="second")).context == "second"


def test_several_files_are_joined_and_the_first_wins(tmp_path: Path) -> None:
    first = write(tmp_path / "a", {"contexts": [{"name": "extra", "context": {"cluster": "c", "user": "u"}}]})
    second = write(tmp_path / "b", kubeconfig("http://one"))
    third = write(tmp_path / "d", kubeconfig("http://two"))
    variable = f"{first}:{tmp_path / 'absent'}:{second}:{third}"
    found = connect(Choice(context="extra"), {"KUBECONFIG": variable})

    assert found is not None
    assert found.server == "http://one"


def test_the_usual_file_is_used_and_its_absence_means_no_cluster(tmp_path: Path) -> None:
    environment = {"HOME": str(tmp_path)}
    assert connect(Choice(), environment) is None

    (tmp_path / ".kube").mkdir()
    write(tmp_path / ".kube" / "config", kubeconfig("http://one"))
    found = connect(Choice(), environment)

    assert found is not None
    assert found.server == "http://one"


def without(document: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in document.items() if name != key}


WHOLE = kubeconfig("http://one")
WRONG: list[tuple[str, dict[str, Any], str, str]] = [
    (
        "no current context",
        without(WHOLE, "current-context"),
        "",
        "no current context; choose one with --context: main",
    ),
    ("unknown context", WHOLE, "prod", "has no context 'prod'; there are: main"),
    ("no cluster", without(WHOLE, "clusters"), "", "cannot be used: 'c' is missing"),
    (
        "no user named",
        {**WHOLE, "contexts": [{"name": "main", "context": {"cluster": "c"}}]},
        "",
        "context 'main' names no user",
    ),
    ("no user", {**WHOLE, "users": [{"name": "u"}]}, "", "cannot be used: 'user' is missing"),
]


@pytest.mark.parametrize(("document", "context", "expected"), [it[1:] for it in WRONG], ids=[it[0] for it in WRONG])
def test_a_wrong_kubeconfig_is_said_with_the_fix(
    tmp_path: Path, document: dict[str, Any], context: str, expected: str
) -> None:
    file = write(tmp_path / "config", document)
    with pytest.raises(InvalidError) as caught:
        connect(Choice(context=context, kubeconfig=file), {})

    assert expected in str(caught.value)


@pytest.mark.parametrize("text", ["{{{", "- a", "x: 1"], ids=["no yaml", "a list", "something else"])
def test_a_file_that_is_no_kubeconfig_is_said(tmp_path: Path, text: str) -> None:
    file = tmp_path / "config"
    file.write_text(text)
    with pytest.raises(InvalidError):
        connect(Choice(kubeconfig=file), {})


def test_a_kubeconfig_that_is_asked_for_must_exist(tmp_path: Path) -> None:
    with pytest.raises(InvalidError, match=r"absent: cannot be used: .*No such file"):
        connect(Choice(kubeconfig=tmp_path / "absent"), {})
    with pytest.raises(InvalidError, match="there is no kubeconfig"):
        connect(Choice(context="prod"), {"HOME": str(tmp_path)})


LOG_IN = """\
#!/bin/sh
case "$KUBERNETES_EXEC_INFO" in *v1beta1*) ;; *) exit 9;; esac
echo '{"kind": "ExecCredential", "status": {"token": "letmein"}}'
"""


def test_a_log_in_program_of_the_current_version_is_used(api: str, tmp_path: Path) -> None:
    program = tmp_path / "log-in"
    program.write_text(LOG_IN)
    program.chmod(0o700)
    document = kubeconfig(api)
    document["users"][0]["user"] = {
        "exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(program), "interactiveMode": "Never"}
    }
    found = connected(write(tmp_path / "config", document))

    assert items(found.cluster, kinds.SERVICES)


def test_a_log_in_that_fails_says_where_to_look(api: str, tmp_path: Path) -> None:
    document = kubeconfig(api)
    document["users"][0]["user"] = {"exec": {"apiVersion": "x", "command": "/bin/false"}}
    found = connected(write(tmp_path / "config", document))
    with pytest.raises(ClusterError, match=r"logging in failed: .*see the user's entry in the kubeconfig"):
        items(found.cluster, kinds.SERVICES)
