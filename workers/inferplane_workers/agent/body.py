"""Request bodies: what is removed, what is added, and how each half of a hand-off looks.

Problem: an engine trusts fields that no client may set (a forged KV transfer kills vLLM), and usage that nobody asked
for is not counted.  Idea: parse once, edit a plain mapping, write once.  Trade-off: a body that our parser refuses is
refused, although an engine might have read it, since what cannot be read cannot be cleaned.
Invariant: fields that shape the prompt are the same on both sides of a hand-off, because KV blocks are matched by
position: a different prompt on the prefill side would decode to garbage without any error.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

import orjson

from inferplane_runtime.http.json_body import JsonBodyError, read_object
from inferplane_workers.agent.errors import BadRequestError

Body = dict[str, Any]

# Top-level fields by which a body can command KV or encoder-cache transfers; below, in SGLang's words: where halves
# meet, which rank computes, what the request is called inside, and a key that changes blocks' names unseen.
_FORBIDDEN: Final = (
    "kv_transfer_params",
    "ec_transfer_params",
    "bootstrap_host",
    "bootstrap_port",
    "bootstrap_room",
    "routed_dp_rank",
    "data_parallel_rank",
    "disagg_prefill_dp_rank",
    "rid",
    "extra_key",
)
# vLLM copies vllm_xargs into the same place as the fields above, and reads how block events are reported from it.
_FORBIDDEN_XARGS: Final = ("kv_transfer_params", "ec_transfer_params", "kv_cache_report_mode")

# Shape the output only, never the prompt.  Everything else stays as the client wrote it.
_DROPPED_FOR_PREFILL: Final = (
    "stream",
    "stream_options",
    "min_tokens",
    "logprobs",
    "top_logprobs",
    "logit_bias",
    "return_token_ids",
    "n",
    "best_of",
)


@dataclass(frozen=True, slots=True)
class UsageWish:
    """What the client asked to be told about usage in a stream."""

    final: bool = False
    continuous: bool = False


@dataclass(frozen=True, slots=True)
class Shape:
    """What the agent must know of a request besides its bytes."""

    stream: bool
    wish: UsageWish
    model: str
    choices: int
    """Answers asked for in one request (n, times the number of prompts)."""
    wants_prompt_scores: bool
    """Log-probabilities of prompt tokens: they exist only where the prompt is computed."""
    reads_many_prompts: bool

    @property
    def handoff_possible(self) -> bool:
        return self.choices == 1 and not self.wants_prompt_scores and not self.reads_many_prompts


def parse(raw: bytes) -> Body:
    """Read a JSON object, or say why it is none."""
    try:
        return read_object(raw)
    except JsonBodyError as error:
        raise BadRequestError(str(error)) from None


def write(body: Mapping[str, Any]) -> bytes:
    return orjson.dumps(body)


def strip_forbidden(body: Body) -> list[str]:
    """Remove what no client may set; return what was there."""
    found: list[str] = [name for name in _FORBIDDEN if name in body]
    for name in found:
        del body[name]
    xargs = body.get("vllm_xargs")
    if isinstance(xargs, dict):
        for name in _FORBIDDEN_XARGS:
            if name in xargs:
                del xargs[name]
                found.append(f"vllm_xargs.{name}")
        if not xargs:
            del body["vllm_xargs"]
    return found


def shape(body: Mapping[str, Any]) -> Shape:
    """Read what the agent needs; wrong types are left for the engine to refuse."""
    stream = body.get("stream") is True
    options = _mapping(body.get("stream_options"))
    final = options.get("include_usage") is True
    continuous = final and options.get("continuous_usage_stats") is True
    model = body.get("model")
    prompts = _prompt_count(body.get("prompt"))
    return Shape(
        stream=stream,
        wish=UsageWish(final=final, continuous=continuous),
        model=model if isinstance(model, str) else "",
        choices=_choices(body) * prompts,
        wants_prompt_scores=_wants_prompt_scores(body),
        reads_many_prompts=isinstance(body.get("prompt"), list) and prompts > 1,
    )


def ask_for_usage(body: Body) -> None:
    """Have the engine count in every chunk of a stream: the last one seen is exact, however the stream ends."""
    given: object = body.get("stream_options")
    if given is None or isinstance(given, dict):  # anything else is the engine's to refuse
        body["stream_options"] = {
            **_mapping(cast("object", given)),
            "include_usage": True,
            "continuous_usage_stats": True,
        }


def for_prefill(body: Mapping[str, Any], transfer: Mapping[str, Any]) -> Body:
    """Return the prefill half: the same prompt, one token, unstreamed."""
    half = {name: value for name, value in body.items() if name not in _DROPPED_FOR_PREFILL}
    half["stream"] = False
    half["max_tokens"] = 1
    if "max_completion_tokens" in half:
        half["max_completion_tokens"] = 1
    half["kv_transfer_params"] = dict(transfer)
    return half


def for_decode(body: Mapping[str, Any], transfer: Mapping[str, Any]) -> Body:
    """Return the decode half: the request as it came, with the prefill side's parameters verbatim."""
    half = dict(body)
    half["kv_transfer_params"] = dict(transfer)
    return half


def _mapping(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}


def _choices(body: Mapping[str, Any]) -> int:
    counts = [body.get("n"), body.get("best_of")]
    if body.get("use_beam_search") is True:
        return 2
    return max((count for count in counts if isinstance(count, int) and count > 0), default=1)


def _prompt_count(prompt: object) -> int:
    if not isinstance(prompt, list):
        return 1
    items = cast("list[object]", prompt)
    if items and all(isinstance(item, int) for item in items):
        return 1  # one prompt, as token ids
    return max(1, len(items))


def _wants_prompt_scores(body: Mapping[str, Any]) -> bool:
    if body.get("prompt_logprobs") is not None:
        return True
    return body.get("echo") is True and body.get("logprobs") not in (None, False)
