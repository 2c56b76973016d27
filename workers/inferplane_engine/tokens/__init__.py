"""Prompts to tokens, exactly as the engine does it."""

from inferplane_engine.tokens.encoder import EncodedPrompt, NotEncodableError, PromptEncoder, PromptTooLongError
from inferplane_engine.tokens.files import ModelFiles, ModelFilesError, files_digest, is_tokenizer_file
from inferplane_engine.tokens.template import ChatTemplate, TemplateError
from inferplane_engine.tokens.tokenizer import Tokenizer

__all__ = [
    "ChatTemplate",
    "EncodedPrompt",
    "ModelFiles",
    "ModelFilesError",
    "NotEncodableError",
    "PromptEncoder",
    "PromptTooLongError",
    "TemplateError",
    "Tokenizer",
    "files_digest",
    "is_tokenizer_file",
]
