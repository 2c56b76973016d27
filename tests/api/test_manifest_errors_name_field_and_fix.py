"""Whatever is wrong in a manifest is said with its line, its field and its fix, all at once."""

import json
from pathlib import Path
from typing import Any

import pytest

from inferplane_api.v1alpha1 import InferenceService, yaml_document
from inferplane_api.v1alpha1.manifests import ManifestError, load_manifests, parse_resource
from inferplane_api.v1alpha1.problems import Problem


def service(**spec: object) -> dict[str, Any]:
    return {
        "apiVersion": "inferplane.dev/v1alpha1",
        "kind": "InferenceService",
        "metadata": {"name": "demo"},
        "spec": {"model": {"name": "m"}, "engine": {"type": "sim"}, **spec},
    }


def resource(kind: str, **spec: object) -> dict[str, Any]:
    return {"apiVersion": "inferplane.dev/v1alpha1", "kind": kind, "metadata": {"name": "demo"}, "spec": spec}


def problems(manifest: dict[str, Any]) -> tuple[Problem, ...]:
    with pytest.raises(ManifestError) as caught:
        load_manifests(json.dumps(manifest))
    return caught.value.problems


CASES: list[tuple[dict[str, Any], str, str]] = [
    (service(slo={"ttft": "0s"}), "spec.slo.ttft", "cannot be met"),
    (service(slo={"ttft": "-1s"}), "spec.slo.ttft", "is not a duration"),
    (service(slo={"tpot": "0ms"}), "spec.slo.tpot", "cannot be met"),
    (service(slo={"ttft": 2}), "spec.slo.ttft", 'such as "2s" or "2ms"'),
    (service(slo={"ttft": True}), "spec.slo.ttft", "is not a duration"),
    (service(slo={"percentile": 101}), "spec.slo.percentile", "less than 100"),
    (service(slo={"percentile": 0}), "spec.slo.percentile", "greater than 0"),
    (service(slo={"window": "0s"}), "spec.slo.window", "out of range"),
    (service(slo={"tftt": "1s"}), "spec.slo.tftt", "did you mean ttft?"),
    (service(slo={"ttft_s": "1s"}), "spec.slo.ttft_s", "unknown field; did you mean ttft?"),
    (
        service(
            slo={
                "ttftByPromptLength": [
                    {"maxPromptTokens": 10, "ttft": "1s"},
                    {"maxPromptTokens": 10, "ttft": "1s"},
                ]
            }
        ),
        "spec.slo.ttftByPromptLength[1].maxPromptTokens",
        "sort the classes",
    ),
    (
        service(slo={"priorities": [{"priority": 1, "ttft": "0s"}]}),
        "spec.slo.priorities[0].ttft",
        "cannot be met",
    ),
    (service(mode="disagregated"), "spec.mode", "did you mean disaggregated?"),
    (service(mode="disaggregated"), "spec.prefill", "needs a prefill pool"),
    (service(mode="aggregated", prefill={}), "spec.prefill", "has no prefill pool"),
    (service(engine={"type": "vllm"}), "spec.model.source", "needs weights"),
    (service(engine={"type": "vlm"}), "spec.engine.type", "did you mean vllm?"),
    (
        service(engine={"type": "vllm", "sim": {}}, model={"name": "m", "source": {"path": "/m"}}),
        "spec.engine.sim",
        "engine.type is vllm",
    ),
    (
        service(
            engine={"type": "vllm", "device": "cpu", "blockSize": 48}, model={"name": "m", "source": {"path": "/m"}}
        ),
        "spec.engine.blockSize",
        "multiple of 32",
    ),
    (service(engine={"type": "sim", "env": {"INFERPLANE_X": "1"}}), "spec.engine.env.INFERPLANE_X", "reserved"),
    (service(engine={"type": "sim", "env": {"A": 1}}), "spec.engine.env.A", "is not a string"),
    (service(engine={"type": "sim", "kvCacheMemory": "64MB"}), "spec.engine.kvCacheMemory", '"64Mi"'),
    (service(engine={"type": "sim", "kvCacheMemory": "1500m"}), "spec.engine.kvCacheMemory", "whole number"),
    (service(model={"name": "m", "source": {"path": "m"}}), "spec.model.source.path", "absolute"),
    (service(model={"name": "m", "source": {"path": "/a/../b"}}), "spec.model.source.path", "absolute"),
    (service(model={"name": "m", "source": {"hf": "a/b", "path": "/m"}}), "spec.model.source", "exactly one"),
    (service(model={"name": "m", "source": {}}), "spec.model.source", "none is given"),
    (service(model={"name": "m", "source": {"hf": "nothing"}}), "spec.model.source.hf", "right form"),
    (service(model={"name": "m", "revision": "v1"}), "spec.model.revision", "Hugging Face"),
    (service(model={"name": "m", "servedNames": ["a", "a"]}), "spec.model.servedNames", "appears twice"),
    (service(model={"name": "m", "servedNames": ["a b"]}), "spec.model.servedNames[0]", "right form"),
    (service(model={}), "spec.model.name", "is missing"),
    (service(decode={"replicas": 3, "maxReplicas": 2}), "spec.decode.replicas", "outside 1..2"),
    (service(decode={"minReplicas": 5, "maxReplicas": 2}), "spec.decode.minReplicas", "exceeds maxReplicas"),
    (service(decode={"replicas": -1}), "spec.decode.replicas", "greater than or equal to 0"),
    (service(decode={"replicas": "two"}), "spec.decode.replicas", "whole number"),
    (
        service(decode={"resources": {"requests": {"cpu": "4"}, "limits": {"cpu": "2"}}}),
        "spec.decode.resources.requests.cpu",
        "exceeds the limit",
    ),
    (service(decode={"resources": {"claims": [{"name": "gpu"}]}}), "spec.decode.resources.claims[0]", "one reference"),
    (service(decode={"podTemplate": {"containers": []}}), "spec.decode.podTemplate.containers", "metadata and spec"),
    (
        service(prefill={"engine": {"blockSize": 32}}),
        "spec.prefill.engine.blockSize",
        "blocks of 32 tokens and decode of 16",
    ),
    (
        service(prefill={"engine": {"kvCacheDtype": "fp8"}}),
        "spec.prefill.engine.kvCacheDtype",
        "fp8 and decode as auto",
    ),
    (
        service(prefill={"parallelism": {"tensor": 2}}, decode={"parallelism": {"tensor": 3}}),
        "spec.prefill.parallelism.tensor",
        "multiple of the other",
    ),
    (service(budget={"maxDevices": 1}, decode={"parallelism": {"tensor": 2}}), "spec.budget.maxDevices", "take 2"),
    (service(drainTimeout="0s"), "spec.drainTimeout", "out of range"),
    (service(routing={"queueTimeout": "0s"}), "spec.routing.queueTimeout", "longer than 0s"),
    (service(routing={"policy": "kv"}), "spec.routing.policy", "kv-aware"),
    (service(rollout={"maxSurge": 0}), "spec.rollout", "nothing may move"),
    (service(rollout={"progressDeadline": "0s"}), "spec.rollout.progressDeadline", "longer than 0s"),
    (service(replicas=3), "spec.replicas", "unknown field"),
    (service() | {"metadata": {"name": "Demo"}}, "metadata.name", "DNS"),
    (service() | {"metadata": {"name": "a" * 41}}, "metadata.name", "at most 40"),
    (service() | {"metadata": {"name": "demo", "labels": {"a b": "x"}}}, "metadata.labels.a b", "label key"),
    (service() | {"metadata": {"name": "demo", "labels": {"a": "x y"}}}, "metadata.labels.a", "label value"),
    (service() | {"metadata": {"name": "demo", "namespace": "a.b"}}, "metadata.namespace", "DNS label"),
    (service() | {"metadata": {"nam": "demo"}}, "metadata.nam", "did you mean name?"),
    (service() | {"kind": "InferenceSevice"}, "kind", "did you mean InferenceService?"),
    (service() | {"kind": "Pod"}, "kind", "known kinds: InferenceService, PrefillPool"),
    (service() | {"apiVersion": "v1"}, "apiVersion", "use inferplane.dev/v1alpha1"),
    (resource("KVStore", tiers=[]), "spec.tiers", "too short"),
    (resource("KVStore", tiers=[{"name": "m", "medium": "dram"}]), "spec.tiers[0].capacity", "needs a size"),
    (resource("KVStore", tiers=[{"name": "r", "medium": "redis"}]), "spec.tiers[0].address", "redis:6379"),
    (
        resource("KVStore", tiers=[{"name": "r", "medium": "redis", "address": "not an address"}]),
        "spec.tiers[0].address",
        "give host:port or a URL",
    ),
    (
        resource(
            "KVStore",
            tiers=[
                {"name": "r", "medium": "redis", "address": "r:6379"},
                {"name": "m", "medium": "dram", "capacity": "1Gi"},
            ],
        ),
        "spec.tiers[1].medium",
        "sort fastest first",
    ),
    (resource("LoRAAdapter", service="s", source={"path": "/a"}, rank=15), "spec.rank", "use one of 1, 8, 16"),
    (resource("ModelRoute", targets=[{"servedName": "a", "weight": 0}]), "spec.targets", "all weights are 0"),
    (
        resource("ModelRoute", aliases=["b", "b"], targets=[{"servedName": "a"}]),
        "spec.aliases[1]",
        "appears twice",
    ),
    (
        resource("LoRAAdapter", service="s", source={"path": "/"}),
        "spec.source.path",
        "name a directory",
    ),
    (
        resource("ModelRoute", aliases=["a"], targets=[{"servedName": "a"}]),
        "spec.aliases",
        "cannot stand for itself",
    ),
    (resource("ModelRoute", targets=[{"servedName": "demo"}]), "metadata.name", "also a target"),
    (
        resource("ModelRoute", targets=[{"servedName": "a"}], canary={"servedName": "b", "percent": 101}),
        "spec.canary.percent",
        "less than or equal to 100",
    ),
    (resource("DecodePool", service="s", revision="r1", podTemplate={}), "spec.podTemplate.metadata", "missing"),
]


