"""Redis or Valkey as the tier that nodes share: values with an expiry, and a server that may be slow or gone.

Redis evicts by its own rules (`maxmemory`, `allkeys-lfu`); the store gives each value a time to live and asks how full
it is.  After an error nothing is asked for `REST_S`, so that a dead server costs one deadline and not one a request.
Invariant: no method raises; what cannot be had is not there.
"""

import contextlib
import threading
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import structlog

from inferplane_kv_connector.envelope import HEADER_BYTES, Header, unpack
from inferplane_kvstore.errors import TierError
from inferplane_kvstore.resp import RedisAddress, RedisConnection

REST_S: Final = 5.0
_BATCH: Final = 16
"""Values asked for together."""
_log = structlog.get_logger()
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class RemoteSettings:
    address: RedisAddress
    prefix: bytes = b"inferplane:kv:"
    ttl_s: float = 86400.0
    deadline_s: float = 2.0


class Remote:
    """Thread-safe: each call takes a connection of its own from a small stock."""

    def __init__(self, settings: RemoteSettings, clock: Callable[[], float]) -> None:
        self._settings = settings
        self._clock = clock
        self._lock = threading.Lock()
        self._idle: list[RedisConnection] = []
        self._rests_until = 0.0
        self.failures = 0
        self.on_deleted: Callable[[Sequence[bytes]], None] = lambda _: None
        """Told of what was asked to go, whether it was there or not."""

    def present(self, keys: Sequence[bytes]) -> int:
        """Return how many of the keys are there before the first that is not."""

        def ask(connection: RedisConnection) -> int:
            for index, there in enumerate(connection.ask_all([[b"EXISTS", self._name(key)] for key in keys])):
                if there != 1:
                    return index
            return len(keys)

        return self._with(ask, 0) if keys else 0

    def headers(self, keys: Sequence[bytes]) -> list[Header | None]:
        """Return the headers that stand there."""

        def ask(connection: RedisConnection) -> list[Header | None]:
            last = str(HEADER_BYTES - 1).encode()
            raws = connection.ask_all([[b"GETRANGE", self._name(key), b"0", last] for key in keys])
            return [unpack(raw) if isinstance(raw, bytes) else None for raw in raws]

        return self._with(ask, [None] * len(keys)) if keys else []

    def fetch(self, wanted: Sequence[tuple[bytes, memoryview]]) -> list[Header | None]:
        """Read values into memory; None for each that is gone."""
        got: list[Header | None] = []

        def ask(connection: RedisConnection) -> None:
            for start in range(0, len(wanted), _BATCH):
                batch = wanted[start : start + _BATCH]
                connection.send([[b"GET", self._name(key)] for key, _ in batch])
                for key, payload in batch:
                    raw = bytearray(HEADER_BYTES)
                    there = connection.value_into([memoryview(raw), payload])
                    header = unpack(bytes(raw)) if there else None
                    got.append(header if header is not None and header.label.key == key else None)

        self._with(ask, None)
        return got + [None] * (len(wanted) - len(got))

    def store(self, blocks: Sequence[tuple[bytes, memoryview]]) -> int:
        """Write values, each a header and its bytes in one stretch; return how many the server took."""

        def ask(connection: RedisConnection) -> int:
            ttl = str(max(1, int(self._settings.ttl_s))).encode()
            for key, record in blocks:
                connection.send([[b"SETEX", self._name(key), ttl, record]])
            return sum(connection.reply() == b"OK" for _ in blocks)

        return self._with(ask, 0)

    def delete(self, keys: Sequence[bytes]) -> None:
        if keys:
            self._with(lambda connection: connection.ask([b"UNLINK", *(self._name(key) for key in keys)]), None)
            self.on_deleted(keys)

    def used_bytes(self) -> int | None:
        """Return the memory that the server uses, for whomever; None when it does not answer."""

        def ask(connection: RedisConnection) -> int | None:
            said = connection.ask([b"INFO", b"memory"])
            lines = said.decode().splitlines() if isinstance(said, bytes) else []
            return next((int(line.split(":")[1]) for line in lines if line.startswith("used_memory:")), None)

        return self._with(ask, None)

    def close(self) -> None:
        with self._lock:
            while self._idle:
                self._idle.pop().close()

    def _name(self, key: bytes) -> bytes:
        return self._settings.prefix + key.hex().encode()

    def _with(self, ask: Callable[[RedisConnection], _T], otherwise: _T) -> _T:
        if self._clock() < self._rests_until:
            return otherwise
        try:
            with self._connection() as connection:
                return ask(connection)
        except TierError as error:
            self.failures += 1
            self._rests_until = self._clock() + REST_S
            _log.warning("remote tier fails", error=str(error), rest_s=REST_S)
            return otherwise

    @contextlib.contextmanager
    def _connection(self) -> Generator[RedisConnection]:
        with self._lock:
            connection = self._idle.pop() if self._idle else None
        if connection is None:
            connection = RedisConnection(self._settings.address, deadline_s=self._settings.deadline_s)
        yield connection
        with self._lock:  # after an error it is closed and not kept
            self._idle.append(connection)
