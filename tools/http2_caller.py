"""A caller in memory: another implementation of HTTP/2 at the other end of a connection of ours."""

from collections.abc import Callable
from dataclasses import dataclass, field

import h2.config
import h2.connection
import h2.events

from inferplane_router.rpc.call import Call, Listener, Method
from inferplane_router.rpc.connection import Connection, RpcLimits


@dataclass
class Heard:
    """What a listener was told."""

    call: Call
    messages: list[bytes] = field(default_factory=list[bytes])
    ended: bool = False
    left: bool = False
    on_message: Callable[["Heard", bytes], None] | None = None

    def message(self, data: bytes) -> None:
        self.messages.append(data)
        if self.on_message is not None:
            self.on_message(self, data)

    def said_all(self) -> None:
        self.ended = True

    def gone(self) -> None:
        self.left = True


@dataclass
class Got:
    """What the caller was told in one stream."""

    headers: dict[str, str] = field(default_factory=dict[str, str])
    trailers: dict[str, str] = field(default_factory=dict[str, str])
    data: bytes = b""
    ended: bool = False
    reset: int | None = None

    @property
    def status(self) -> int:
        return int((self.trailers or self.headers)["grpc-status"])

    @property
    def messages(self) -> list[bytes]:
        found, data = list[bytes](), self.data
        while data:
            end = 5 + int.from_bytes(data[1:5], "big")
            found.append(data[5:end])
            data = data[end:]
        return found


def framed(message: bytes) -> bytes:
    return b"\0" + len(message).to_bytes(4, "big") + message


class Wire:
    """Both ends of a connection; what either says reaches the other in pieces of `piece` bytes."""

    def __init__(
        self,
        method: Method | None = None,
        *,
        limits: RpcLimits | None = None,
        piece: int = 1 << 30,
        on_message: Callable[[Heard, bytes], None] | None = None,
    ) -> None:
        self.heard: list[Heard] = []
        self.piece = piece
        self.closed = False
        self.said: list[bytes] = []
        self._on_message = on_message
        self.got: dict[int, Got] = {}
        self.gone_away: int | None = None
        self.connection = Connection(
            {b"/s/Call": method or self._listen},
            limits=limits or RpcLimits(),
            write=self.said.append,
            close=self._close,
        )
        self.connection.begin()
        self.client = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True))
        self.client.initiate_connection()

    def _listen(self, call: Call) -> Listener:
        heard = Heard(call, on_message=self._on_message)
        self.heard.append(heard)
        return heard

    def _close(self) -> None:
        self.closed = True

    def open(self, *, path: str = "/s/Call", last: bool = False, **more: str) -> int:
        """Begin a call; return its stream."""
        stream: int = self.client.get_next_available_stream_id()
        fields = {":method": "POST", ":scheme": "http", ":authority": "a", ":path": path}
        fields |= {"content-type": "application/grpc", "te": "trailers"}
        fields |= {name.replace("_", "-"): value for name, value in more.items()}
        self.client.send_headers(stream, list(fields.items()), end_stream=last)
        self.got[stream] = Got()
        return stream

    def say(self, stream: int, data: bytes, *, last: bool = False) -> None:
        self.client.send_data(stream, data, end_stream=last)

    def run(self, *, credit: bool = True) -> None:
        """Let both say what they have to say until neither has more; without `credit` the caller takes no more."""
        while True:
            out = self.client.data_to_send()
            for at in range(0, len(out), self.piece):
                self.connection.receive(out[at : at + self.piece])
            if not self.said:
                return
            said = b"".join(self.said)
            self.said.clear()
            for event in self.client.receive_data(said):
                self._follow(event, credit=credit)

    def _follow(self, event: h2.events.Event, *, credit: bool) -> None:
        if isinstance(event, h2.events.ConnectionTerminated):
            self.gone_away = int(event.error_code or 0)
            return
        stream = getattr(event, "stream_id", None)
        got = self.got.get(stream or 0)
        if stream is None or got is None:
            return
        if isinstance(event, h2.events.ResponseReceived):
            got.headers = {name.decode(): value.decode() for name, value in event.headers or ()}
        elif isinstance(event, h2.events.TrailersReceived):
            got.trailers = {name.decode(): value.decode() for name, value in event.headers or ()}
        elif isinstance(event, h2.events.DataReceived):
            got.data += event.data or b""
            if credit and event.flow_controlled_length:
                self.client.acknowledge_received_data(event.flow_controlled_length, stream)
        elif isinstance(event, h2.events.StreamEnded):
            got.ended = True
        elif isinstance(event, h2.events.StreamReset):
            got.reset = int(event.error_code or 0)