@pytest.mark.parametrize(
    ("manifest", "path", "says"), CASES, ids=[f"{number}-{path}" for number, (_, path, _) in enumerate(CASES)]
)
def test_the_error_names_field_and_fix(manifest: dict[str, Any], path: str, says: str) -> None:
    found = problems(manifest)

    assert path in [problem.path for problem in found]
    problem = next(problem for problem in found if problem.path == path)
    assert says in str(problem)
    assert problem.line is not None
    assert problem.fix


def test_all_problems_of_a_file_are_said_at_once() -> None:
    text = """\
apiVersion: inferplane.dev/v1alpha1
kind: InferenceService
metadata: {name: demo}
spec:
  model: {name: m}
  engine: {type: sim}
  slo:
    ttft: 0s
    tpot: 0s
  decode:
    replica: 2
---
kind: Nothing
"""
    with pytest.raises(ManifestError) as caught:
        load_manifests(text)

    assert [(problem.line, problem.path) for problem in caught.value.problems] == [
        (8, "spec.slo.ttft"),
        (9, "spec.slo.tpot"),
        (11, "spec.decode.replica"),
        (13, "apiVersion"),
        (13, "kind"),
    ]


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("a: 1\nb:\n  c: 1\n  c: 2\n", 4, "given twice, first on line 3"),
        ("a: [1, 2\n", 2, "not valid YAML"),
        ("a: b: c\n", 1, "not valid YAML"),
        ("a: !!python/object:os.system {}\n", 1, "without tags"),
        ("1: a\n", 1, "is not a string"),
        ("? [a]\n: b\n", 1, "is not a string"),
        ("x: 2020-13-45\nkind: 3\n", 2, "not a known kind"),
        ("- a\n", 1, "is not a mapping"),
        ("\x00", 1, "not valid YAML"),
        ("", 1, "holds no resource"),
        ("---\n---\n", 1, "holds no resource"),
        ("a: " + "[" * 100 + "]" * 100, 1, "nested too deeply"),
        ("a: " + "[" * 3000 + "]" * 3000, 1, "nested too deeply"),
    ],
    ids=[
        "duplicate",
        "open",
        "colon",
        "tag",
        "number-key",
        "list-key",
        "date",
        "list",
        "nul",
        "empty",
        "blank",
        "deep",
        "deeper",
    ],
)
def test_what_yaml_would_swallow_or_die_of_is_an_error_with_a_line(text: str, line: int, says: str) -> None:
    with pytest.raises(ManifestError) as caught:
        load_manifests(text)

    matching = [problem for problem in caught.value.problems if says in str(problem)]
    assert [line] == [problem.line for problem in matching]


