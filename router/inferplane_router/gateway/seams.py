"""What the gateway needs from its neighbours, declared by the one who needs it."""

from collections.abc import Awaitable, Mapping
from typing import Any, Protocol

from inferplane_router.core.values import Expectation, ResolvedModel, Tokens
from inferplane_runtime.values import value


@value(frozen=True, slots=True)
class EncodedPrompt:
    """A prompt as the engine will see it; no tokens when that cannot be known here."""

    tokens: Tokens | None
    templated: bool = False


class PromptRejectedError(Exception):
    """A prompt that can only be refused (a template that raises); `param` names the field."""

    def __init__(self, message: str, *, param: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param


class PromptEncoder(Protocol):
    """Turns requests into tokens: at once where it can, later where an engine must be asked."""

    def encode(
        self, model: ResolvedModel, path: str, body: Mapping[str, Any], *, size: int
    ) -> EncodedPrompt | Awaitable[EncodedPrompt]:
        """Encode a body that came as `size` bytes of JSON: no text in it has more characters."""
        ...


class Announcer(Protocol):
    """Tells a worker's agent which blocks a routed request will store."""

    def announce(self, request_id: str, expectation: Expectation, /) -> None: ...
