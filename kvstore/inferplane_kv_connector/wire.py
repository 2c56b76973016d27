"""Messages between engine and store, over a local stream socket: a length, then JSON.  Block bytes never travel here.

The store answers every request in order.  A reply to `hello` carries the arena's file descriptor, so the engine maps
the memory without sharing a folder with the store.

| request | reply |
|---|---|
| `hello {version}` | `{arena: bytes}` and the descriptor |
| `find {keys}` | `{tiers}`: where each is, up to the first that is nowhere |
| `get {keys}` | `{places}`: offset, size, owner, tag, tier of each, held until `release`; null for what is gone |
| `release {keys, bad}` | `{}`: `bad` were not what their tags say |
| `put {blocks: [[key, owner, size]]}` | `{places}`: offset where the bytes go; null: not wanted |
| `commit {blocks: [[key, tag]]}` | `{}`: from now on others find them |
| `abort {keys}` | `{}` |
| `stat`, `list {limit}`, `verify`, `purge {owner}`, `pin {keys, on}`, `drain {tier}` | for people |
"""

import json
import socket
import struct
from typing import Any, Final, TypeAlias

PROTOCOL: Final = 1
MOST_BYTES: Final = 64 << 20
"""Longest message."""
_LENGTH: Final = struct.Struct("<I")
Message: TypeAlias = dict[str, Any]


class WireError(ConnectionError):
    """The other side said what is no message, or went away."""


def send(to: socket.socket, message: Message, *, descriptor: int | None = None) -> None:
    raw = json.dumps(message, separators=(",", ":")).encode()
    framed = _LENGTH.pack(len(raw)) + raw
    if descriptor is None:
        to.sendall(framed)
        return
    sent = socket.send_fds(to, [framed], [descriptor])
    to.sendall(framed[sent:])


def receive(source: socket.socket) -> Message:
    """Raise WireError when the other side has gone or speaks nonsense, TimeoutError when it is silent."""
    return _decoded(_exactly(source, _LENGTH.unpack(_exactly(source, _LENGTH.size))[0]))


def receive_with_descriptor(source: socket.socket) -> tuple[Message, int]:
    """Read the reply to `hello`; the caller owns the descriptor."""
    head, descriptors, _, _ = socket.recv_fds(source, _LENGTH.size, 1)
    if not descriptors:
        raise WireError("the store sent no memory: another program listens there, or another version")
    head += _exactly(source, _LENGTH.size - len(head))
    return _decoded(_exactly(source, _LENGTH.unpack(head)[0])), descriptors[0]


def _exactly(source: socket.socket, size: int) -> bytes:
    if size > MOST_BYTES:
        raise WireError(f"a message of {size} bytes: at most {MOST_BYTES} are allowed")
    got = bytearray()
    while len(got) < size:
        piece = source.recv(size - len(got))
        if not piece:
            raise WireError("the other side has closed the connection")
        got += piece
    return bytes(got)


def _decoded(raw: bytes) -> Message:
    try:
        message: Any = json.loads(raw)
    except ValueError as error:
        raise WireError("a message is no JSON") from error
    if not isinstance(message, dict):
        raise WireError("a message is no object")
    return message  # pyright: ignore[reportUnknownVariableType]  JSON: fields are checked by whoever reads them
