"""A cluster that a test plays: objects, versions, watches, and what can go wrong with them.

It keeps an API server's promises as far as discovery relies on them: one version counts for all kinds, lists come in
pages that belong to one version, a watch tells every change after its version, an object that leaves a selector is
deleted for that watch, and a version older than the history is gone.
"""

import asyncio
import copy
from collections.abc import AsyncGenerator, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from inferplane_runtime.kube.errors import GoneError, KubeError
from inferplane_runtime.kube.kinds import WatchedKind
from inferplane_runtime.kube.watching import Page

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Change:
    """One step of the history: what an object was and what it became; None: it was not there."""

    version: int
    kind: str
    before: Object | None
    after: Object | None

    def seen(self, kind: WatchedKind, namespace: str) -> Object | None:
        """Return the watch event that this is for one watch; None: it says nothing there."""
        matched = self.before is not None and matches(self.before, kind, namespace)
        matching = self.after is not None and matches(self.after, kind, namespace)
        if not matched and not matching:
            return None
        name = "DELETED" if not matching else "MODIFIED" if matched else "ADDED"
        subject = self.after if matching else self.before
        assert subject is not None  # noqa: S101 - one of the two matched
        return {"type": name, "object": _at(subject, self.version)}


class FakeCluster:
    """Everything is immediate; tests hold the API server back where they need time."""

    def __init__(self) -> None:
        self.version = 100
        self._objects: dict[tuple[str, str, str], Object] = {}
        self._history: list[Change] = []
        self._oldest = self.version
        self._news = asyncio.Event()
        self._uids = 0

    # What a test does --------------------------------------------------------------------------------------------

    def put(self, raw: Mapping[str, Any]) -> Object:
        """Create or replace an object; uid, generation and creation time are given as an API server does."""
        new: Object = copy.deepcopy(dict(raw))
        metadata = new["metadata"]
        key = (new["kind"], metadata.setdefault("namespace", "default"), metadata["name"])
        before = self._objects.get(key)
        self._uids += 1
        known: Mapping[str, Any] = before["metadata"] if before is not None else {}
        metadata.setdefault("uid", known.get("uid", f"uid-{self._uids}"))
        metadata.setdefault("creationTimestamp", known.get("creationTimestamp", "2026-01-01T00:00:00Z"))
        same_spec = before is not None and before.get("spec") == new.get("spec")
        metadata["generation"] = known.get("generation", 0) + (0 if same_spec else 1)
        self._happen(key, before, new)
        return _at(new, self.version)

    def delete(self, kind: str, name: str, namespace: str = "default") -> None:
        key = (kind, namespace, name)
        self._happen(key, self._objects[key], None)

    def compact(self) -> None:
        """Forget the history: whoever asks for what came before is told that it is gone."""
        self._history.clear()
        self._oldest = self.version

    # What an API server answers ----------------------------------------------------------------------------------

    def objects(self, kind: str) -> list[Object]:
        """Return everything of a kind."""
        found = (self._objects[key] for key in sorted(self._objects) if key[0] == kind)
        return [_at(each, int(each["metadata"]["resourceVersion"])) for each in found]

    def matching(self, kind: WatchedKind, namespace: str = "") -> list[Object]:
        return [each for each in self.objects(kind.kind) if matches(each, kind, namespace)]

    def since(self, kind: WatchedKind, version: int, namespace: str = "") -> Iterator[Object]:
        """Return the events after a version.  Raises GoneError."""
        if version < self._oldest:
            raise GoneError(f"too old resource version: {version} ({self._oldest})")
        later = (change.seen(kind, namespace) for change in self._history if change.version > version)
        return (event for event in later if event is not None and event["object"]["kind"] == kind.kind)

    async def next_news(self) -> None:
        """Return once something happened, or somebody said `stir`."""
        await self._news.wait()

    def stir(self) -> None:
        """Wake whoever waits for news."""
        news, self._news = self._news, asyncio.Event()
        news.set()

    def _happen(self, key: tuple[str, str, str], before: Object | None, after: Object | None) -> None:
        self.version += 1
        if after is None:
            del self._objects[key]
        else:
            after["metadata"]["resourceVersion"] = str(self.version)
            self._objects[key] = after
        self._history.append(Change(self.version, key[0], before, after))
        self.stir()


