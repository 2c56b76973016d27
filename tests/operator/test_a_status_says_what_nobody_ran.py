"""From a service to what of it was never run."""

from typing import Any

import pytest

from inferplane_api.v1alpha1 import InferenceService
from inferplane_api.v1alpha1.manifests import parse_resource
from inferplane_operator.render.accelerators import Accelerators
from inferplane_operator.render.unrun import unrun


def said(spec: dict[str, Any], *, adapters: bool = False) -> list[str]:
    parsed = parse_resource(
        {
            "apiVersion": "inferplane.dev/v1alpha1",
            "kind": "InferenceService",
            "metadata": {"name": "demo"},
            "spec": {"model": {"name": "m", "source": {"path": "/m"}}, **spec},
        }
    )
    assert isinstance(parsed, InferenceService)
    return [what.what for what in unrun(parsed, Accelerators(), adapters=adapters)]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"engine": {"type": "vllm", "device": "cpu"}, "prefill": {}}, []),
        ({"engine": {"type": "sim"}, "decode": {"parallelism": {"tensor": 8}}}, []),
        ({"engine": {"type": "vllm"}, "prefill": {}}, ["CUDA devices", "KV transfer between devices"]),
        (
            {"engine": {"device": "cpu", "kvCacheDtype": "fp8", "speculation": {"method": "ngram"}}},
            ["quantised KV blocks", "speculative decoding"],
        ),
        ({"engine": {"device": "cpu", "args": ["--speculative-config={}"]}}, ["speculative decoding"]),
        (
            {"decode": {"accelerator": "h100", "parallelism": {"tensor": 16, "expert": True}}},
            ["CUDA devices", "tensor or pipeline parallelism", "a worker on several nodes", "expert parallelism"],
        ),
        ({"decode": {"accelerator": "h100-1g.10gb"}}, ["CUDA devices", "slices of a device"]),
        (
            {"decode": {"resources": {"limits": {"nvidia.com/mig-1g.5gb": 1}}}},
            ["CUDA devices", "slices of a device"],
        ),
        (
            {"engine": {"device": "npu"}, "decode": {"resources": {"claims": [{"name": "g", "deviceClassName": "c"}]}}},
            ["Ascend devices", "devices by resource claims"],
        ),
        ({"decode": {"accelerator": "unheard-of"}}, ["CUDA devices"]),
    ],
    ids=["cpu", "sim", "pair", "kv", "arguments", "nodes", "class", "slice", "claim", "unknown"],
)
def test_what_is_used_and_was_never_run_is_said(spec: dict[str, Any], expected: list[str]) -> None:
    assert said(spec) == expected


def test_adapters_are_said_where_nobody_ran_them() -> None:
    assert said({"engine": {"device": "cpu"}}, adapters=True) == []
    assert said({"engine": {"device": "cuda"}}, adapters=True) == ["CUDA devices", "LoRA adapters"]
    assert said({"engine": {"type": "sglang", "device": "cpu"}}, adapters=True) == ["SGLang", "LoRA adapters"]
