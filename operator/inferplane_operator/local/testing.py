"""Fakes of the runner's seams: processes that live only in memory, and stand-in programs that are real but tiny."""

import asyncio
import signal
import sys
from dataclasses import dataclass, field
from itertools import count

from inferplane_operator.local.agent_client import Readiness
from inferplane_operator.local.processes import Command, Running


@dataclass(eq=False)
class FakeProcess:
    """A process that ends when told to; `deaf` ones ignore SIGTERM."""

    command: Command
    pid: int
    deaf: bool = False
    signals: list[int] = field(default_factory=list[int])
    _ended: "asyncio.Future[int]" = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    async def wait(self) -> int:
        return await asyncio.shield(self._ended)

    def signal(self, number: int) -> None:
        self.signals.append(number)
        if number == signal.SIGKILL or (number == signal.SIGTERM and not self.deaf):
            self.end(-number)

    def end(self, code: int) -> None:
        """Let the process end with this status."""
        if not self._ended.done():
            self._ended.set_result(code)


@dataclass(eq=False)
class FakeSpawner:
    """Keeps every process it started, in order; `failures` are raised first, one a call."""

    deaf: bool = False
    failures: list[OSError] = field(default_factory=list[OSError])
    started: list[FakeProcess] = field(default_factory=list[FakeProcess])
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, command: Command) -> Running:
        if self.failures:
            raise self.failures.pop(0)
        process = FakeProcess(command, pid=1_000_000_000 + len(self.started), deaf=self.deaf)
        self.started.append(process)
        self._changed.set()
        return process

    async def nth(self, count: int) -> FakeProcess:
        """Wait for the `count`-th start, from 1."""
        while len(self.started) < count:
            self._changed.clear()
            await self._changed.wait()
        return self.started[count - 1]


@dataclass(eq=False)
class FakePort:
    number: int
    released: bool = False

    def release(self) -> None:
        self.released = True


@dataclass(eq=False)
class FakePorts:
    """Gives numbers that no real program uses; those in `taken` are refused."""

    next: int = 100_000
    taken: set[int] = field(default_factory=set[int])
    held: list[FakePort] = field(default_factory=list[FakePort])

    def __call__(self, port: int) -> FakePort:
        if port in self.taken:
            raise OSError(f"port {port} is taken")
        number = port or next(number for number in count(self.next) if number not in self.taken)
        self.next = max(self.next, number) + 1
        self.held.append(FakePort(number))
        return self.held[-1]


@dataclass(eq=False)
class FakeProbe:
    """Addresses are ready unless they are in `not_ready`; drains are kept, and wait for `drained` where it is set."""

    not_ready: dict[str, str] = field(default_factory=dict[str, str])
    all_ready: bool = True
    drains: list[str] = field(default_factory=list[str])
    drained: asyncio.Event | None = None
    catalogue: int = sys.maxsize
    """The number of the catalogue that routers say they route by; any that was written, unless it is set."""

    async def ready(self, address: str) -> Readiness:
        reason = self.not_ready.get(address, "" if self.all_ready else "loading")
        return Readiness(ready=not reason, reason=reason, catalogue=self.catalogue)

    async def healthy(self, address: str) -> bool:
        return address not in self.not_ready

    async def drain(self, address: str, *, timeout_s: float) -> str:
        self.drains.append(address)
        if self.drained is None:
            return ""
        try:
            async with asyncio.timeout(timeout_s):
                await self.drained.wait()
        except TimeoutError:
            return "timed out"
        return ""
