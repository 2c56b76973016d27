"""`logs` and `dump` in a cluster: whose logs are meant, several at once, and an archive without secrets."""

import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from inferplane.cluster import Connection, ForbiddenError
from inferplane.kube.pod_logs import Source, find_sources, follow_all
from inferplane.kube.testing import FakeCluster
from inferplane.kube.testing_objects import make_pod, make_service
from inferplane.redaction import REDACTED, redacted
from inferplane.testing import Call
from inferplane_operator.local.desired import Desired, change_desired
from inferplane_operator.local.statedir import StateDir

PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture
def busy(cluster: FakeCluster) -> FakeCluster:
    """Pods of a pool, of another service, of the router and of somebody else, with logs."""
    other, router, stranger = make_pod("other-decode-ccc-y1"), make_pod("router-1"), make_pod("stranger")
    other["metadata"]["labels"] = {"inferplane.dev/service": "other"}
    router["metadata"]["labels"] = {"inferplane.dev/component": "gateway"}
    router["spec"] = {"containers": [{"name": "router"}]}
    stranger["metadata"]["labels"] = {}
    cluster.remove("pods", "foreign")
    cluster.add("pods", make_pod("chat-prefill-bbb-z1"), other, router, stranger)
    for pod, container, lines in (
        ("chat-decode-bbb-x1", "agent", ["a1", "a2"]),
        ("chat-decode-bbb-x1", "engine", ["e1"]),
        ("chat-prefill-bbb-z1", "engine", ["p1"]),
        ("router-1", "router", ["r1", "r2", "r3"]),
    ):
        cluster.log_lines[f"{PODS}/{pod}/log?container={container}"] = lines
    return cluster


@pytest.mark.parametrize(
    ("called", "service", "expected"),
    [
        ("chat-decode-bbb-x1", "", ["chat-decode-bbb-x1"]),
        ("chat/decode", "", ["chat-decode-bbb-x1"]),
        ("chat", "", ["chat-decode-bbb-x1", "chat-prefill-bbb-z1"]),
        ("prefill", "chat", ["chat-prefill-bbb-z1"]),
        ("", "other", ["other-decode-ccc-y1"]),
        ("", "", ["chat-decode-bbb-x1", "chat-prefill-bbb-z1", "other-decode-ccc-y1"]),
        ("router", "", ["router-1"]),
    ],
)
def test_logs_are_found_by_what_somebody_calls_them(
    busy: FakeCluster, called: str, service: str, expected: list[str]
) -> None:
    found = find_sources(Connection(busy), called, service, "")

    assert sorted({source.pod for source in found}) == expected


def test_logs_of_a_pod_are_those_of_agent_and_engine(call_cluster: Call, busy: FakeCluster) -> None:
    del busy

    assert call_cluster("logs", "chat/decode").stdout.splitlines() == [
        "[chat-decode-bbb-x1/agent] a1",
        "[chat-decode-bbb-x1/agent] a2",
        "[chat-decode-bbb-x1/engine] e1",
    ]
    assert call_cluster("logs", "chat/decode", "-c", "agent", "--tail", "1").stdout == "a2\n"
    assert call_cluster("logs", "router").stdout == "r1\nr2\nr3\n"


def test_several_logs_are_followed_until_the_last_ends(call_cluster: Call, busy: FakeCluster) -> None:
    del busy
    lines = call_cluster("logs", "chat", "-f").stdout.splitlines()

    assert sorted(lines) == [
        "[chat-decode-bbb-x1/agent] a1",
        "[chat-decode-bbb-x1/agent] a2",
        "[chat-decode-bbb-x1/engine] e1",
        "[chat-prefill-bbb-z1/engine] p1",
    ]


def test_what_goes_wrong_while_following_is_not_lost(busy: FakeCluster) -> None:
    busy.forbidden.add(("get", "pods/log"))
    sources = [Source("default", "chat-decode-bbb-x1", "engine"), Source("default", "router-1", "router")]
    with pytest.raises(ForbiddenError, match="pods/log is forbidden"):
        list(follow_all(busy, sources, tail=None))


def test_an_unknown_pod_lists_the_known_ones(call_cluster: Call, busy: FakeCluster) -> None:
    del busy
    result = call_cluster("logs", "nobody")

    assert result.exit_code == 2
    assert "has no Pod for 'nobody'; there are: chat-decode-bbb-x1, chat-prefill-bbb-z1, other" in result.stderr
    assert "stranger" not in result.stderr


def unpacked(path: Path) -> dict[str, str]:
    with tarfile.open(path) as tar:
        files = {name: tar.extractfile(name) for name in tar.getnames()}
        return {name.partition("/")[2]: file.read().decode() for name, file in files.items() if file}


