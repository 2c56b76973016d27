"""The few words of Redis' protocol that a block store needs, over one blocking connection.

Problem: values are megabytes; a general client copies each several times and decodes what needs no decoding.
Idea: write commands in one go, read a value straight into the memory where it is wanted.  TLS and ACL users as Redis
has them.
Trade-off: one server: no cluster, no sentinel.
Invariant: after any error the connection is unusable and closed, because replies could belong to other questions.
"""

import socket
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

from inferplane_kvstore.errors import ConfigError, TierError

if TYPE_CHECKING:
    from io import BufferedReader

_LINE_MOST: Final = 4096
_PORT: Final = 6379


@dataclass(frozen=True, slots=True)
class RedisAddress:
    """`redis://[user:password@]host:port[/db]`, `rediss://` for TLS, or host:port."""

    host: str
    port: int = _PORT
    database: int = 0
    user: str = ""
    password: str = ""
    tls: bool = False
    ca_file: str = ""

    @staticmethod
    def parse(text: str) -> "RedisAddress":
        """Raise ConfigError."""
        parts = urlsplit(text if "://" in text else f"redis://{text}")
        if parts.scheme not in ("redis", "rediss") or not parts.hostname:
            raise ConfigError("redis.url", f"{parts.scheme}:// has no meaning here", "use redis:// or rediss://")
        database = parts.path.strip("/") or "0"
        try:
            return RedisAddress(
                parts.hostname,
                parts.port or _PORT,
                int(database),
                unquote(parts.username or ""),
                unquote(parts.password or ""),
                tls=parts.scheme == "rediss",
            )
        except ValueError as error:
            raise ConfigError("redis.url", str(error), "use redis://host:port/number") from error


Part = bytes | memoryview


class RedisConnection:
    """Every method raises TierError, and closes the connection then."""

    def __init__(self, address: RedisAddress, *, deadline_s: float) -> None:
        try:
            self._socket: socket.socket = socket.create_connection((address.host, address.port), deadline_s)
            if address.tls:
                context = ssl.create_default_context(cafile=address.ca_file or None)
                self._socket = context.wrap_socket(self._socket, server_hostname=address.host)
            self._socket.settimeout(deadline_s)
            self._file: BufferedReader = self._socket.makefile("rb", buffering=1 << 16)  # type: ignore[assignment]
        except OSError as error:
            raise TierError(f"{address.host}:{address.port} does not answer: {error}") from error
        if address.password:
            self.ask([b"AUTH", *([address.user.encode()] if address.user else []), address.password.encode()])
        if address.database:
            self.ask([b"SELECT", str(address.database).encode()])

    def ask(self, command: Sequence[Part]) -> bytes | int | None:
        """Send one command and read its reply, which is no array."""
        return self.ask_all([command])[0]

    def ask_all(self, commands: Sequence[Sequence[Part]]) -> list[bytes | int | None]:
        """Send commands together and read their replies."""
        self.send(commands)
        return [self.reply() for _ in commands]

    def send(self, commands: Sequence[Sequence[Part]]) -> None:
        head = bytearray()
        try:
            for command in commands:
                head += b"*%d\r\n" % len(command)
                for part in command:
                    head += b"$%d\r\n" % len(part)
                    if len(part) > _LINE_MOST:
                        self._socket.sendall(head)
                        self._socket.sendall(part)
                        head.clear()
                    else:
                        head += part
                    head += b"\r\n"
            self._socket.sendall(head)
        except OSError as error:
            raise self._broken(error) from error

    def reply(self) -> bytes | int | None:
        kind, text = self._line()
        if kind == b"$":
            return self._value(int(text))
        if kind == b":":
            return int(text)
        if kind == b"+":
            return text
        raise self._broken(text.decode(errors="replace"))

    def value_into(self, parts: Sequence[memoryview]) -> bool:
        """Read a value over several stretches of memory; False when there is none, or not one of that size."""
        kind, text = self._line()
        if kind != b"$":
            raise self._broken(text.decode(errors="replace"))
        size = int(text)
        if size != sum(len(part) for part in parts):
            self._value(size)
            return False
        try:
            for part in parts:
                if self._file.readinto(part) != len(part):
                    raise self._broken("it closed the connection")
            self._file.read(2)
        except OSError as error:
            raise self._broken(error) from error
        return True

    def close(self) -> None:
        self._socket.close()

    def _value(self, size: int) -> bytes | None:
        return None if size < 0 else self._exactly(size + 2)[:-2]

    def _line(self) -> tuple[bytes, bytes]:
        try:
            line = self._file.readline(_LINE_MOST)
        except OSError as error:
            raise self._broken(error) from error
        if not line.endswith(b"\r\n"):
            raise self._broken("it closed the connection")
        return line[:1], line[1:-2]

    def _exactly(self, size: int) -> bytes:
        try:
            raw = self._file.read(size)
        except OSError as error:
            raise self._broken(error) from error
        if len(raw) != size:
            raise self._broken("it closed the connection")
        return raw

    def _broken(self, why: object) -> TierError:
        self.close()
        return TierError(f"Redis: {why}")
