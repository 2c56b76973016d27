"""One engine's connection: what it holds and what it writes, given back when it goes.

An engine that is killed leaves readers and half-written blocks behind; both belong to its connection and end with it.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from inferplane_kv_connector.envelope import HEADER_BYTES, Label
from inferplane_kv_connector.keys import ANY_SPACE, KEY_BYTES, OWNER_BYTES, SPACE_BYTES
from inferplane_kv_connector.wire import PROTOCOL, Message
from inferplane_kvstore.counters import DRAM
from inferplane_kvstore.inspecting import Inspector
from inferplane_kvstore.promoting import Promoter
from inferplane_kvstore.store import Store
from inferplane_kvstore.tier_index import Entry
from inferplane_kvstore.watching import Watching

MOST_KEYS: Final = 100_000


class BadRequestError(ValueError):
    """A message that means nothing; the text goes back to whoever sent it."""


class Session:
    """Answers messages in order.  Not thread-safe: a connection has one thread."""

    def __init__(self, store: Store, promoter: Promoter, inspector: Inspector, watching: Watching) -> None:
        self._store = store
        self._promoter = promoter
        self._inspector = inspector
        self._space = ANY_SPACE
        self._held: dict[bytes, list[Entry]] = {}
        self._writing: set[bytes] = set()
        self._answers: Mapping[str, Callable[[Message], Message]] = {
            "find": self._find,
            "get": self._get,
            "release": self._release,
            "put": self._put,
            "commit": self._commit,
            "abort": self._abort,
            "watch": watching.watch,
        }

    def answer(self, message: Message) -> Message:
        """Raise BadRequestError."""
        op = message.get("op")
        if op == "hello":
            return self._hello(message)
        answer = self._answers.get(str(op)) or self._inspector.answers.get(str(op))
        if answer is None:
            raise BadRequestError(f"op: {op!r} is unknown; use the client of this version")
        try:
            return answer(message)
        except (KeyError, TypeError, ValueError) as error:
            raise BadRequestError(f"{op}: {error!r}") from error

    def end(self) -> None:
        with self._store.changed:
            self._store.engine_gone(id(self))
            self._store.journal.gone(self._space)
            self._store.changed.notify_all()
        for entries in self._held.values():
            for entry in entries:
                self._store.release(entry, bad=False)
        for key in self._writing:
            self._store.abort(key)
        self._held.clear()
        self._writing.clear()

    def _hello(self, message: Message) -> Message:
        if message.get("version") != PROTOCOL:
            raise BadRequestError(f"version: {message.get('version')!r} is not {PROTOCOL}; use the same release")
        with self._store.changed:
            self._store.journal.gone(self._space)
            self._space = _sized(str(message.get("space", ANY_SPACE.hex())), SPACE_BYTES)
            self._store.journal.connected(self._space)
            self._store.changed.notify_all()
        return {"arena": self._store.arena.capacity}

    def _find(self, message: Message) -> Message:
        told = message.get("told")
        if told:
            self._store.told[id(self)] = dict(told)
        return {"tiers": self._store.find(_keys(message["keys"]))}

    def _get(self, message: Message) -> Message:
        keys = _keys(message["keys"])
        places = self._promoter.bring(keys)
        for key, entry in zip(keys, places, strict=True):
            if entry is not None:
                self._held.setdefault(key, []).append(entry)
        return {"places": [None if entry is None else _place(entry) for entry in places]}

    def _release(self, message: Message) -> Message:
        bad = set(_keys(message["bad"]))
        for key in _keys(message["keys"]):
            entries = self._held.get(key)
            if entries:
                self._store.release(entries.pop(), bad=key in bad)
                if not entries:
                    del self._held[key]
        return {}

    def _put(self, message: Message) -> Message:
        places: list[int | None] = []
        for key, owner, size, mark, space in message["blocks"]:
            label = Label(_key(key), _owner(owner), int(size), _mark(mark), _sized(space, SPACE_BYTES))
            offset = self._store.put(label)
            if offset is not None:
                self._writing.add(label.key)
            places.append(None if offset is None else offset + HEADER_BYTES)
        return {"places": places}

    def _commit(self, message: Message) -> Message:
        for key, tag in message["blocks"]:
            raw = _key(key)
            if raw in self._writing:  # nobody completes what another writes
                self._writing.discard(raw)
                self._store.commit(raw, bytes.fromhex(tag))
        return {}

    def _abort(self, message: Message) -> Message:
        for key in _keys(message["keys"]):
            if key in self._writing:
                self._writing.discard(key)
                self._store.abort(key)
        return {}


def _place(entry: Entry) -> dict[str, Any]:
    return {
        "offset": entry.offset + HEADER_BYTES,
        "size": entry.label.size,
        "owner": entry.label.owner.hex(),
        "mark": entry.label.mark,
        "space": entry.label.space.hex(),
        "tag": entry.tag.hex(),
        "tier": entry.origin or DRAM,
    }


def _keys(texts: Sequence[str]) -> list[bytes]:
    if len(texts) > MOST_KEYS:
        raise BadRequestError(f"keys: {len(texts)} at once; ask for {MOST_KEYS} at most")
    return [_key(text) for text in texts]


def _key(text: str) -> bytes:
    return _sized(text, KEY_BYTES)


def _owner(text: str) -> bytes:
    return _sized(text, OWNER_BYTES)


def _mark(number: object) -> int:
    if not isinstance(number, int) or not 0 <= number < 1 << 64:
        raise BadRequestError(f"{number!r} is no mark of 64 bits")
    return number


def _sized(text: str, size: int) -> bytes:
    raw = bytes.fromhex(text)
    if len(raw) != size:
        raise BadRequestError(f"{text[:80]!r} has not {size} bytes")
    return raw
