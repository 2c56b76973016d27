"""A request's body to the tokens that the engine will make of it.

Problem: a router predicts cache hits from tokens, and any difference from the engine's own is a miss that nobody sees.
Idea: follow vLLM's rendering step by step (contents, tools, template arguments, template, tokenizer, truncation) for
what is plain text, and say `NotEncodableError` for everything else: images, harmony and mistral-common formats,
templates that print the time, requests with their own template, bodies the engine will refuse.  The engine's
`/tokenize` answers those.  Invariant: tokens, when given, are the engine's.
"""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from inferplane_engine.tokens.content_format import ContentFormat
from inferplane_engine.tokens.files import ModelFiles
from inferplane_engine.tokens.json_shapes import is_list, is_object
from inferplane_engine.tokens.messages import NotEncodableError, conversation
from inferplane_engine.tokens.plain_chat import plain_talk
from inferplane_engine.tokens.template import ChatTemplate, TemplateError, holds_a_float
from inferplane_engine.tokens.tokenizer import Tokenizer

__all__ = ["EncodedPrompt", "NotEncodableError", "PromptEncoder"]

Tokens = NDArray[np.int32]

_OWN_RENDERERS: Final = {
    "gpt_oss": "harmony",
    "deepseek_v32": "DeepSeek V3.2's own format",
    "deepseek_v4": "DeepSeek V4's own format",
    "deepseek_v41": "DeepSeek V4's own format",
    "kimi_audio": "Kimi Audio's own format",
    "kimi_k3": "Kimi K3's own format",
    "inkling": "Inkling's own format",
    "cohere2": "Cohere's own format",
}
_CONTINUE_TAG: Final = "CONTINUE_FINAL_MESSAGE_TAG "
# Arguments of `apply_chat_template` itself: the engine passes them on, so they are not plain template variables.
_NOT_FOR_TEMPLATES: Final = frozenset(
    {
        "chat_template", "conversation", "max_length", "messages", "padding", "return_assistant_tokens_mask",
        "return_dict", "return_tensors", "tokenize", "tokenizer_kwargs", "tools", "truncation",
    }
)  # fmt: skip
_UNSET: Final = (None, "auto")


class PromptTooLongError(ValueError):
    """A text that no tokenizer could fit into the model's context; the message is for the client."""


@dataclass(frozen=True, slots=True, eq=False)
class EncodedPrompt:
    """The prompts of one request; all but completions with a list have exactly one."""

    prompts: tuple[Tokens, ...]

    @property
    def tokens(self) -> Tokens:
        """Return the first prompt's tokens (int32)."""
        return self.prompts[0]


