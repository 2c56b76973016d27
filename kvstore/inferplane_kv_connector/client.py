"""The store as an engine sees it: every call has a deadline, and a store that fails is an empty one.

Problem: a hung disk or a dead store must not fail or delay a request.  Idea: all calls go through one connection with a
socket timeout; after any error the connection is dropped, and for `RETRY_S` everything is a miss without asking.  The
store forgets what a dropped connection held: its half-written blocks and its readers.
Invariant: no method raises because of the store; the worst answer is "not there".
"""

import contextlib
import logging
import mmap
import os
import socket
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from inferplane_kv_connector.envelope import Label
from inferplane_kv_connector.keys import ANY_SPACE
from inferplane_kv_connector.wire import PROTOCOL, Message, receive, receive_with_descriptor, send

RETRY_S: Final = 2.0
_log = logging.getLogger("vllm.inferplane_kv")
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Held:
    """A block that stays where it is until it is released."""

    label: Label
    tag: bytes
    tier: str
    payload: memoryview


@dataclass(slots=True)
class Space:
    """Room for a block that nobody else sees before it is committed."""

    label: Label
    payload: memoryview


class StoreClient:
    """One connection.  Calls are serialised; use one client per thread that must not wait for another."""

    def __init__(
        self,
        address: str,
        *,
        deadline_s: float,
        space: bytes = ANY_SPACE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`address` is the path of the store's socket, `space` which blocks this engine can read."""
        self._address = address
        self._space = space
        self._deadline_s = deadline_s
        self._clock = clock
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._arena: mmap.mmap | None = None
        self._silent_until = 0.0
        self.failures = 0

    def find(self, keys: Sequence[bytes], *, told: Message | None = None) -> list[str]:
        """Return the tier of each key up to the first that is not there; `told`: what this engine says of itself."""
        message = {"op": "find", "keys": _texts(keys), "told": told or {}}
        return self._ask(message, lambda reply: [str(tier) for tier in reply["tiers"]]) or []

    def get(self, keys: Sequence[bytes]) -> list[Held | None]:
        """Bring blocks into the arena and hold them there; None for each that is gone."""

        def read(reply: Message) -> list[Held | None]:
            return [p and self._held(key, p) for key, p in zip(keys, reply["places"], strict=True)]

        return self._ask({"op": "get", "keys": _texts(keys)}, read) or [None] * len(keys)

    def release(self, keys: Sequence[bytes], *, bad: Sequence[bytes] = ()) -> None:
        """Let go of blocks; `bad` are those whose bytes are not what was sealed."""
        self._ask({"op": "release", "keys": _texts(keys), "bad": _texts(bad)}, _nothing)

    def put(self, labels: Sequence[Label]) -> list[Space | None]:
        """Ask for room; None for each block that is there already or not wanted."""

        def read(reply: Message) -> list[Space | None]:
            return [
                None if offset is None else Space(label, self._bytes(int(offset), label.size))
                for label, offset in zip(labels, reply["places"], strict=True)
            ]

        blocks = [[each.key.hex(), each.owner.hex(), each.size, each.mark, each.space.hex()] for each in labels]
        return self._ask({"op": "put", "blocks": blocks}, read) or [None] * len(labels)

    def commit(self, sealed: Sequence[tuple[bytes, bytes]]) -> None:
        """Make blocks visible: (key, tag) of each."""
        self._ask({"op": "commit", "blocks": [[key.hex(), tag.hex()] for key, tag in sealed]}, _nothing)

    def abort(self, keys: Sequence[bytes]) -> None:
        self._ask({"op": "abort", "keys": _texts(keys)}, _nothing)

    def ask(self, message: Message) -> Message | None:
        """Send any request; None when there is no answer.  For tools."""
        return self._ask(message, lambda reply: reply)

    def close(self) -> None:
        with self._lock:
            self._drop()

    def _ask(self, message: Message, read: Callable[[Message], _T]) -> _T | None:
        # What a reply points to is looked up before anyone else can drop the connection and its memory.
        with self._lock:
            kept = self._socket is not None
            if not kept and not self._connect():
                return None
            try:
                return self._exchange(message, read)
            except ConnectionError as error:
                # The store was started anew since the last call: ask the new one, once.
                self._drop()
                if kept:
                    return self._again(message, read)
                self._failed(error)
            except (OSError, KeyError, TypeError, ValueError) as error:
                self._failed(error)
            return None

    def _again(self, message: Message, read: Callable[[Message], _T]) -> _T | None:
        try:
            return self._exchange(message, read) if self._connect() else None
        except (OSError, KeyError, TypeError, ValueError) as error:
            self._failed(error)
            return None

    def _exchange(self, message: Message, read: Callable[[Message], _T]) -> _T | None:
        assert self._socket is not None  # noqa: S101 - just connected
        send(self._socket, message)
        reply = receive(self._socket)
        if "error" in reply:
            _log.warning("the KV store refused %s: %s", message["op"], reply["error"])
            return None
        return read(reply)

    def _connect(self) -> bool:
        if self._clock() < self._silent_until:
            return False
        try:
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self._socket.settimeout(self._deadline_s)
            self._socket.connect(self._address)
            send(self._socket, {"op": "hello", "version": PROTOCOL, "space": self._space.hex()})
            reply, descriptor = receive_with_descriptor(self._socket)
            try:
                self._arena = mmap.mmap(descriptor, int(reply["arena"]))
            finally:
                os.close(descriptor)
        except (OSError, KeyError, ValueError) as error:
            self._failed(error)
            return False
        _log.info("the KV store at %s answers", self._address)
        return True

    def _failed(self, error: Exception) -> None:
        self.failures += 1
        _log.warning("the KV store at %s fails, everything is a miss for %g s: %s", self._address, RETRY_S, error)
        self._silent_until = self._clock() + RETRY_S
        self._drop()

    def _drop(self) -> None:
        if self._socket is not None:
            self._socket.close()
        self._socket = None
        if self._arena is not None:
            # Blocks in use still point into the mapping: it goes when the last of them does.
            with contextlib.suppress(BufferError):
                self._arena.close()
        self._arena = None

    def _held(self, key: bytes, place: dict[str, Any]) -> Held:
        label = Label(
            key,
            bytes.fromhex(place["owner"]),
            int(place["size"]),
            int(place["mark"]),
            bytes.fromhex(place["space"]),
        )
        return Held(
            label, bytes.fromhex(place["tag"]), str(place["tier"]), self._bytes(int(place["offset"]), label.size)
        )

    def _bytes(self, offset: int, size: int) -> memoryview:
        assert self._arena is not None  # noqa: S101 - a reply came over its connection
        return memoryview(self._arena)[offset : offset + size]


def _texts(keys: Sequence[bytes]) -> list[str]:
    return [key.hex() for key in keys]


def _nothing(_: Message) -> None:
    return None