def test_aliases_cannot_multiply_without_bound() -> None:
    bomb = "a: &a [x, x, x, x, x, x, x, x, x, x]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True):
        bomb += f"{name}: &{name} [" + ", ".join([f"*{before}"] * 10) + "]\n"

    with pytest.raises(ManifestError, match="too large"):
        load_manifests(bomb)


def test_an_alias_that_holds_itself_is_an_error() -> None:
    with pytest.raises(ManifestError, match="nested too deeply"):
        load_manifests("a: &a [*a]\n")


def test_a_file_that_takes_long_to_read_is_refused_before_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml_document, "_MAX_NODES", 50)

    with pytest.raises(ManifestError, match=r"line 25: document: the file is too large; keep it under 50 keys"):
        load_manifests("\n".join(f"k{number}: v" for number in range(1000)))


@pytest.mark.parametrize("written", [".inf", "-.inf", ".nan", "-1"])
def test_a_number_that_no_unit_makes_a_duration_is_not_offered_one(written: str) -> None:
    text = json.dumps(service(slo={"ttft": "TTFT"})).replace('"TTFT"', written)

    with pytest.raises(ManifestError, match=r'is not a duration; write a string such as "1500ms"'):
        load_manifests(text)


def test_the_same_object_twice_is_an_error() -> None:
    one = json.dumps(service())

    with pytest.raises(ManifestError, match="given twice"):
        load_manifests(f"{one}\n---\n{one}")


