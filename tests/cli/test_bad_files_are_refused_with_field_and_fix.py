"""`up` and `render` on files that cannot work: exit 2, the field, the fix, and nothing started."""

import socket
import sys
from pathlib import Path

import pytest

from inferplane.context import Context
from inferplane.testing import Call

SIM = """\
apiVersion: inferplane.dev/v1alpha1
kind: InferenceService
metadata: {name: demo}
spec:
  model: {name: m}
  engine: {type: sim}
"""
ADAPTER = """\
apiVersion: inferplane.dev/v1alpha1
kind: LoRAAdapter
metadata: {{name: a}}
spec: {{service: demo, source: {{path: {path}}}}}
"""
VLLM = """\
apiVersion: inferplane.dev/v1alpha1
kind: InferenceService
metadata: {name: demo}
spec:
  model: {name: m, source: {path: WEIGHTS}}
"""


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    folder = tmp_path / "weights"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    return folder


def write(tmp_path: Path, text: str) -> str:
    file = tmp_path / "service.yaml"
    file.write_text(text)
    return str(file)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: [", "line 1"),
        ("", "the file holds no resource"),
        (SIM.replace("model: {name: m}", "model: {name: m}\n  replica: 3"), "spec.replica: unknown field"),
        (SIM + "  slo: {ttft: -1s}\n", "spec.slo.ttft"),
        (SIM + "  decode: {replicas: 3, maxReplicas: 2}\n", "spec.decode.replicas: 3 is outside 1..2"),
        (SIM + "---\n" + SIM.replace("demo", "other"), "holds 2 InferenceServices"),
        (
            SIM + "---\napiVersion: inferplane.dev/v1alpha1\nkind: DecodePool\nmetadata: {name: pool}\n"
            "spec: {service: demo, revision: r1, podTemplate: {metadata: {}, spec: {containers: [{name: engine}]}}}\n",
            "kind: DecodePool cannot be run locally",
        ),
    ],
    ids=["no yaml", "empty", "unknown field", "impossible slo", "impossible replicas", "two services", "other kind"],
)
def test_an_invalid_file_is_explained(call: Call, tmp_path: Path, text: str, expected: str) -> None:
    result = call("up", "-f", write(tmp_path, text))

    assert result.exit_code == 2
    assert expected in result.stderr
    assert not (tmp_path / "state").exists()


def test_a_file_that_is_not_there_or_not_text_is_named(call: Call, tmp_path: Path) -> None:
    result = call("up", "-f", "/no/such/file.yaml")
    assert result.exit_code == 2
    assert "/no/such/file.yaml: cannot be read: No such file or directory" in result.stderr

    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    result = call("up", "-f", str(tmp_path / "binary"))

    assert result.exit_code == 2
    assert "is not UTF-8 text (byte 0)" in result.stderr


def test_standard_input_is_read_and_named_as_such(call: Call) -> None:
    result = call("up", "-f", "-", stdin="a: [")

    assert result.exit_code == 2
    assert "standard input is not valid" in result.stderr


def test_missing_weights_are_named_with_their_path(call: Call, tmp_path: Path) -> None:
    result = call(
        "up", "-f", write(tmp_path, VLLM.replace("WEIGHTS", "/no/weights")), "--engine-python", sys.executable
    )

    assert result.exit_code == 2
    assert "spec.model.source.path: /no/weights is not a folder on this machine; put the weights there" in result.stderr


def test_a_folder_that_holds_no_model_is_named(call: Call, tmp_path: Path) -> None:
    result = call("up", "-f", write(tmp_path, VLLM.replace("WEIGHTS", str(tmp_path))))

    assert result.exit_code == 2
    assert "holds no config.json" in result.stderr


def test_a_missing_adapter_is_named_with_its_path(call: Call, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    for path, expected in (("/no/adapter", "is not a folder on this machine"), (empty, "holds no adapter_config.json")):
        result = call("up", "-f", write(tmp_path, f"{SIM}---\n{ADAPTER.format(path=path)}"))

        assert result.exit_code == 2
        assert f"LoRAAdapter a: spec.source.path: {path} {expected}" in result.stderr


def test_a_missing_engine_says_how_to_name_one(call: Call, tmp_path: Path, weights: Path) -> None:
    file = write(tmp_path, VLLM.replace("WEIGHTS", str(weights)))
    for args, expected in (
        ((), "vllm needs an interpreter that has vLLM"),
        (("--engine-python", "/no/python"), "/no/python cannot be started (No such file or directory)"),
        (("--engine-python", sys.executable), "has no vLLM"),
    ):
        result = call("up", "-f", file, *args)

        assert result.exit_code == 2
        assert expected in result.stderr
        assert "INFERPLANE_ENGINE_PYTHON" in result.stderr


def test_sources_that_only_a_cluster_has_are_refused(call: Call, tmp_path: Path) -> None:
    text = VLLM.replace("{path: WEIGHTS}", "{pvc: {claimName: w}}")
    result = call("up", "-f", write(tmp_path, text))

    assert result.exit_code == 2
    assert "spec.model.source.pvc: exists in a cluster only; use spec.model.source.path or hf" in result.stderr


def test_a_port_in_use_names_its_owner_and_the_option(call: Call, tmp_path: Path, context: Context) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        result = call("up", "-f", write(tmp_path, SIM), "--port", str(port))

    assert result.exit_code == 1
    assert f"port {port} is in use" in result.stderr
    assert "choose another with --port" in result.stderr
    if sys.platform == "linux":
        assert "(pid " in result.stderr
    assert not (context.state_root / "demo" / "desired.yaml").exists()


def test_gpus_that_are_not_a_list_are_refused(call: Call, tmp_path: Path) -> None:
    result = call("up", "-f", write(tmp_path, SIM), "--gpus", "0,,1")

    assert result.exit_code == 2
    assert "expected auto, none, or distinct device ids" in result.stderr


def test_render_prints_pools_and_starts_nothing(call: Call, tmp_path: Path) -> None:
    result = call("render", "-f", write(tmp_path, SIM))

    assert result.exit_code == 0
    assert "name: demo-decode" in result.stdout
    assert "kind: Deployment" in result.stdout
    assert not (tmp_path / "state").exists()
