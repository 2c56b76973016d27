"""Streams: take out the usage that only we asked for, and count while doing so.

Problem: usage must be exact even when a client leaves in the middle, so the engine is asked to state it in every chunk;
the client must see none of it.  Idea: usage is cut out of each event as bytes, between two positions found by search;
only the last one is ever parsed.  Trade-off: an event has to be whole before it can be cleaned, so half an event waits
for its other half (engines write whole events).  Invariant: what is not usage leaves byte by byte as it came.

The search is safe because a quote inside a JSON string is always escaped: the bytes `,"usage":{` cannot occur in text.
"""

from collections.abc import Iterator
from typing import Any, cast

import orjson

from inferplane_workers.agent.body import UsageWish
from inferplane_workers.agent.usage import Usage, from_bytes, from_object

_NEEDLE = b',"usage":{'
_LOOSE = b'"usage"'
_NO_CHOICES = b'"choices":[]'
_LONGEST_EVENT = 16 * 1024 * 1024


class UsageFilter:
    """Cleans one stream; feed it what arrives, send on what it returns."""

    __slots__ = ("_counts", "_details", "_fingerprint", "_last", "_many", "_rest", "_wish", "fingerprint_seen")

    def __init__(self, wish: UsageWish, *, many: bool = False, fingerprint: bytes = b"") -> None:
        self._wish = wish
        self._many = many
        self._fingerprint = fingerprint
        self._rest = b""
        self._last: bytes | None = None
        self._details: Usage | None = None
        self._counts: dict[int, int] = {}
        self.fingerprint_seen = b""

    def feed(self, data: bytes) -> bytes:
        """Return what the client gets of `data`, holding back an event that is not whole."""
        if self._rest:
            data = self._rest + data
            self._rest = b""
        if data.endswith(b"\n\n") and data.find(b"\n\n") == len(data) - 2:
            return self._event(data)  # what engines do: one event a write
        end, gap = _last_boundary(data)
        if end != len(data):
            if len(data) - end > _LONGEST_EVENT:
                return data  # no event stream: nothing of ours can be in it
            self._rest = data[end:]
            data = data[:end]
        if not gap:
            return b""
        return b"".join(map(self._event, _events(data, gap)))

    def finish(self) -> bytes:
        """Return what was held back when the stream ended."""
        rest, self._rest = self._rest, b""
        return rest

    @property
    def usage(self) -> Usage | None:
        """The latest count; exact for what the engine has sent."""
        if self._details is not None:
            return self._details
        if self._last is None:
            return None
        usage = from_bytes(self._last)
        if usage is not None and self._many:
            return Usage(usage.prompt, sum(self._counts.values()), usage.cached)
        return usage

    def _event(self, event: bytes) -> bytes:
        start = event.rfind(_NEEDLE)
        if start < 0:
            return self._loose_event(event) if _LOOSE in event else event
        stop = _object_end(event, start + len(_NEEDLE) - 1)
        if stop < 0:
            return event
        self._last = event[start + len(_NEEDLE) - 1 : stop]
        if _NO_CHOICES in event:
            return self._final(event)
        if self._many:
            self._count_choice(event)
        if self._wish.continuous:
            return event
        return event[:start] + self._stamp(event, stop) + event[stop:]

    def _final(self, event: bytes) -> bytes:
        """Handle the extra chunk that closes a stream whose usage was asked for."""
        if self._last is not None:
            self._details = from_bytes(self._last)
        self.fingerprint_seen = _fingerprint_of(event) or self.fingerprint_seen
        return event if self._wish.final else b""

    def _stamp(self, event: bytes, stop: int) -> bytes:
        """Give back the fingerprint that vLLM moves from the last text chunk to the usage chunk."""
        if self._wish.final or not self._fingerprint or b'"finish_reason":"' not in event:
            return b""
        if event.startswith(b',"system_fingerprint"', stop):
            return b""
        return b',"system_fingerprint":' + self._fingerprint

    def _count_choice(self, event: bytes) -> None:
        chunk = _json_of(event)
        if chunk is None:
            return
        usage = from_object(chunk.get("usage"))
        for choice in chunk.get("choices") or ():
            if usage is not None and isinstance(choice, dict):
                self._counts[int(cast("dict[str, Any]", choice).get("index") or 0)] = usage.output

    def _loose_event(self, event: bytes) -> bytes:
        """Handle an engine that writes JSON with spaces: parsed and written anew, which costs more."""
        chunk = _json_of(event)
        if chunk is None or from_object(chunk.get("usage")) is None:
            return event
        self._last = orjson.dumps(chunk["usage"])
        if chunk.get("choices") == []:
            return self._final(event)
        if self._many:
            self._count_choice(event)
        if self._wish.continuous:
            return event
        del chunk["usage"]
        return b"data: " + orjson.dumps(chunk) + b"\n\n"


def _last_boundary(data: bytes) -> tuple[int, bytes]:
    """Return where the last whole event ends, and the blank line that ends it."""
    at = data.rfind(b"\n\n")
    if at >= 0:
        return at + 2, b"\n\n"
    at = data.rfind(b"\r\n\r\n")
    return (at + 4, b"\r\n\r\n") if at >= 0 else (0, b"")


def _events(data: bytes, gap: bytes) -> Iterator[bytes]:
    start = 0
    while start < len(data):
        stop = data.find(gap, start) + len(gap)
        yield data[start:stop]
        start = stop


def _object_end(event: bytes, brace: int) -> int:
    """Return the position after the object that opens at `brace`, or -1; usage objects hold no strings."""
    depth, at = 0, brace
    while True:
        close = event.find(b"}", at)
        if close < 0:
            return -1
        depth += event.count(b"{", at, close) - 1
        at = close + 1
        if depth <= 0:
            return at


def _fingerprint_of(event: bytes) -> bytes:
    mark = b'"system_fingerprint":'
    start = event.find(mark)
    if start < 0 or event[start + len(mark) : start + len(mark) + 1] != b'"':
        return b""
    start += len(mark)
    stop = event.find(b'"', start + 1)
    return event[start : stop + 1] if stop > 0 else b""


def _json_of(event: bytes) -> dict[str, Any] | None:
    line = next((part for part in event.splitlines() if part.startswith(b"data:")), None)
    if line is None:
        return None
    try:
        value: object = orjson.loads(line[5:])
    except orjson.JSONDecodeError:
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None
