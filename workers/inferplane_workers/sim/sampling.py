"""The part of a request that chat and completions share: limits, stops, seeds, transfer parameters."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from inferplane_engine.sim.events import RemoteSource
from inferplane_workers.sim.errors import bad_request, invalid_field
from inferplane_workers.sim.fields import Body, as_list, at_least, between

_MOST_CHOICES = 128


@dataclass(frozen=True, slots=True)
class Transfer:
    """`kv_transfer_params`, read."""

    hold: bool = False
    source: RemoteSource | None = None
    remote_cached_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Sampling:
    choices: int
    max_tokens: int
    min_tokens: int
    stops: tuple[str, ...]
    include_stop: bool
    stop_tokens: frozenset[int]
    ignore_eos: bool
    seed: int
    salt: str
    return_token_ids: bool
    stream: bool
    include_usage: bool
    continuous_usage: bool
    transfer: Transfer


def read_sampling(body: Body, *, max_tokens: int, force_usage: bool) -> Sampling:
    """Read and check; raises ApiError."""
    stream = body.flag("stream")
    options = body.body("stream_options")
    if options is not None and not stream:
        raise bad_request("Stream options can only be defined when `stream=True`.", "stream_options")
    choices = between("n", body.whole("n", 1) or 0, 1, _MOST_CHOICES)
    temperature = body.number("temperature", 1.0)
    if temperature < 0:
        raise bad_request(f"temperature must be non-negative, got {temperature:g}.", "temperature")
    top_p = body.number("top_p", 1.0)
    if not 0 < top_p <= 1:
        raise bad_request(f"top_p must be in (0, 1], got {top_p:g}.", "top_p")
    for penalty in ("presence_penalty", "frequency_penalty"):
        between(penalty, body.number(penalty, 0.0), -2, 2)
    min_tokens = at_least("min_tokens", body.whole("min_tokens", 0) or 0, 0)
    if min_tokens > max_tokens:
        raise bad_request(
            f"min_tokens must be less than or equal to max_tokens={max_tokens}, got {min_tokens}.", "min_tokens"
        )
    seed = body.whole("seed")
    return Sampling(
        choices=int(choices),
        max_tokens=max_tokens,
        min_tokens=min_tokens,
        stops=_stops(body),
        include_stop=body.flag("include_stop_str_in_output"),
        stop_tokens=frozenset(_whole_numbers(body, "stop_token_ids")),
        ignore_eos=body.flag("ignore_eos"),
        seed=0 if temperature == 0 or seed is None else seed,
        salt=body.text("cache_salt") or "",
        return_token_ids=body.flag("return_token_ids"),
        stream=stream,
        include_usage=force_usage or (options is not None and options.flag("include_usage")),
        continuous_usage=options is not None
        and options.flag("include_usage")
        and options.flag("continuous_usage_stats"),
        transfer=_transfer(body),
    )


def clamp_max_tokens(asked: int | None, name: str, *, prompt: int, max_model_len: int) -> int:
    """Tokens that may be produced; the messages are vLLM's."""
    if asked is not None and asked > max_model_len:
        raise bad_request(
            f"{name}={asked} cannot be greater than max_model_len={max_model_len}. Please request fewer output tokens.",
            name,
        )
    if prompt > max_model_len:
        raise bad_request(
            f"This model's maximum context length is {max_model_len} tokens. However, your prompt contains {prompt} "
            "input tokens, which exceeds this limit even without any output tokens. "
            "Please reduce the length of the input prompt.",
            "input_tokens",
        )
    room = max_model_len - prompt
    return at_least("max_tokens", room if asked is None else min(asked, room), 1)


def refuse_logprobs(body: Body) -> None:
    """Refuse what needs logits: there are none."""
    asked = body.raw("logprobs")
    if (asked is not None and asked is not False) or body.has("prompt_logprobs") or body.has("top_logprobs"):
        raise bad_request(
            "The simulated engine has no logprobs; omit logprobs, top_logprobs and prompt_logprobs.", "logprobs"
        )


def _stops(body: Body) -> tuple[str, ...]:
    value = body.raw("stop")
    if value is None:
        return ()
    listed = [value] if isinstance(value, str) else as_list(value, body.at("stop"))
    for index, stop in enumerate(listed):
        if not isinstance(stop, str):
            raise invalid_field("string_type", (*body.at("stop"), index), "Input should be a valid string", stop)
        if not stop:
            raise bad_request("stop cannot contain an empty string.", "stop")
    return tuple(str(stop) for stop in listed)


def _whole_numbers(body: Body, name: str) -> list[int]:
    numbers: list[int] = []
    for index, value in enumerate(body.items(name)):
        if isinstance(value, bool) or not isinstance(value, int):
            raise invalid_field("int_type", (*body.at(name), index), "Input should be a valid integer", value)
        numbers.append(value)
    return numbers


def _transfer(body: Body) -> Transfer:
    params = body.body("kv_transfer_params")
    if params is None:
        return Transfer()
    cached = params.raw("remote_prefill_cached_tokens")
    return Transfer(
        hold=bool(params.raw("do_remote_decode")),
        source=_source(params.values) if params.raw("do_remote_prefill") else None,
        remote_cached_tokens=cached if isinstance(cached, int) else None,
    )


def _source(params: Mapping[str, object]) -> RemoteSource | None:
    """Where to pull from.

    Like the real engine this does not check what a client could not know: blocks that make no sense are found out by
    the engine itself, and kill it.  Without an address there is nothing to pull and the prompt is computed here.
    """
    names = ("remote_engine_id", "remote_request_id", "remote_host", "remote_port")
    if any(params.get(name) is None for name in names):
        return None
    ids = params.get("remote_block_ids")
    groups = cast("list[object]", ids) if isinstance(ids, list) else []
    if groups and not isinstance(groups[0], list):
        groups = [groups]
    listed = [cast("list[object]", group) for group in groups if isinstance(group, list)]
    blocks = tuple(tuple(block for block in group if isinstance(block, int)) for group in listed)
    port = params["remote_port"]
    return RemoteSource(
        engine_id=str(params["remote_engine_id"]),
        request_id=str(params["remote_request_id"]),
        host=str(params["remote_host"]),
        port=port if isinstance(port, int) else 0,
        block_ids=blocks,
    )