def test_an_archive_tells_everything_but_secrets(call_cluster: Call, busy: FakeCluster, tmp_path: Path) -> None:
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "s", "namespace": "default"},
        "data": {"k": "v"},
    }
    busy.add("secrets", secret)
    applied = {"kubectl.kubernetes.io/last-applied-configuration": '{"spec": "hush"}'}
    busy.held("inferenceservices", "chat")["metadata"]["annotations"] = applied
    result = call_cluster("dump", "chat", "--to", str(tmp_path / "case.tar.gz"))
    files = unpacked(tmp_path / "case.tar.gz")

    assert result.exit_code == 0
    assert {
        "README",
        "conditions.json",
        "events.json",
        "objects/inferenceservice-chat.yaml",
        "objects/pod-chat-decode-bbb-x1.yaml",
        "objects/controllerrevision-chat-aaa.yaml",
        "logs/chat-decode-bbb-x1.engine.log",
        "logs/chat-decode-bbb-x1.engine.previous.log",
    } <= files.keys()
    assert "hush" not in "".join(files.values())
    assert not [name for name in files if "secret" in name or "other" in name]
    assert files["logs/chat-decode-bbb-x1.engine.log"] == "e1\n"
    assert yaml.safe_load(files["objects/inferenceservice-chat.yaml"])["spec"]["engine"]["env"] == {"TOKEN": REDACTED}
    assert "look into logs/ before you give this to somebody" in files["README"]


def test_an_archive_names_what_could_not_be_read(call_cluster: Call, busy: FakeCluster, tmp_path: Path) -> None:
    busy.forbidden |= {("list", "events"), ("get", "pods/log"), ("list", "nodes")}
    result = call_cluster("dump", "chat")
    files = unpacked(tmp_path / "chat-20270115-080000.tar.gz")

    assert result.exit_code == 0
    assert "Not readable with these rights: events." in files["README"]
    assert "pods/log is forbidden" in files["logs/chat-decode-bbb-x1.engine.log"]


def test_an_archive_that_cannot_be_written_is_said(call_cluster: Call, tmp_path: Path) -> None:
    result = call_cluster("dump", "chat", "--to", str(tmp_path / "no" / "case.tar.gz"))

    assert result.exit_code == 1
    assert "cannot be written: No such file or directory; choose another file with --to" in result.stderr


def test_a_local_instance_is_packed_without_secrets(call: Call, demo: StateDir, tmp_path: Path) -> None:
    engine = {"env": {"TOKEN": "hush"}, "args": ["--api-key", "hush"]}
    change_desired(demo, lambda _: Desired(manifests=[{"kind": "InferenceService", "spec": {"engine": engine}}]))
    demo.log("decode-0-agent").write_text("a1\na2\n")
    demo.catalogue.write_text("{damaged hush")
    demo.records.mkdir()
    (demo.records / "decisions-1-0001.jsonl").write_text('{"requestId": "r1", "tenant": "hush"}\n')
    result = call("dump", "--to", str(tmp_path / "case.tar.gz"))
    files = unpacked(tmp_path / "case.tar.gz")

    assert result.exit_code == 0, result.output
    assert files.keys() == {
        "README",
        "desired.yaml",
        "status.json",
        "catalogue.json",
        "logs/decode-0-agent.log",
        "records/decisions-1-0001.jsonl",
    }
    assert '"requestId":"r1"' in files["records/decisions-1-0001.jsonl"]
    assert "hush" not in "".join(files.values())
    assert files["logs/decode-0-agent.log"] == "a1\na2\n"
    assert yaml.safe_load(files["desired.yaml"])["manifests"][0]["spec"]["engine"]["env"] == {"TOKEN": REDACTED}


@pytest.mark.parametrize(
    ("given_args", "expected"),
    [
        (["--api-key", "hush"], ["--api-key", REDACTED]),
        (["--api-key=hush"], [f"--api-key={REDACTED}"]),
        (["--api-key", "hush", "more"], ["--api-key", REDACTED, "more"]),
        (["--hf-token", "--seed", "2"], ["--hf-token", "--seed", "2"]),
        (["--max-num-batched-tokens", "64"], ["--max-num-batched-tokens", "64"]),
        (["--tokenizer", "m"], ["--tokenizer", "m"]),
        (["--url=http://me:hush@host/"], [f"--url=http://{REDACTED}@host/"]),
    ],
)
def test_arguments_that_hold_secrets_are_hidden(given_args: list[str], expected: list[str]) -> None:
    assert redacted({"spec": {"args": given_args}})["spec"]["args"] == expected


SECRETS = st.text("abcdef0123456789", min_size=24, max_size=32)


@given(secret=SECRETS, depth=st.integers(0, 4), as_list=st.booleans())
def test_no_value_of_an_environment_survives(secret: str, depth: int, as_list: bool) -> None:  # noqa: FBT001  hypothesis gives it
    inner: dict[str, Any] = {"env": [{"name": "X", "value": secret}] if as_list else {"X": secret}}
    for level in range(depth):
        inner = {"spec": [inner]} if level % 2 else {"template": inner}

    assert secret not in str(redacted({"metadata": {}, **inner}))


def test_what_is_known_to_hold_no_secret_stays() -> None:
    env = [
        {"name": "INFERPLANE_HTTP_PORT", "value": "8100"},
        {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hub", "key": "token"}}},
    ]

    assert redacted({"spec": {"env": env}})["spec"]["env"] == env
    assert redacted(make_service())["status"] == make_service()["status"]
