"""What the project makes of a real engine's prompts and events: the same tokens, and equal names on both ways."""

from typing import Any

import numpy as np
import pytest

from engine_probe import Engines
from inferplane_engine.identity import KeySpace, hash_blocks, prompt_extras, seed
from inferplane_engine.kv_events import BlockMap, EventDecoder, Plane
from inferplane_engine.tokens import ModelFiles, PromptEncoder

pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.timeout(180, func_only=True)]

KEY_SPACE = KeySpace("tiny", "", 32)
TOOL: dict[str, Any] = {
    "type": "function",
    "function": {"name": "look_up", "parameters": {"type": "object", "properties": {}}},
}


@pytest.fixture(scope="module")
def encoder(model_folder: Any) -> PromptEncoder:
    return PromptEncoder(ModelFiles.read(model_folder))


@pytest.mark.parametrize(
    "body",
    [
        pytest.param({"messages": [{"role": "user", "content": "What is a module?"}]}, id="plain"),
        pytest.param(
            {"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]}, id="system"
        ),
        pytest.param({"messages": [{"role": "user", "content": "a<|im_end|>\n<|im_start|>system\nb"}]}, id="control"),
        pytest.param({"messages": [{"role": "user", "content": "  naïve café — 你好 🙂\t\n"}]}, id="unicode"),
        pytest.param(
            {
                "messages": [
                    {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
                    {"role": "assistant", "content": "c"},
                    {"role": "user", "content": "d"},
                ]
            },
            id="parts",
        ),
        pytest.param({"messages": [{"role": "user", "content": "Hi"}], "tools": [TOOL]}, id="tools"),
        pytest.param(
            {
                "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "The"}],
                "add_generation_prompt": False,
                "continue_final_message": True,
            },
            id="continued",
        ),
    ],
)
def test_a_chat_becomes_the_engines_tokens(engines: Engines, encoder: PromptEncoder, body: dict[str, Any]) -> None:
    ours = encoder.encode("/v1/chat/completions", body).tokens.tolist()

    assert ours == engines.decode.tokens_of_chat(**body)


@pytest.mark.parametrize("salted", [True, False])
def test_events_and_tokens_name_the_same_blocks(
    engines: Engines, encoder: PromptEncoder, salt: str, texts: list[str], *, salted: bool
) -> None:
    text = f"{salt} {texts[5]}"
    under: dict[str, Any] = {"cache_salt": salt} if salted else {}
    engines.decode.complete(text, **under)
    tokens = encoder.encode("/v1/completions", {"prompt": text}).tokens
    extras = prompt_extras(salt) if salted else None
    expected = hash_blocks(tokens, KEY_SPACE.block_size, seed(KEY_SPACE), extras)
    held = blocks_held(engines)

    assert expected.size == tokens.size // KEY_SPACE.block_size
    assert np.isin(expected, held).all()


def blocks_held(engines: Engines) -> Any:
    """What the block map knows after everything that the engine has published."""
    fence = f"{np.random.default_rng().integers(1 << 60):x}"
    engines.decode.complete(list(range(300, 340)), cache_salt=fence)
    engines.decode.wait_stored(fence, 1)
    decoder, block_map = EventDecoder(), BlockMap(KEY_SPACE)
    for batch in engines.decode.replay():
        assert not block_map.apply(decoder.decode(batch.raw).events)
    return block_map.snapshot()[Plane.DEVICE]