def test_a_path_may_be_relative_to_the_file() -> None:
    manifest = service(model={"name": "m", "source": {"path": "../models/m"}})

    (loaded,) = load_manifests(json.dumps(manifest), relative_to=Path("/srv/examples"))

    assert isinstance(loaded, InferenceService)
    assert loaded.spec.model.source is not None
    assert loaded.spec.model.source.path == "/srv/models/m"


def test_what_an_api_server_adds_is_understood() -> None:
    manifest = service()
    manifest["metadata"] |= {
        "generation": 3,
        "uid": "0d5c",
        "resourceVersion": "17",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "managedFields": [{"manager": "kubectl", "operation": "Apply", "fieldsV1": {"f:spec": {}}}],
        "ownerReferences": [{"apiVersion": "v1", "kind": "X", "name": "x", "uid": "u", "controller": True}],
    }
    manifest["status"] = {
        "observedGeneration": 2,
        "conditions": [
            {
                "type": "KVRoutingHealthy",
                "status": "False",
                "reason": "TokenizerMismatch",
                "message": "predicted 40, engine says 0",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
                "observedGeneration": 2,
            }
        ],
    }

    loaded = parse_resource(manifest)

    assert isinstance(loaded, InferenceService)
    assert loaded.metadata.generation == 3
    assert loaded.status is not None
    assert loaded.status.conditions[0].reason == "TokenizerMismatch"
