"""Run by the engine's own interpreter: tokens of requests, by vLLM's code, without a server.

Reads {"models": [folder, ...], "requests": [[path, body], ...]} from stdin, writes for each model a list with token
ids or an error text.  One process does all models: most of its time goes into importing vLLM.
"""
# mypy: ignore-errors
# pyright: basic, reportMissingImports=false

import json
import sys
from types import SimpleNamespace
from typing import Any

from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
from vllm.entrypoints.openai.completion.protocol import CompletionRequest
from vllm.renderers.chat_utils import parse_chat_messages
from vllm.renderers.hf import resolve_chat_template_content_format, safe_apply_chat_template
from vllm.renderers.params import merge_kwargs
from vllm.tokenizers import get_tokenizer

MAX_MODEL_LEN = 4096


def tokens(tokenizer: Any, text: str, params: Any) -> list[int]:
    prompt = params.apply_pre_tokenization(tokenizer, {"prompt": text})
    ids = tokenizer.encode(prompt["prompt"], **params.get_encode_kwargs())
    return params.apply_post_tokenization(tokenizer, {"prompt_token_ids": ids})["prompt_token_ids"]


def chat(tokenizer: Any, config: Any, body: dict[str, Any]) -> list[int]:
    request = ChatCompletionRequest.model_validate(body)
    tools = None if request.tools is None else [tool.model_dump() for tool in request.tools]
    params = request.build_chat_params(None, "auto").with_defaults(
        merge_kwargs({}, {"tools": tools, "tokenize": False})
    )
    conversation, _, _ = parse_chat_messages(
        request.messages,
        config,
        content_format=resolve_chat_template_content_format(
            chat_template=None,
            tools=params.chat_template_kwargs.get("tools"),
            given_format="auto",
            tokenizer=tokenizer,
            model_config=config,
        ),
    )
    text = safe_apply_chat_template(config, tokenizer, conversation, **params.get_apply_chat_template_kwargs())
    return tokens(tokenizer, text, request.build_tok_params(config))


def completion(tokenizer: Any, config: Any, body: dict[str, Any]) -> list[int]:
    request = CompletionRequest.model_validate(body)
    params = request.build_tok_params(config)
    if isinstance(request.prompt, str):
        return tokens(tokenizer, request.prompt, params)
    return params.apply_post_tokenization(tokenizer, {"prompt_token_ids": request.prompt})["prompt_token_ids"]


def answers(model: str, requests: list[tuple[str, dict[str, Any]]]) -> list[list[int] | str]:
    tokenizer = get_tokenizer(model)
    config = SimpleNamespace(
        model=model,
        tokenizer=model,
        multimodal_config=None,
        enable_prompt_embeds=False,
        tokenizer_revision=None,
        revision=None,
        code_revision=None,
        trust_remote_code=False,
        hf_config=SimpleNamespace(model_type="test"),
        max_model_len=MAX_MODEL_LEN,
    )
    found: list[list[int] | str] = []
    for path, body in requests:
        try:
            found.append((chat if "chat" in path else completion)(tokenizer, config, body))
        except Exception as error:  # noqa: BLE001  # whatever the engine says
            found.append(f"{type(error).__name__}: {error}")
    return found


def main() -> None:
    job = json.load(sys.stdin)
    json.dump([answers(model, job["requests"]) for model in job["models"]], sys.stdout)


if __name__ == "__main__":
    main()
