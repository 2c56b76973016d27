"""Placing requests by load alone: the encoder that never knows tokens."""

from collections.abc import Mapping
from typing import Any

from inferplane_router.core.values import ResolvedModel
from inferplane_router.gateway.seams import EncodedPrompt


class WithoutTokens:
    """A `PromptEncoder` for models whose tokens cannot be known here."""

    def encode(self, model: ResolvedModel, path: str, body: Mapping[str, Any]) -> EncodedPrompt:
        del model, path, body
        return EncodedPrompt(None)
