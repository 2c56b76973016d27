"""One end of a pair of sockets between the index process and a gateway: frames, questions and answers.

Problem: thousands of small frames a second, and an end that may die or stop at any moment.  Idea: what is sent in one
round of the loop leaves in one write; a peer that lets too much pile up is cut off, and gets everything anew when it
has connected again.  Trade-off: no back-pressure, since who hears the agents must not wait for a gateway.
Invariant: frames arrive in order and whole, or `lost` is called, once.
"""

import asyncio
from collections.abc import Callable
from typing import Final, Protocol, cast

import structlog

from inferplane_router.processes.errors import BrokenFrameError, ChannelLostError
from inferplane_router.processes.frames import Framer, Kind, Question, frame, numbered, split_number

MOST_UNREAD: Final = 64 << 20
"""Bytes that a peer may leave unread."""
_ANSWER_S: Final = 5.0
_GATHER_S: Final = 0.01
"""How long what only sharpens predictions waits for more of it: each frame alone wakes up a process."""
_log = structlog.get_logger("inferplane.processes")


class Owner(Protocol):
    """Who uses a channel."""

    def received(self, channel: "Channel", kind: Kind, body: bytes, /) -> None: ...

    def asked(self, channel: "Channel", question: Question, body: bytes, answer: Callable[[bytes], None], /) -> None:
        """Answer a question, at once or later."""
        ...

    def lost(self, channel: "Channel", /) -> None: ...


class Channel(asyncio.Protocol):
    """Give it to `loop.create_unix_connection`."""

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self._framer = Framer()
        self._transport: asyncio.Transport | None = None
        self._unsent: list[bytes] = []
        self._hurried = False
        self._questions: dict[int, asyncio.Future[bytes]] = {}
        self._asked = 0
        self.name = ""
        """Of the peer, once it has said it."""
        self.closed = asyncio.get_running_loop().create_future()

    def send(self, kind: Kind, body: bytes = b"", *, hurry: bool = True) -> None:
        """Send a frame with the others of this round, or of the next moment; to nobody once the channel is lost."""
        if self._transport is None:
            return
        self._unsent.append(frame(kind, body))
        loop = asyncio.get_running_loop()
        if hurry and not self._hurried:
            self._hurried = True
            loop.call_soon(self._flush)
        elif not hurry and len(self._unsent) == 1:
            loop.call_later(_GATHER_S, self._flush)

    async def ask(self, question: Question, body: bytes = b"", *, deadline_s: float = _ANSWER_S) -> bytes:
        """Return the peer's answer; a ChannelLostError without one."""
        if self._transport is None:
            raise ChannelLostError("nobody is there to be asked")
        self._asked += 1
        number = self._asked
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._questions[number] = answer
        self.send(Kind.ASK, numbered(number, bytes((question,)) + body))
        try:
            async with asyncio.timeout(deadline_s):
                return await answer
        except TimeoutError:
            raise ChannelLostError(f"no answer within {deadline_s:g} s") from None
        finally:
            del self._questions[number]

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    # Called by the loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        try:
            for kind, body in self._framer.feed(data):
                self._take(kind, body)
        except BrokenFrameError as error:
            _log.error("a channel between two processes is broken", peer=self.name, error=str(error))
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._transport = None
        self._unsent.clear()
        for answer in self._questions.values():
            if not answer.done():
                answer.set_exception(ChannelLostError("the process that was asked is gone"))
        if not self.closed.done():
            self.closed.set_result(None)
        self._owner.lost(self)

    # Inside.

    def _take(self, kind: Kind, body: bytes) -> None:
        if kind is Kind.ASK:
            number, rest = split_number(body)
            self._owner.asked(
                self, Question(rest[0]), rest[1:], lambda answer: self.send(Kind.ANSWER, numbered(number, answer))
            )
        elif kind is Kind.ANSWER:
            number, rest = split_number(body)
            waiting = self._questions.get(number)
            if waiting is not None and not waiting.done():
                waiting.set_result(rest)
        else:
            self._owner.received(self, kind, body)

    def _flush(self) -> None:
        self._hurried = False
        if self._transport is None or not self._unsent:
            return
        self._transport.write(b"".join(self._unsent))
        self._unsent.clear()
        if self._transport.get_write_buffer_size() > MOST_UNREAD:
            _log.error("a process reads too slowly and is cut off", peer=self.name)
            self.close()