class PromptEncoder:
    """Encodes one model's requests; safe to use from several threads."""

    def __init__(self, files: ModelFiles) -> None:
        self.files = files
        options = files.prompt_options()
        self._default_kwargs: Mapping[str, Any] = options.get("chat_template_kwargs") or {}
        self._exclude_tools = bool(options.get("exclude_tools_when_tool_choice_none", False))
        self._max_model_len: int | None = options.get("max_model_len")
        self._content_format: str = options.get("content_format", "auto")
        self._special_tokens = files.special_tokens()
        self.refuses_everything = "mistral-common" if "tekken.json" in files.names else ""
        self.tokenizer = None if self.refuses_everything else Tokenizer(files)
        self._templates: dict[str, ChatTemplate] = {}
        self._plain: tuple[ChatTemplate, dict[str, Any]] | None = None
        """Template and variables of a chat that is nothing but texts, where those may be given to it as they are."""
        self.refuses_chat = (
            self.refuses_everything
            or _OWN_RENDERERS.get(files.model_type, "")
            or str(options.get("chats_by_engine", ""))
        )
        """Why chats go to the engine; empty when they need not."""
        if not self.refuses_chat:
            self._compile_templates(options)

    @property
    def templates(self) -> Mapping[str, ChatTemplate]:
        return self._templates

    def encode(self, path: str, body: Mapping[str, Any]) -> EncodedPrompt:
        """Encode the body of a request to `path`; raises NotEncodableError, PromptTooLongError."""
        try:
            match path:
                case "/v1/chat/completions":
                    return EncodedPrompt((self._chat(body),))
                case "/v1/completions":
                    return EncodedPrompt(self._completion(body))
                case _:
                    raise NotEncodableError(f"{path} has no prompt that is known here")
        except TemplateError as error:
            raise NotEncodableError(f"the chat template refuses: {error}") from error
        except UnicodeEncodeError as error:
            raise NotEncodableError("the prompt holds a lone surrogate") from error

    def _compile_templates(self, options: Mapping[str, Any]) -> None:
        sources = self.files.chat_templates()
        if own := options.get("chat_template"):
            sources = {"default": own}
        try:
            self._templates = {name: ChatTemplate(source) for name, source in sources.items()}
        except TemplateError as error:
            self.refuses_chat = str(error)
        if not self._templates:
            self.refuses_chat = self.refuses_chat or "the model has no chat template"
        if any(template.uses_time for template in self._templates.values()):
            self.refuses_chat = "the chat template prints the time"
        if not self.refuses_chat and "default" in self._templates:
            self._prepare_plain_chats(self._templates["default"])

    def _prepare_plain_chats(self, template: ChatTemplate) -> None:
        variables = self._variables(template, {})
        if self._format_of(template) is ContentFormat.STRING and not holds_a_float(variables):
            self._plain = template, {**variables, "tools": None}

    # --- chats ------------------------------------------------------------------------------------------------------

    def _chat(self, body: Mapping[str, Any]) -> Tokens:
        if self.refuses_chat:
            raise NotEncodableError(self.refuses_chat)
        if body.get("chat_template") is not None:
            raise NotEncodableError("the request brings its own chat_template")
        text = self._rendered(body)
        return self._tokens(text, body, add_special_tokens=_flag(body, "add_special_tokens", default=False))

    def _rendered(self, body: Mapping[str, Any]) -> str:
        if self._plain is not None and (texts := plain_talk(body)) is not None:
            template, variables = self._plain
            return template.render_texts({**variables, "messages": texts})
        tools = self._tools(body)
        template = self._template(with_tools=tools is not None)
        wanted = self._format_of(template)
        talk = conversation(body.get("messages"), wanted, developer_role=template.knows_developers)
        variables = self._variables(template, body)
        variables |= {"messages": talk, "tools": tools}
        if not _flag(body, "continue_final_message", default=False):
            return template.render(variables)
        if variables["add_generation_prompt"]:
            raise NotEncodableError("continue_final_message and add_generation_prompt exclude each other")
        return _continued(template, variables)

    def _format_of(self, template: ChatTemplate) -> ContentFormat:
        return template.content_format if self._content_format == "auto" else ContentFormat(self._content_format)

    def _template(self, *, with_tools: bool) -> ChatTemplate:
        if with_tools and "tool_use" in self._templates:
            return self._templates["tool_use"]
        if "default" not in self._templates:
            raise NotEncodableError(f"the model has no default chat template, only {sorted(self._templates)}")
        return self._templates["default"]

    def _variables(self, template: ChatTemplate, body: Mapping[str, Any]) -> dict[str, Any]:
        """Merge the engine's defaults, the request's arguments and its fields, the later ones first in rank."""
        user: Any = body.get("chat_template_kwargs") or {}
        if not is_object(user):
            raise NotEncodableError("chat_template_kwargs must be an object")
        if taken := _NOT_FOR_TEMPLATES & user.keys():
            raise NotEncodableError(f"chat_template_kwargs holds {sorted(taken)}")
        fields: dict[str, Any] = {
            "add_generation_prompt": _flag(body, "add_generation_prompt", default=True),
            "continue_final_message": _flag(body, "continue_final_message", default=False),
            "documents": body.get("documents"),
            "reasoning_effort": body.get("reasoning_effort"),
        }
        if fields["reasoning_effort"] is not None and "enable_thinking" not in user:
            fields["enable_thinking"] = fields["reasoning_effort"] != "none"
        merged = {**self._default_kwargs, **_set_ones(user), **_set_ones(fields)}
        merged.pop("continue_final_message", None)  # ours to do, no template reads it
        passed = {name: value for name, value in merged.items() if name in template.variables}
        always = {"documents": merged.get("documents"), "add_generation_prompt": merged["add_generation_prompt"]}
        return {**self._special_tokens, **passed, **always}

    def _tools(self, body: Mapping[str, Any]) -> list[dict[str, Any]] | None:
        tools: Any = body.get("tools")
        if tools is None or (body.get("tool_choice") == "none" and self._exclude_tools):
            return None
        if not is_list(tools) or not tools:
            raise NotEncodableError("tools must be a list with at least one tool")
        return [_tool(tool, f"tools[{at}]") for at, tool in enumerate(tools)]

    # --- completions ------------------------------------------------------------------------------------------------

    def _completion(self, body: Mapping[str, Any]) -> tuple[Tokens, ...]:
        for field in ("prompt_embeds", "suffix"):
            if body.get(field) is not None:
                raise NotEncodableError(f"{field}: only the engine knows what it makes of it")
        prompt: Any = body.get("prompt")
        special = _flag(body, "add_special_tokens", default=True)
        if prompt == "":
            raise NotEncodableError("prompt must not be empty")
        if isinstance(prompt, str):
            return (self._tokens(prompt, body, add_special_tokens=special),)
        if not is_list(prompt) or not prompt:
            raise NotEncodableError("prompt must be a text, a list of texts or a list of token ids")
        if all(isinstance(entry, str) for entry in prompt):
            return tuple(self._tokens(entry, body, add_special_tokens=special) for entry in prompt)
        if all(is_list(entry) for entry in prompt):
            return tuple(self._truncated(_token_ids(entry, f"prompt[{at}]"), body) for at, entry in enumerate(prompt))
        return (self._truncated(_token_ids(prompt, "prompt"), body),)

    # --- tokens -----------------------------------------------------------------------------------------------------

    def _tokens(self, text: str, body: Mapping[str, Any], *, add_special_tokens: bool) -> Tokens:
        if self.tokenizer is None:
            raise NotEncodableError(self.refuses_everything)
        limit = self._limit(body)
        if limit is None:
            self._refuse_endless(text, self.tokenizer.longest_token)
        tokens = self.tokenizer.encode(text, add_special_tokens=add_special_tokens)
        if limit is None or limit >= tokens.size:
            return tokens
        if body.get("truncation_side") is not None:
            raise NotEncodableError("truncation_side: the engine cuts the text before it counts tokens")
        around = self.tokenizer.prefix.size + self.tokenizer.suffix.size if add_special_tokens else 0
        if limit <= around:
            raise NotEncodableError("truncate_prompt_tokens leaves no room for the prompt")
        kept = self.tokenizer.encode(text)[around - limit :]
        if not around:
            return kept
        return np.concatenate((self.tokenizer.prefix, kept, self.tokenizer.suffix))

    def _refuse_endless(self, text: str, longest_token: int) -> None:
        """Refuse, as engines do, what would not fit if every token were the longest: it is not worth encoding."""
        most = None if self._max_model_len is None else self._max_model_len * longest_token
        if most is not None and len(text) > most:
            raise PromptTooLongError(
                f"This model's maximum context length is {self._max_model_len} tokens. However, your prompt contains "
                f"{len(text)} characters, and more than {most} never fit. Please reduce the length of the input prompt."
            )

    def _truncated(self, tokens: Tokens, body: Mapping[str, Any]) -> Tokens:
        limit = self._limit(body)
        if limit is None or limit >= tokens.size:
            return tokens
        if limit == 0:
            return tokens[:0]
        return tokens[:limit] if body.get("truncation_side") == "right" else tokens[-limit:].copy()

    def _limit(self, body: Mapping[str, Any]) -> int | None:
        limit: Any = body.get("truncate_prompt_tokens")
        if limit is None:
            return None
        if not isinstance(limit, int) or isinstance(limit, bool) or limit < -1:
            raise NotEncodableError("truncate_prompt_tokens must be an integer of at least -1")
        if limit >= 0:
            return limit
        if self._max_model_len is None:
            raise NotEncodableError("truncate_prompt_tokens is -1, and the model's length is not known here")
        return max(0, self._max_model_len - 1)


