"""One kind of object, followed for as long as the router runs: list, watch, and list again where a watch cannot go on.

Problem.  Watches end all the time: by the API server's own limit, by a restart of it, by a network that forgets
connections, by a version that is too old; and a hundred routers must not come back in one rhythm.
Idea.  One loop a kind.  A list gives rows and a version, a watch goes on from that version, bookmarks move it on while
nothing happens; so a broken watch goes on where it was, and only "gone" costs a new list.
Failures wait with exponential back-off and jitter, and as long as the API server says.
Trade-off.  A silent connection is given up sooner than it has to be (API servers send a bookmark about every minute),
since a new watch from a known version costs little.
Invariant.  Rows change only by what the API server said; while nothing can be read the last good ones stand.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from random import Random
from typing import Any, Final, Protocol

import structlog

from inferplane_runtime.kube.errors import (
    AbsentError,
    ForbiddenError,
    GoneError,
    KubeError,
    RefusedError,
    UnreachableError,
)
from inferplane_runtime.kube.kinds import WatchedKind

_log = structlog.get_logger("inferplane.kube")
_GONE: Final = 410


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a list."""

    items: tuple[Mapping[str, Any], ...]
    version: str
    """Of the whole list: where a watch goes on."""
    token: str = ""
    """Asks for the next part; empty: this is the last one."""


class ClusterApi(Protocol):
    """How an API server is asked; every failure is a `KubeError`."""

    async def list_page(self, kind: WatchedKind, token: str) -> Page: ...

    def watch(self, kind: WatchedKind, version: str) -> AsyncGenerator[Mapping[str, Any]]:
        """Yield watch events as they are on the wire until the API server ends the watch."""
        ...


class Rows(Protocol):
    """Where objects go; see `table.Table`."""

    @property
    def empty(self) -> bool: ...

    @property
    def listed(self) -> bool: ...

    def read(self, raw: Mapping[str, Any], /) -> tuple[str, Any]: ...

    def replace(self, rows: Mapping[str, Any], /) -> None: ...

    def put(self, raw: Mapping[str, Any], /) -> None: ...

    def drop(self, raw: Mapping[str, Any], /) -> None: ...


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to wait after a failure; seconds."""

    first_s: float = 0.2
    longest_s: float = 10.0
    absent_s: float = 60.0
    """Before an optional kind is looked for again."""

    def delay_s(self, failures: int, rng: Random) -> float:
        ceiling = min(self.longest_s, self.first_s * 2 ** min(failures, 16))
        return rng.uniform(ceiling / 2, ceiling)


class KindWatch:
    """Follows one kind."""

    def __init__(
        self,
        kind: WatchedKind,
        rows: Rows,
        api: ClusterApi,
        *,
        failed: Callable[[], None],
        sleep: Callable[[float], Awaitable[None]],
        rng: Random,
        patience: Patience,
    ) -> None:
        self._kind = kind
        self._rows = rows
        self._api = api
        self._failed = failed
        self._sleep = sleep
        self._rng = rng
        self._patience = patience
        self._version = ""
        """Where the next watch goes on; empty: list first."""
        self._silent = 0
        """Attempts in a row of which no watch said anything."""
        self._said = ""
        """The failure that was logged last, until the cluster can be read again."""

    async def run(self) -> None:
        """Follow until cancelled."""
        while True:
            delay_s = await self._attempt()
            if delay_s > 0:
                await self._sleep(delay_s)

    async def _attempt(self) -> float:
        """List and watch until something ends it; return how long to wait before the next attempt."""
        try:
            if not self._version:
                await self._list()
            return 0.0 if await self._follow() else self._pause_s()
        except GoneError:
            self._version = ""
            return self._pause_s()
        except (AbsentError, ForbiddenError) as error:
            if self._kind.optional and self._rows.empty:
                return self._do_without(error)
            return self._fail(error)
        except KubeError as error:
            return self._fail(error)
        except Exception as error:  # noqa: BLE001 - a task's boundary: what one object says must not end the router
            _log.exception("a watch failed", kind=self._kind.kind)
            self._version = ""
            return self._fail(UnreachableError(repr(error)))

    async def _list(self) -> None:
        rows: dict[str, Any] = {}
        page = await self._api.list_page(self._kind, "")
        rows |= map(self._rows.read, page.items)
        while page.token:
            page = await self._api.list_page(self._kind, page.token)
            rows |= map(self._rows.read, page.items)
        self._rows.replace(rows)
        self._version = page.version
        self._recovered()

    async def _follow(self) -> bool:
        """Take events until the API server ends the watch; return whether it said anything."""
        heard = False
        async with aclosing(self._api.watch(self._kind, self._version)) as events:
            async for event in events:
                self._take(event)
                if not heard:
                    heard, self._silent = True, 0
                    self._recovered()
        return heard

    def _take(self, event: Mapping[str, Any]) -> None:
        kind, raw = event["type"], event["object"]
        if kind == "ERROR":
            message = f"the watch ended: {raw.get('message')}"
            raise GoneError(message) if raw.get("code") == _GONE else RefusedError(message)
        if kind == "DELETED":
            self._rows.drop(raw)
        elif kind != "BOOKMARK":
            self._rows.put(raw)
        self._version = str(raw["metadata"]["resourceVersion"])

    # What an attempt's end means ---------------------------------------------------------------------------------

    def _pause_s(self) -> float:
        self._silent += 1
        return self._patience.delay_s(self._silent - 1, self._rng)

    def _fail(self, error: KubeError) -> float:
        self._failed()
        if str(error) != self._said:
            self._said = str(error)
            _log.warning("cannot be read; what is known stays in force", kind=self._kind.kind, error=self._said)
        asked_s = error.retry_after_s if isinstance(error, RefusedError) else 0.0
        return max(asked_s, self._pause_s())

    def _do_without(self, error: KubeError) -> float:
        if str(error) != self._said:
            self._said = str(error)
            _log.info("a kind is not watched here", kind=self._kind.kind, reason=self._said)
        self._rows.replace({})
        return self._rng.uniform(0.5, 1.0) * self._patience.absent_s

    def _recovered(self) -> None:
        if self._said:
            self._said = ""
            _log.info("can be read again", kind=self._kind.kind)
