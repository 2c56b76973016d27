"""`render`: objects that any cluster takes, pools as the operator keeps them, and what runs on this machine.

Regenerate: INFERPLANE_REGENERATE_GOLDEN=1 .venv/bin/python -m pytest tests/cli -k golden
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from inferplane.testing import Call
from inferplane_operator.render.names import LABEL_REVISION

GOLDEN = Path(__file__).parent / "golden"
EXAMPLES = Path(__file__).parents[2] / "examples"


def documents(text: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(text))


@pytest.mark.parametrize(
    ("name", "args"),
    [("sim", ()), ("sim-pools", ("--pools", "-n", "team")), ("aggregated", ("-n", "team"))],
    ids=["plain", "pools", "in a namespace"],
)
def test_rendered_objects_match_the_golden_files(call: Call, name: str, args: tuple[str, ...]) -> None:
    result = call("render", "-f", str(EXAMPLES / f"{name.removesuffix('-pools')}.yaml"), *args)
    golden = GOLDEN / f"render-{name}.yaml"
    if os.environ.get("INFERPLANE_REGENERATE_GOLDEN"):
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(result.stdout)

    assert result.exit_code == 0, result.output
    assert documents(result.stdout) == documents(golden.read_text())


def test_plain_objects_need_nothing_of_ours(call: Call) -> None:
    found = documents(call("render", "-f", str(EXAMPLES / "sim.yaml")).stdout)

    assert [it["kind"] for it in found] == ["Service", "PodDisruptionBudget", "Deployment"] * 2
    assert not [it for it in found if "inferplane.dev" in it["apiVersion"]]
    assert not [it for it in found if "ownerReferences" in it["metadata"] or "namespace" in it["metadata"]]
    for deployment in (it for it in found if it["kind"] == "Deployment"):
        labels = deployment["spec"]["template"]["metadata"]["labels"]
        assert deployment["spec"]["selector"]["matchLabels"].items() <= labels.items()


def test_pools_are_of_the_same_revision_as_plain_objects(call: Call) -> None:
    for example in ("sim.yaml", "llama-8b-h100.yaml"):
        file = str(EXAMPLES / example)
        plain, pools = (
            documents(call("render", "-f", file).stdout),
            documents(call("render", "-f", file, "--pools").stdout),
        )
        revisions = {it["metadata"]["labels"][LABEL_REVISION] for it in plain if it["kind"] == "Deployment"}

        assert {it["spec"]["revision"] for it in pools} == revisions
        assert len(revisions) == 1


def test_the_models_commit_may_be_given(call: Call) -> None:
    file = str(EXAMPLES / "llama-8b-h100.yaml")
    texts = {
        call("render", "-f", file, *args).stdout
        for args in ([], ["--model-revision", "main"], ["--model-revision", "c0ffee"])
    }

    assert len(texts) == 2
    assert any("c0ffee" in text for text in texts)


def test_a_list_comes_as_json(call: Call) -> None:
    file = str(EXAMPLES / "sim.yaml")
    found = json.loads(call("render", "-f", file, "-o", "json", "--agent-image", "mine:1").stdout)

    assert (found["apiVersion"], found["kind"]) == ("v1", "List")
    assert found["items"] == documents(call("render", "-f", file, "--agent-image", "mine:1").stdout)
    assert "mine:1" in json.dumps(found)


def test_what_runs_on_this_machine_is_shown_apart(call: Call) -> None:
    file = str(EXAMPLES / "sim.yaml")
    found = yaml.safe_load(call("render", "-f", file, "--local").stdout)
    both = call("render", "-f", file, "--local", "--pools")

    assert [pool["name"] for pool in found["pools"]] == ["sim-prefill", "sim-decode"]
    assert both.exit_code == 2
    assert "leave one out" in both.stderr


def test_a_file_that_cannot_be_rendered_names_field_and_fix(call: Call, tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(
        "apiVersion: inferplane.dev/v1alpha1\nkind: InferenceService\nmetadata: {name: s}\n"
        "spec: {model: {name: m}, engine: {type: sim}, decode: {podTemplate: {spec: {containers: 1}}}}\n"
    )
    result = call("render", "-f", str(path))

    assert result.exit_code == 2
    assert "spec.decode.podTemplate.spec.containers" in result.stderr
