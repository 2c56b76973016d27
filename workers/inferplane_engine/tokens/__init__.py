"""Prompts to tokens, exactly as the engine does it."""

from inferplane_engine.tokens.encoder import EncodedPrompt, NotEncodableError, PromptEncoder
from inferplane_engine.tokens.files import TOKENIZER_FILES, ModelFiles, ModelFilesError
from inferplane_engine.tokens.template import ChatTemplate, TemplateError
from inferplane_engine.tokens.tokenizer import Tokenizer

__all__ = [
    "TOKENIZER_FILES",
    "ChatTemplate",
    "EncodedPrompt",
    "ModelFiles",
    "ModelFilesError",
    "NotEncodableError",
    "PromptEncoder",
    "TemplateError",
    "Tokenizer",
]
