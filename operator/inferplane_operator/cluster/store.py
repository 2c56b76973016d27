"""Every object that matters, by id, by uid, by the uid of its controller and by the name it refers to.

Both the watches and the answers to our own writes are put here, so that the next step sees what the last one wrote
although its watch event is still on its way.
Invariant: an object never goes back: an older version of the same uid is dropped.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum, auto
from typing import TypeVar

from inferplane_operator.cluster.field_owners import NOBODY
from inferplane_operator.cluster.stored import ObjectId, Stored, store_form
from inferplane_operator.reconcile.values import Manifest

_K = TypeVar("_K")


class Change(Enum):
    """What putting an object did."""

    STALE = auto()
    """What is there is newer."""
    SAME = auto()
    """That very version is there."""
    STORED = auto()


@dataclass(frozen=True, slots=True)
class Put:
    """What became of an object that was put."""

    change: Change
    now: Stored
    """What the store holds."""
    before: Stored | None = None
    """What it held, if that was replaced."""


class Store:
    """Lives in one thread."""

    def __init__(self) -> None:
        self._by_id: dict[ObjectId, Stored] = {}
        self._by_uid: dict[str, ObjectId] = {}
        self._controlled: defaultdict[str, set[ObjectId]] = defaultdict(set)
        self._naming: defaultdict[ObjectId, set[ObjectId]] = defaultdict(set)
        self._claims: defaultdict[str, set[ObjectId]] = defaultdict(set)
        self.watched: frozenset[str] = frozenset()
        """Kinds that are told of; empty before the first watch."""
        self._by_kind: defaultdict[str, set[ObjectId]] = defaultdict(set)

    def __len__(self) -> int:
        return len(self._by_id)

    def put(self, raw: Manifest) -> Put:
        """Take an object in."""
        new = store_form(raw)
        old = self._by_id.get(new.id)
        if old is not None and old.uid == new.uid and new.version:
            if new.version < old.version:
                return Put(Change.STALE, old)
            if new.version == old.version and (new.owners == old.owners or new.owners is NOBODY):
                return Put(Change.SAME, old)
        if old is not None:
            self._unlink(old)
        self._by_id[new.id] = new
        self._by_uid[new.uid] = new.id
        self._by_kind[new.id.kind].add(new.id)
        if new.controller:
            self._controlled[new.controller].add(new.id)
        if new.target:
            self._naming[_target(new)].add(new.id)
        for name in new.served_names:
            self._claims[name].add(new.id)
        return Put(Change.STORED, new, old)

    def remove(self, id_: ObjectId, uid: str) -> Stored | None:
        """Drop an object, unless another one has its name by now; return what was dropped."""
        old = self._by_id.get(id_)
        if old is None or old.uid != uid:
            return None
        self._unlink(old)
        del self._by_id[id_]
        self._by_kind[id_.kind].discard(id_)
        return old

    def get(self, id_: ObjectId) -> Stored | None:
        return self._by_id.get(id_)

    def by_uid(self, uid: str) -> Stored | None:
        id_ = self._by_uid.get(uid)
        return None if id_ is None else self._by_id.get(id_)

    def controlled_by(self, uid: str) -> list[Stored]:
        """Return what this object controls, in order of kind and name."""
        return [self._by_id[id_] for id_ in sorted(self._controlled.get(uid, ()))]

    def naming(self, kind: str, namespace: str, target: str) -> list[Stored]:
        """Return objects of a kind that name `target`: pools and adapters a service, services a KVStore."""
        return [self._by_id[id_] for id_ in sorted(self._naming.get(ObjectId(kind, namespace, target), ()))]

    def claiming(self, served_name: str) -> list[Stored]:
        """Return the services and adapters, in all namespaces, that want this name."""
        return [self._by_id[id_] for id_ in sorted(self._claims.get(served_name, ()))]

    def claimed_names(self) -> list[str]:
        return sorted(self._claims)

    def of_kind(self, kind: str, namespace: str = "") -> Iterator[Stored]:
        """Return all of a kind, of one namespace if given."""
        found: Iterable[ObjectId] = self._by_kind.get(kind, ())
        return (self._by_id[id_] for id_ in sorted(found) if not namespace or id_.namespace == namespace)

    def uids(self, kind: str) -> dict[str, ObjectId]:
        return {self._by_id[id_].uid: id_ for id_ in self._by_kind.get(kind, ())}

    def _unlink(self, old: Stored) -> None:
        self._by_uid.pop(old.uid, None)
        _discard(self._controlled, old.controller, old.id)
        _discard(self._naming, _target(old), old.id)
        for name in old.served_names:
            _discard(self._claims, name, old.id)


def _target(stored: Stored) -> ObjectId:
    return ObjectId(stored.id.kind, stored.id.namespace, stored.target)


def _discard(index: defaultdict[_K, set[ObjectId]], key: _K, id_: ObjectId) -> None:
    found = index.get(key)
    if found is None:
        return
    found.discard(id_)
    if not found:
        del index[key]
