"""What is known of a model and of a class decides before a download; what is not known decides nothing."""

from typing import Any

import pytest

from inferplane_api.v1alpha1 import InferenceService
from inferplane_api.v1alpha1.manifests import parse_resource
from inferplane_engine.memory import ModelFacts, facts_of
from inferplane_operator.render import RenderError
from inferplane_operator.render.accelerators import Accelerators
from inferplane_operator.render.fitting import check_memory

LLAMA_70B = {
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "hidden_size": 8192,
    "max_position_embeddings": 131_072,
}
FACTS = facts_of(LLAMA_70B, {"BF16": 70_553_706_496})


def service(decode: dict[str, Any], **engine: Any) -> InferenceService:
    parsed = parse_resource(
        {
            "apiVersion": "inferplane.dev/v1alpha1",
            "kind": "InferenceService",
            "metadata": {"name": "demo"},
            "spec": {
                "model": {"name": "m", "source": {"hf": "org/m"}},
                "engine": {"type": "vllm", **engine},
                "decode": decode,
            },
        }
    )
    assert isinstance(parsed, InferenceService)
    return parsed


def test_a_model_that_is_too_large_names_field_and_fix() -> None:
    with pytest.raises(RenderError) as caught:
        check_memory(service({"accelerator": "h100"}), FACTS, Accelerators())

    assert caught.value.path == "spec.decode.parallelism"
    assert "131.4 GiB of weights" in caught.value.message
    assert "use tensor: 4, or a class with at least" in caught.value.fix


@pytest.mark.parametrize(
    ("decode", "engine"),
    [
        ({"accelerator": "h100", "parallelism": {"tensor": 4}}, {}),
        ({"accelerator": "h200", "parallelism": {"tensor": 2}}, {}),
        ({"accelerator": "h100", "parallelism": {"tensor": 2, "pipeline": 2}}, {}),
        (
            {"accelerator": "h100", "parallelism": {"tensor": 2}},
            {"maxModelLen": 8192, "args": ["--gpu-memory-utilization=0.99"]},
        ),
        ({"accelerator": "h100"}, {"args": ["--quantization", "fp8"]}),
        ({"accelerator": "cpu"}, {"device": "cpu"}),
        ({}, {}),
        ({"accelerator": "unheard-of"}, {}),
        ({"accelerator": "h100"}, {"type": "sim"}),
    ],
    ids=["tensor", "memory", "pipeline", "length", "quantised", "cpu", "no-class", "unknown-class", "sim"],
)
def test_what_fits_or_is_not_known_is_let_through(decode: dict[str, Any], engine: dict[str, Any]) -> None:
    check_memory(service(decode, **engine), FACTS, Accelerators())


def test_a_model_that_says_nothing_is_let_through() -> None:
    check_memory(service({"accelerator": "l4"}), None, Accelerators())


def test_a_long_request_alone_can_be_too_much() -> None:
    small = facts_of({**LLAMA_70B, "num_hidden_layers": 32, "hidden_size": 4096}, {"BF16": 8_030_261_248})

    with pytest.raises(RenderError) as caught:
        check_memory(service({"accelerator": "l4"}, maxModelLen=131_072), small, Accelerators())
    assert "a smaller spec.engine.maxModelLen" in caught.value.fix
    check_memory(service({"accelerator": "l4"}, maxModelLen=8192), small, Accelerators())


@pytest.mark.parametrize(
    ("config", "parameters", "facts"),
    [
        (LLAMA_70B, {"BF16": 10, "F8_E4M3": 4}, ModelFacts(24, 80, 2048, 8, 131_072)),
        ({"text_config": LLAMA_70B}, {"F32": 1}, ModelFacts(4, 80, 2048, 8, 131_072)),
        ({**LLAMA_70B, "head_dim": 64}, {"F16": 1}, ModelFacts(2, 80, 1024, 8, 131_072)),
        ({**LLAMA_70B, "kv_lora_rank": 512, "qk_rope_head_dim": 64}, {"F16": 1}, ModelFacts(2, 80, 576, 1, 131_072)),
        ({**LLAMA_70B, "layer_types": ["full_attention", "sliding_attention"]}, {"F16": 1}, None),
        ({**LLAMA_70B, "sliding_window": 4096}, {"F16": 1}, None),
        ({**LLAMA_70B, "mamba_d_state": 16}, {"F16": 1}, None),
        (LLAMA_70B, {"STRANGE": 1}, None),
        (LLAMA_70B, None, None),
        ({"num_hidden_layers": "80"}, {"F16": 1}, None),
        ({}, {}, None),
    ],
    ids=["types", "text", "width", "latent", "layers", "window", "states", "type", "none", "text-number", "empty"],
)
def test_facts_are_read_or_left_alone(config: dict[str, Any], parameters: object, facts: ModelFacts | None) -> None:
    assert facts == facts_of(config, parameters)
