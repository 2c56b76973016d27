"""An agent with a model's files and an engine's `/tokenize`, behind the `Upstream` seam and without a socket."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import orjson

from inferplane_engine.tokens import ModelFiles, NotEncodableError, PromptEncoder
from inferplane_runtime.http.api import Headers, Request, ResponseHead, ResponseSink, UpstreamFailure


@dataclass
class FakeAgent:
    """Answers in the next turn of the loop; `asked` keeps what came."""

    files: ModelFiles
    encoder: PromptEncoder | None = None
    """What `/tokenize` answers with; without one it is refused."""
    refuses: bool = False
    silent: bool = False
    shift: int = 0
    """Added to every token: an engine that tokenises otherwise."""
    digest: str = ""
    asked: list[str] = field(default_factory=list[str])

    def answer(self, request: Request) -> tuple[int, bytes]:
        path = request.path.decode()
        self.asked.append(path)
        if path == "/model/files":
            return 200, orjson.dumps({"digest": self.digest or self.files.digest, "files": self.files.sizes()})
        if path.startswith("/model/files/"):
            return 200, (self.files.root / path.rpartition("/")[2]).read_bytes()
        if path == "/tokenize" and self.encoder is not None:
            return self._tokenized(orjson.loads(request.body))
        return 404, b"{}"

    def _tokenized(self, body: dict[str, Any]) -> tuple[int, bytes]:
        path = "/v1/chat/completions" if "messages" in body else "/v1/completions"
        tokens: list[int] = [7, 7, 7]
        with suppress(NotEncodableError):
            if self.encoder is not None:
                tokens = [int(token) + self.shift for token in self.encoder.encode(path, body).tokens]
        return 200, orjson.dumps({"tokens": tokens})


class FakeUpstream:
    """Agents by address."""

    def __init__(self, agents: dict[str, FakeAgent]) -> None:
        self.agents = agents

    def send(self, address: str, request: Request, sink: ResponseSink, *, silence_s: float) -> "FakeCall":
        del silence_s
        agent = self.agents.get(address)
        loop = asyncio.get_running_loop()
        call = FakeCall()
        if agent is None or agent.refuses:
            loop.call_soon(call.unless_cancelled(lambda: sink.on_failure(UpstreamFailure.REFUSED, "nobody listens")))
        elif not agent.silent:
            loop.call_soon(call.unless_cancelled(lambda: _deliver(sink, *agent.answer(request))))
        return call


class FakeCall:
    def __init__(self) -> None:
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def unless_cancelled(self, play: Callable[[], None]) -> Callable[[], None]:
        return lambda: None if self.cancelled else play()


def _deliver(sink: ResponseSink, status: int, body: bytes) -> None:
    sink.on_head(ResponseHead(status, Headers()))
    if body:
        sink.on_body(body)
    sink.on_end()