def _continued(template: ChatTemplate, variables: dict[str, Any]) -> str:
    """Render up to the end of the last message, so that the model goes on with it."""
    talk = copy.deepcopy(cast("list[dict[str, Any]]", variables["messages"]))
    last = talk[-1]
    if last["content"] is None or "content" not in template.source:
        raise NotEncodableError("continue_final_message: the last message has no content to continue")
    if isinstance(last["content"], str):
        final = last["content"]
        last["content"] = final + _CONTINUE_TAG
    else:
        if not last["content"]:
            raise NotEncodableError("continue_final_message: the last message has no text to continue")
        final = last["content"][-1]["text"]
        last["content"][-1]["text"] = final + _CONTINUE_TAG
    text = template.render({**variables, "messages": talk})
    at = text.rfind(_CONTINUE_TAG.strip())
    if at < 0 or final.strip() not in text:
        raise NotEncodableError("continue_final_message: the template does not print the last message as it is")
    spaced = text[at : at + len(_CONTINUE_TAG)] == _CONTINUE_TAG
    return text[:at] if spaced else text[:at].rstrip()


def _tool(tool: Any, where: str) -> dict[str, Any]:
    """Return a tool as templates print it: known fields in the engine's order, missing ones None."""
    function = tool.get("function") if is_object(tool) else None
    if not is_object(tool) or not is_object(function) or not isinstance(function.get("name"), str):
        raise NotEncodableError(f"{where}.function must be an object with a name")
    deferred = tool.get("defer_loading")
    described: dict[str, Any] = {name: function.get(name) for name in ("name", "description", "parameters")}
    if function.get("strict") is not None:
        described["strict"] = function["strict"]
    own = function.get("defer_loading")
    if own is not None or deferred is not None:
        described["defer_loading"] = deferred if own is None else own
    whole: dict[str, Any] = {"type": tool.get("type", "function"), "function": described}
    return whole if deferred is None else {**whole, "defer_loading": deferred}


def _set_ones(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value not in _UNSET}


def _flag(body: Mapping[str, Any], name: str, *, default: bool) -> bool:
    value = body.get(name, default)
    if not isinstance(value, bool):
        raise NotEncodableError(f"{name} must be true or false")
    return value


def _token_ids(entries: list[Any], where: str) -> Tokens:
    if not entries or not all(type(entry) is int and 0 <= entry < 1 << 31 for entry in entries):
        raise NotEncodableError(f"{where} must be a list of token ids, or of texts alone")
    return np.array(entries, np.int32)
