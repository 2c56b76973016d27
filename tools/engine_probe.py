"""Ask a running vLLM what it does: requests, counters, cache events, in the plainest terms.

The tests that record an engine's behaviour must not use the project's own clients and decoders: an error would then
agree with itself.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyzmq types its sockets by a class that it leaves unknown

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import httpx
import msgspec
import zmq

_T = TypeVar("_T")

END_OF_REPLAY = b"\xff" * 8
EVENT_LIMIT_S = 30.0


@dataclass(frozen=True, slots=True)
class Batch:
    """One message of an engine's event publisher."""

    topic: bytes
    sequence: int
    raw: bytes
    payload: list[Any]

    @property
    def events(self) -> list[dict[str, Any]]:
        events: list[dict[str, Any]] = self.payload[1]
        return events


class EngineProbe:
    """One engine, by its addresses."""

    def __init__(self, url: str, replay: str, *, model: str) -> None:
        self.model = model
        self.url = url
        self._replay = replay
        self._http = httpx.Client(base_url=url, timeout=60)

    def close(self) -> None:
        self._http.close()

    def post(self, path: str, body: Mapping[str, Any], **headers: str) -> httpx.Response:
        return self._http.post(
            path, json=body, headers={name.replace("_", "-"): text for name, text in headers.items()}
        )

    def post_bytes(self, path: str, body: bytes) -> httpx.Response:
        return self._http.post(path, content=body, headers={"content-type": "application/json"})

    def answer(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Post and return the answer, which must be a success."""
        response = self.post(path, {"model": self.model, "temperature": 0, **body})
        if not response.is_success:
            raise AssertionError(f"{path}: {response.status_code} {response.text}")
        answer: dict[str, Any] = response.json()
        return answer

    def complete(self, prompt: str | Sequence[int], *, max_tokens: int = 1, **body: Any) -> dict[str, Any]:
        return self.answer(
            "/v1/completions", {"prompt": prompt, "max_tokens": max_tokens, "return_token_ids": True, **body}
        )

    def chat(self, messages: Sequence[Mapping[str, Any]], *, max_tokens: int = 1, **body: Any) -> dict[str, Any]:
        return self.answer("/v1/chat/completions", {"messages": messages, "max_tokens": max_tokens, **body})

    @contextmanager
    def streaming(self, path: str, body: Mapping[str, Any]) -> Generator[httpx.Response]:
        """Post and hold the answer open, unread; leaving closes the connection."""
        asked = {"model": self.model, "temperature": 0, "stream": True, **body}
        with self._http.stream("POST", path, json=asked) as response:
            yield response

    def tokens_of_chat(self, *, messages: Sequence[Mapping[str, Any]], **body: Any) -> list[int]:
        tokens: list[int] = self.answer("/tokenize", {"messages": messages, **body})["tokens"]
        return tokens

    def tokens_of(self, text: str) -> list[int]:
        tokens: list[int] = self.answer("/tokenize", {"prompt": text})["tokens"]
        return tokens

    def metric(self, name: str) -> float:
        """Return one metric, summed over labels; `name{label` narrows it."""
        return sum(self._samples(name).values())

    def wait_metric(self, name: str, good: Callable[[float], bool]) -> float:
        return wait_until(lambda: self.metric(name), good)

    def prompt_tokens_by_source(self) -> dict[str, float]:
        samples = self._samples("vllm:prompt_tokens_by_source_total")
        return {labels.split('source="')[1].split('"')[0]: value for labels, value in samples.items()}

    def _samples(self, name: str) -> dict[str, float]:
        lines = self._http.get("/metrics").text.splitlines()
        pairs = (line.rsplit(" ", 1) for line in lines if line.startswith((f"{name}{{", f"{name} ")))
        return {labels: float(value) for labels, value in pairs}

    def replay(self, start: int = 0) -> list[Batch]:
        """Return the batches from `start` on that the engine still holds."""
        socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.DEALER)
        try:
            socket.connect(self._replay)
            socket.send_multipart([b"", start.to_bytes(8, "big")])
            batches: list[Batch] = []
            while True:
                if not socket.poll(int(EVENT_LIMIT_S * 1000)):
                    raise TimeoutError(f"{self._replay} does not answer")
                _, topic, sequence, payload = socket.recv_multipart()
                if sequence == END_OF_REPLAY:
                    return batches
                batches.append(Batch(topic, int.from_bytes(sequence, "big"), payload, msgspec.msgpack.decode(payload)))
        finally:
            socket.close(0)

    def stored_under(self, salt: str) -> list[dict[str, Any]]:
        """Return the events that stored blocks of one cache salt: the first by the salt, the rest by their parents."""
        hashes: set[int] = set()
        found: list[dict[str, Any]] = []
        for batch in self.replay():
            for event in batch.events:
                if event["type"] != "BlockStored":
                    continue
                first_key = event["extra_keys"][0]
                if (first_key is not None and salt in first_key) or event["parent_block_hash"] in hashes:
                    hashes.update(event["block_hashes"])
                    found.append(event)
        return found

    def wait_stored(self, salt: str, blocks: int) -> list[dict[str, Any]]:
        """Wait until that many blocks of a salt have been published."""
        return wait_until(
            lambda: self.stored_under(salt),
            lambda events: sum(len(event["block_hashes"]) for event in events) >= blocks,
        )


@dataclass(frozen=True, slots=True)
class Engines:
    """A running set: requests go to the prefill engine, its transfer parameters then to a decode engine."""

    prefill: EngineProbe
    decode: EngineProbe
    other_decode: EngineProbe


def wait_until(read: Callable[[], _T], good: Callable[[_T], bool], limit_s: float = EVENT_LIMIT_S) -> _T:
    """Read until the value is good."""
    deadline = time.monotonic() + limit_s
    while not good(value := read()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"still {value!r} after {limit_s:.0f} s")
        time.sleep(0.02)
    return value
