"""Messages between engine and store, over a local stream socket: a length, then JSON.  Block bytes never travel here.

The store answers every request in order.  A reply to `hello` carries the arena's file descriptor, so the engine maps
the memory without sharing a folder with the store.

| request | reply |
|---|---|
| `hello {version, space}` | `{arena: bytes}` and the descriptor |
| `find {keys, told}` | `{tiers}`: where each is, up to the first that is nowhere; `told`: see `worth` |
| `get {keys}` | `{places}`: offset, size, owner, tag, tier of each, held until `release`; null for what is gone |
| `release {keys, bad}` | `{}`: `bad` were not what their tags say |
| `put {blocks: [[key, owner, size, mark, space]]}` | `{places}`: offset where the bytes go; null: not wanted |
| `commit {blocks: [[key, tag]]}` | `{}`: from now on others find them |
| `abort {keys}` | `{}` |
| `watch {since, wait_s}` | what changed of the marks in each tier, see `inferplane_kvstore.watching` |
| `stat`, `list {limit}`, `verify`, `purge {owner}`, `pin {keys, on}`, `drain {tier}` | for people |
"""

import json
import socket
import struct
from typing import Any, Final, TypeAlias

PROTOCOL: Final = 2
TIERS: Final = ("dram", "ssd", "redis")
"""Fastest first."""
MOST_BYTES: Final = 64 << 20
"""Longest message."""
_LENGTH: Final = struct.Struct("<I")
LENGTH_BYTES: Final = _LENGTH.size
Message: TypeAlias = dict[str, Any]


class WireError(ConnectionError):
    """The other side said what is no message, or went away."""


def frame(message: Message) -> bytes:
    """Return a message as it travels."""
    raw = json.dumps(message, separators=(",", ":")).encode()
    return _LENGTH.pack(len(raw)) + raw


def length_of(head: bytes) -> int:
    """Read how long the message behind these `LENGTH_BYTES` is.  Raises WireError when it is too long."""
    size: int = _LENGTH.unpack(head)[0]
    if size > MOST_BYTES:
        raise WireError(f"a message of {size} bytes: at most {MOST_BYTES} are allowed")
    return size


def send(to: socket.socket, message: Message, *, descriptor: int | None = None) -> None:
    framed = frame(message)
    if descriptor is None:
        to.sendall(framed)
        return
    sent = socket.send_fds(to, [framed], [descriptor])
    to.sendall(framed[sent:])


def receive(source: socket.socket) -> Message:
    """Raise WireError when the other side has gone or speaks nonsense, TimeoutError when it is silent."""
    return decoded(_exactly(source, length_of(_exactly(source, LENGTH_BYTES))))


def receive_with_descriptor(source: socket.socket) -> tuple[Message, int]:
    """Read the reply to `hello`; the caller owns the descriptor."""
    head, descriptors, _, _ = socket.recv_fds(source, _LENGTH.size, 1)
    if not descriptors:
        raise WireError("the store sent no memory: another program listens there, or another version")
    head += _exactly(source, _LENGTH.size - len(head))
    return decoded(_exactly(source, length_of(head))), descriptors[0]


def _exactly(source: socket.socket, size: int) -> bytes:
    got = bytearray()
    while len(got) < size:
        piece = source.recv(size - len(got))
        if not piece:
            raise WireError("the other side has closed the connection")
        got += piece
    return bytes(got)


def decoded(raw: bytes) -> Message:
    """Raise WireError."""
    try:
        message: Any = json.loads(raw)
    except ValueError as error:
        raise WireError("a message is no JSON") from error
    if not isinstance(message, dict):
        raise WireError("a message is no object")
    return message  # pyright: ignore[reportUnknownVariableType]  JSON: fields are checked by whoever reads them
