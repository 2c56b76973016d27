"""Answers of an engine, with the names of adapters that clients know in place of the engine's own.

The engine's names are unmistakable, so they are replaced wherever they stand, in text of any form; a piece that ends in
what may be the beginning of one waits for the next piece.  Events of a stream end with a line, so they never wait.
"""

from collections.abc import Mapping
from typing import Final

from inferplane_workers.agent.adapters import ENGINE_NAME, ENGINE_PREFIX

_PREFIX: Final = ENGINE_PREFIX.encode()
_LENGTH: Final = len(_PREFIX) + 16
_DIGITS: Final = frozenset(b"0123456789abcdef")


class Wording:
    """One answer; feed it what arrives, send on what it returns."""

    __slots__ = ("_rest", "_table")

    def __init__(self, table: Mapping[bytes, bytes]) -> None:
        self._table = table
        self._rest = b""

    def feed(self, data: bytes) -> bytes:
        data, self._rest = self._rest + data, b""
        kept = _beginning(data)
        if kept:
            data, self._rest = data[:-kept], data[-kept:]
        return self.whole(data)

    def finish(self) -> bytes:
        rest, self._rest = self._rest, b""
        return self.whole(rest)

    def whole(self, data: bytes) -> bytes:
        if _PREFIX not in data:
            return data
        return ENGINE_NAME.sub(lambda found: self._table.get(found[0], found[0]), data)


def _beginning(data: bytes) -> int:
    """Return how many bytes at the end may be the beginning of a name."""
    if data.endswith(b"\n"):
        return 0
    window = data[-(_LENGTH - 1) :]
    return next((len(window) - at for at in range(len(window)) if _may_begin(window[at:])), 0)


def _may_begin(tail: bytes) -> bool:
    head, digits = tail[: len(_PREFIX)], tail[len(_PREFIX) :]
    return _PREFIX.startswith(head) and all(digit in _DIGITS for digit in digits)
