"""Events of a streamed answer over a connection of its own, read with as little work as can be.

Fifty streams at a time are thousands of events a second; a client library's work for each of them would take the CPU
that engines and gateway share with it on a small machine.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

_HEAD: Final = (
    "POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
)
_OK: Final = 200
_LONGEST: Final = 1 << 20
_DATA: Final = b"data: "


class BrokenError(Exception):
    """The connection did not do what was asked of it; the text says how it ended."""


async def events(url: str, body: Mapping[str, Any]) -> AsyncGenerator[bytes]:
    """Yield what stands behind each `data: `.  Raises BrokenError."""
    parts = urlsplit(url)
    content = json.dumps(body).encode()
    head = _HEAD.format(path=parts.path, host=parts.netloc, length=len(content)).encode()
    try:
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port or 80, limit=_LONGEST)
        try:
            writer.write(head + content)
            headers = await reader.readuntil(b"\r\n\r\n")
            status = int(headers.split(b" ", 2)[1])
            if status != _OK:
                raise BrokenError(f"{status}: {(await _rest(reader, headers)).decode(errors='replace')[:500]}")
            async for event in _events(reader):
                yield event
        finally:
            writer.close()
    except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
        raise BrokenError(f"{type(error).__name__}: {error}") from error


async def _rest(reader: asyncio.StreamReader, headers: bytes) -> bytes:
    """Read the body of an answer that is no stream."""
    lines = (line.partition(b":") for line in headers.lower().split(b"\r\n"))
    length = next((int(value) for name, _, value in lines if name == b"content-length"), 0)
    return await reader.readexactly(length)


async def _events(reader: asyncio.StreamReader) -> AsyncGenerator[bytes]:
    """Join the chunks of a body and cut it into events."""
    left = b""
    while size := int(await reader.readuntil(b"\r\n"), 16):
        left += (await reader.readexactly(size + 2))[:-2]
        *whole, left = left.split(b"\n\n")
        for event in whole:
            if event.startswith(_DATA):
                yield event[len(_DATA) :]
