"""Requests out of a byte stream, sans I/O.

llhttp does the bytes, `validation` the rules, `whole_request` what needs neither.
This module adds the bounds (head, body) that must hold before memory is spent, and keeps what is complete in arrival
order.  `feed` never raises: a stream that cannot be followed leaves a `rejection` behind the requests that came before
it, because those still deserve their answers.
Invariant: after a rejection, or a request that ends its connection, further bytes are ignored.
"""

from collections import deque
from enum import Enum

import httptools

from inferplane_runtime.http.api import Headers, Limits, Request
from inferplane_runtime.http.errors import HttpReject
from inferplane_runtime.http.validation import Framing, check_head
from inferplane_runtime.http.whole_request import whole_request
from inferplane_runtime.values import value

_UPGRADE = frozenset((b"upgrade", b"http2-settings"))


class ReadPhase(Enum):
    """What the stream is in the middle of."""

    IDLE = "idle"
    HEAD = "head"
    BODY = "body"
    DONE = "done"


@value(frozen=True, slots=True)
class Incoming:
    """A complete request, and what its connection allows for the answer."""

    request: Request
    keep_alive: bool
    version: str


class RequestParser:
    """Feed it bytes; take `Incoming`s from `ready`."""

    __slots__ = (
        "_began",
        "_body",
        "_body_size",
        "_framing",
        "_head_size",
        "_keep_alive",
        "_limits",
        "_method",
        "_pairs",
        "_parser",
        "_target",
        "_version",
        "continue_due",
        "phase",
        "ready",
        "rejection",
    )

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.ready: deque[Incoming] = deque()
        self.rejection: HttpReject | None = None
        self.phase = ReadPhase.IDLE
        self.continue_due = False
        """The client waits for `100 Continue`; the owner clears this when it has sent it."""
        self._method = b""
        self._version = "1.1"
        self._parser = httptools.HttpRequestParser(self)
        self._reset()

    def _reset(self) -> None:
        self._target = b""
        self._pairs: list[tuple[bytes, bytes]] = []
        self._body: list[bytes] = []
        self._body_size = 0
        self._head_size = 0
        self._began = False
        self._framing: Framing | None = None
        self._keep_alive = True

    def feed(self, data: bytes) -> None:
        if self.phase is ReadPhase.IDLE and (request := whole_request(data, self._limits)) is not None:
            self.ready.append(Incoming(request, keep_alive=True, version="1.1"))
            return
        if self.phase is ReadPhase.DONE:
            return
        try:
            self._execute(data)
            self._bound_head(len(data))
        except HttpReject as rejection:
            self._refuse(rejection)

    def eof(self) -> None:
        """Take note that the peer will send no more: a message that has begun is truncated."""
        if self.phase in (ReadPhase.HEAD, ReadPhase.BODY):
            self._refuse(HttpReject(400, "the connection ended in the middle of the request"))

    def expired(self) -> None:
        """Give up on a message that has begun and does not arrive."""
        if self.phase in (ReadPhase.HEAD, ReadPhase.BODY):
            self._refuse(HttpReject(408, f"the request's {self.phase.value} did not arrive in time"))

    def _refuse(self, rejection: HttpReject) -> None:
        if self.phase is not ReadPhase.DONE:
            self.phase = ReadPhase.DONE
            self.continue_due = False
            self.rejection = rejection
            self._body = []

    def _execute(self, data: bytes) -> None:
        upgraded_at = self._feed(data)
        if upgraded_at is not None:  # not inside the handler: its exception would become the context of the next one
            self._decline_upgrade(data[upgraded_at:])

    def _feed(self, data: bytes) -> int | None:
        """Parse; return where a request that asks for an upgrade ended its head."""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            return int(upgrade.args[0])
        except httptools.HttpParserCallbackError as error:
            if isinstance(error.__context__, HttpReject):
                raise error.__context__ from None
            raise
        except httptools.HttpParserInvalidMethodError:
            raise HttpReject(400, "invalid request line: unknown method") from None
        except httptools.HttpParserError as error:
            if self.phase is not ReadPhase.DONE:  # bytes after a request that closes its connection are ignored
                raise HttpReject(400, f"malformed request: {error}") from None
        return None

    def _decline_upgrade(self, rest: bytes) -> None:
        """Go on in HTTP/1.1: llhttp stops at `Upgrade`, which a server may ignore and Java's client sends by default.

        The head is given to a fresh parser without what asked for the upgrade, but with its framing.
        """
        if self._framing is None:
            raise HttpReject(400, "malformed upgrade")
        kept = (_without_upgrade(pair) for pair in self._pairs if pair[0] not in _UPGRADE)
        fields = [b"%b: %b\r\n" % pair for pair in kept]
        line = b"%b %b HTTP/%b\r\n" % (self._method, self._target, self._version.encode())
        self._parser = httptools.HttpRequestParser(self)
        self._execute(b"%b%b\r\n%b" % (line, b"".join(fields), rest))

    def _bound_head(self, size: int) -> None:
        """Bound what llhttp collects or skips without a call: unfinished heads, trailers, chunk extensions.

        A read in which the head or a piece of body began is not counted, for only its end may be of that kind.
        """
        if self.phase not in (ReadPhase.HEAD, ReadPhase.BODY):
            return
        if self._began:
            self._began = False
            return
        self._head_size += size
        if self._head_size > self._limits.max_header_bytes:
            part = "head" if self.phase is ReadPhase.HEAD else "framing of the body"
            raise HttpReject(431, f"the {part} is larger than {self._limits.max_header_bytes} bytes")

    # Called by llhttp.

    def on_message_begin(self) -> None:
        self._reset()
        self._began = True
        self.phase = ReadPhase.HEAD

    def on_url(self, url: bytes) -> None:
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.phase is ReadPhase.HEAD:
            self._pairs.append((name.lower(), value.strip(b" \t")))
        else:  # trailers are read and dropped, within the bounds of a head
            self._count_trailer(len(name) + len(value) + 4)

    def _count_trailer(self, size: int) -> None:
        self._head_size += size
        if self._head_size > self._limits.max_header_bytes:
            raise HttpReject(431, "the trailers are too large")

    def on_headers_complete(self) -> None:
        parser, limits = self._parser, self._limits
        self._version = parser.get_http_version()
        self._method = parser.get_method()
        size = len(self._target) + sum(len(name) + len(value) + 4 for name, value in self._pairs)
        if size > limits.max_header_bytes:
            raise HttpReject(431, f"the head is larger than {limits.max_header_bytes} bytes")
        framing = check_head(self._method, self._target, self._version, self._pairs)
        if (framing.content_length or 0) > limits.max_body_bytes:
            raise HttpReject(413, f"the body is larger than {limits.max_body_bytes} bytes")
        self._framing = framing
        self._keep_alive = parser.should_keep_alive()
        self._head_size, self._began = 0, True
        self.continue_due = framing.expects_continue and (framing.chunked or bool(framing.content_length))
        self.phase = ReadPhase.BODY

    def on_body(self, data: bytes) -> None:
        self._body_size += len(data)
        self._head_size, self._began = 0, True
        self.continue_due = False  # the client did not wait
        if self._body_size > self._limits.max_body_bytes:
            raise HttpReject(413, f"the body is larger than {self._limits.max_body_bytes} bytes")
        self._body.append(data)

    def on_message_complete(self) -> None:
        framing = self._framing
        if framing is None or self._parser.should_upgrade():
            return
        body = self._body
        request = Request(
            self._method,
            framing.path,
            framing.query,
            Headers(tuple(self._pairs)),
            body[0] if len(body) == 1 else b"".join(body),
        )
        self.ready.append(Incoming(request, self._keep_alive, self._version))
        self.phase = ReadPhase.IDLE if self._keep_alive else ReadPhase.DONE
        self._reset()


def _without_upgrade(pair: tuple[bytes, bytes]) -> tuple[bytes, bytes]:
    """Leave the other options of `Connection`, `close` above all."""
    name, value = pair
    if name != b"connection":
        return pair
    options = (option.strip(b" \t") for option in value.split(b","))
    return name, b", ".join(option for option in options if option.lower() not in _UPGRADE)
