"""How a process ends: the first signal asks for a drain, the second one stops it at once.

Invariant: a signal is never lost (it is an event, not a callback that must be there in time), and every task of a
process belongs to a group that waits for it.
"""

import asyncio
import ctypes
import gc
import os
import signal
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import structlog

_log = structlog.get_logger("inferplane.lifecycle")
_FORCED = 130


class StopSignal:
    """Set by SIGTERM or SIGINT."""

    def __init__(self) -> None:
        self._stopped = asyncio.Event()

    def install(self) -> None:
        """Take the signals of the running loop."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.arrive, number)

    def arrive(self, number: int = signal.SIGTERM) -> None:
        """Note a signal; a second one ends the process without a drain."""
        if self._stopped.is_set():
            _log.warning("second signal: stopping without a drain", signal=signal.Signals(number).name)
            os._exit(_FORCED)
        _log.info("draining", signal=signal.Signals(number).name)
        self._stopped.set()

    @property
    def is_set(self) -> bool:
        return self._stopped.is_set()

    async def wait(self) -> None:
        await self._stopped.wait()


def run_process(
    main: Callable[[StopSignal], Awaitable[int]],
    *,
    loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None,
) -> int:
    """Run `main` until it returns its exit code; it watches the `StopSignal` it is given."""

    async def supervised() -> int:
        stop = StopSignal()
        stop.install()
        return await main(stop)

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        return runner.run(supervised())


def settle_memory() -> None:
    """Take what was made at start out of garbage collection, and collect seldom from now on.

    A full collection walks every object of every imported library: with compilers among them that is a stall of a
    tenth of a second in the middle of streams, for objects that live as long as the process.  The interpreter collects
    once more before it exits, which takes as long: an agent ends half a second of CPU sooner.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


def return_memory() -> None:
    """Give freed memory back to the system, where the C library can: the rest is kept for allocations to come.

    Worth it once after work that needed a hundred megabytes for a moment; milliseconds, without the interpreter's lock.
    """
    trim: Callable[[int], int] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def spawn(group: asyncio.TaskGroup, name: str, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    """Start a named task of a group."""
    return group.create_task(coroutine, name=name)
