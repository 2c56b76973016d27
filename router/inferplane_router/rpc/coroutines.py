"""Methods that are coroutines: for calls that are rare or that wait, where a task is no loss."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import cast

from inferplane_router.rpc.call import Call, Method
from inferplane_router.rpc.status import CallError, Status

Unary = Callable[[bytes], Awaitable[bytes]]
Streaming = Callable[[bytes], AsyncIterator[bytes]]


def unary(serve: Unary) -> Method:
    """Answer one message with one."""

    async def answers(request: bytes) -> AsyncIterator[bytes]:
        yield await serve(request)

    return streaming(answers)


def streaming(serve: Streaming) -> Method:
    """Answer one message with any number."""

    def begin(call: Call) -> _Awaiting:
        return _Awaiting(call, serve)

    return begin


class _Awaiting:
    """Serves one call in a task of its own."""

    def __init__(self, call: Call, serve: Streaming) -> None:
        self._call = call
        self._serve = serve
        self._task: asyncio.Task[None] | None = None

    def message(self, data: bytes) -> None:
        if self._task is not None:
            raise CallError(Status.INVALID_ARGUMENT, "one message is asked for")
        self._task = asyncio.get_running_loop().create_task(self._run(data), name="call")
        self._task.add_done_callback(self._ended)

    def said_all(self) -> None:
        if self._task is None:
            raise CallError(Status.INVALID_ARGUMENT, "the request is missing")

    def gone(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _run(self, data: bytes) -> None:
        answers = cast("aclosing[AsyncIterator[bytes]]", aclosing(self._serve(data)))  # type: ignore[type-var]
        async with answers as found:
            async for answer in found:
                self._call.send(answer)
        self._call.finish()

    def _ended(self, task: asyncio.Task[None]) -> None:
        if task.cancelled():
            self._call.finish(Status.UNAVAILABLE, "the server stops")
        elif (error := task.exception()) is not None:
            self._call.fail(error)