class FakeApi:
    """The fake cluster's API in memory; a `ClusterApi`."""

    def __init__(self, cluster: FakeCluster, *, page: int = 2) -> None:
        self._cluster = cluster
        self._page = page
        self._faults: dict[str, list[KubeError]] = {}
        self._interruption: tuple[int, KubeError | None] = (0, None)
        self._bookmarks = 0
        self._said: dict[str, list[Object]] = {}
        self.calls: list[tuple[str, str]] = []
        """What was asked: (list or watch, kind)."""
        self.open = asyncio.Event()
        """Cleared: nothing is answered."""
        self.open.set()

    def fail_next(self, kind: WatchedKind, error: KubeError, times: int = 1) -> None:
        """Let the next calls for a kind fail."""
        self._faults.setdefault(kind.kind, []).extend([error] * times)
        self._cluster.stir()

    def recover(self) -> None:
        """Answer again."""
        self._faults.clear()
        self._cluster.stir()

    def interrupt(self, error: KubeError | None = None) -> None:
        """End every watch that runs: with a failure, or as API servers do after some minutes."""
        self._interruption = (self._interruption[0] + 1, error)
        self._cluster.stir()

    def bookmark(self) -> None:
        """Tell every watch how far the cluster is."""
        self._bookmarks += 1
        self._cluster.stir()

    def say(self, kind: WatchedKind, event: Object) -> None:
        """Put an event of the test's own into the watch of a kind."""
        self._said.setdefault(kind.kind, []).append(event)
        self._cluster.stir()

    async def list_page(self, kind: WatchedKind, token: str) -> Page:
        await self._begin("list", kind)
        found = self._cluster.matching(kind)
        version, _, start = token.rpartition("/") if token else (str(self._cluster.version), "", "0")
        end = int(start) + self._page
        rest = f"{version}/{end}" if end < len(found) else ""
        return Page(tuple(found[int(start) : end]), version, rest)

    async def watch(self, kind: WatchedKind, version: str) -> AsyncGenerator[Mapping[str, Any]]:
        await self._begin("watch", kind)
        last, interruptions, bookmarks = int(version), self._interruption[0], self._bookmarks
        while True:
            for event in self._cluster.since(kind, last):
                last = int(event["object"]["metadata"]["resourceVersion"])
                yield event
            while said := self._said.get(kind.kind):
                yield said.pop(0)
            if self._bookmarks > bookmarks:
                bookmarks, last = self._bookmarks, self._cluster.version
                yield {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": str(last)}}}
            if self._interruption[0] > interruptions:
                if (error := self._interruption[1]) is not None:
                    raise error
                return
            await self._cluster.next_news()

    async def _begin(self, verb: str, kind: WatchedKind) -> None:
        self.calls.append((verb, kind.kind))
        while not self.open.is_set() and not self._faults.get(kind.kind):
            await self._cluster.next_news()
        if faults := self._faults.get(kind.kind):
            raise faults.pop(0)


def matches(raw: Object, kind: WatchedKind, namespace: str) -> bool:
    if raw["kind"] != kind.kind or (namespace and raw["metadata"]["namespace"] != namespace):
        return False
    labels: Mapping[str, str] = raw["metadata"].get("labels") or {}
    name, equals, value = kind.selector.partition("=")
    return not name or (labels.get(name) == value if equals else name in labels)


def _at(raw: Object, version: int) -> Object:
    shown = copy.deepcopy(raw)
    shown["metadata"]["resourceVersion"] = str(version)
    return shown
