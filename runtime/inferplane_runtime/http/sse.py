"""Server-sent events out of payload pieces, without copying what need not be copied.

A piece from an engine is nearly always one whole event; then the very bytes that came in go out.  Only an event that
arrives in parts is joined.
Lines end with LF or CR LF, as every engine's do; a lone CR is data.
Invariant: the concatenation of what `feed` returns and of `rest` is what was fed in.
"""

import re

_BLANK_LINE = re.compile(rb"\r?\n\r?\n")
_TAIL = 3
"""A separator may begin in the last three bytes of what was searched before."""


class EventTooLarge(Exception):  # noqa: N818 - says what arrived
    """An event grew beyond its bound without ending."""


class SseSplitter:
    """Splits a body into whole events, each with the blank line that ends it."""

    __slots__ = ("_max_bytes", "_rest")

    def __init__(self, *, max_event_bytes: int = 16 * 1024 * 1024) -> None:
        self._max_bytes = max_event_bytes
        self._rest = bytearray()

    @property
    def rest(self) -> bytes:
        """What has come of an event that is not complete."""
        return bytes(self._rest)

    def feed(self, data: bytes) -> list[bytes]:
        """Return the events that `data` completes."""
        if not self._rest and data.endswith(b"\n\n") and data.find(b"\n\n") == len(data) - 2 and b"\r" not in data:
            return [data]
        searched = max(0, len(self._rest) - _TAIL)
        self._rest += data
        whole = bytes(self._rest)
        events: list[bytes] = []
        start = 0
        while blank := _BLANK_LINE.search(whole, max(start, searched)):
            events.append(whole[start : blank.end()])
            start = blank.end()
        if start:
            del self._rest[:start]
        if len(self._rest) > self._max_bytes:
            raise EventTooLarge(f"an event is longer than {self._max_bytes} bytes")
        return events


def event_data(event: bytes) -> bytes:
    """Return an event's data: its `data:` lines without the prefix, joined by line feeds."""
    if event.startswith(b"data: ") and event.find(b"\n") == len(event) - 2 and b"\r" not in event:
        return event[6:-2]  # the shape that engines send
    lines = [line[5:].removeprefix(b" ") for line in event.splitlines() if line.startswith(b"data:")]
    return b"\n".join(lines)
