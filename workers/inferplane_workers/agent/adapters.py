"""Which adapters this worker shall have, which its engine has, and what comes next: values and counts, no I/O.

Problem: an adapter gets a new revision while requests run under the old one, and an engine that replaces weights under
one name would answer half with each.  Idea: the engine knows every (name, revision, place) by a name of its own, so
that old and new lie beside each other; requests count as users of the one they began with, and what nobody wants and
nobody uses is unloaded.  Trade-off: for the time of an update the engine holds one adapter more.
Invariant: an engine's name always means the same weights, and is unloaded only without users.
"""

import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import blake2b
from typing import Final

import orjson

from inferplane_engine.identity import Adapter
from inferplane_workers.agent.errors import AdapterError

ENGINE_PREFIX: Final = "inferplane-adapter-"
_DIGEST_BYTES: Final = 8
ENGINE_NAME: Final = re.compile(ENGINE_PREFIX.encode() + rb"[0-9a-f]{16}")
_REMEMBERED: Final = 4_096
"""Names of the past, whose blocks may still be spoken of."""


@dataclass(frozen=True, slots=True)
class Wish:
    """One adapter as the operator wants it: by a path that the engine sees, or by a hub's repository."""

    name: str
    revision: str = ""
    path: str = ""
    hf: str = ""
    rank: int = 0
    token_file: str = ""
    """File with the hub's token, mounted into the agent alone."""

    @property
    def source(self) -> str:
        return self.path or self.hf

    @property
    def engine_name(self) -> str:
        """Name in the engine: equal on every worker, and another one for whatever makes other weights."""
        state = blake2b(digest_size=_DIGEST_BYTES, person=b"inferplane-lora")
        for part in (self.name, self.revision, self.path, self.hf):
            raw = part.encode("utf-8", "surrogatepass")
            state.update(len(raw).to_bytes(8, "little") + raw)
        return ENGINE_PREFIX + state.hexdigest()


class AdapterPhase(StrEnum):
    LOADING = "loading"
    LOADED = "loaded"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class AdapterEntry:
    """What is said of one wanted adapter."""

    name: str
    revision: str
    phase: AdapterPhase
    error: str = ""
    serving: str | None = None
    """Revision that requests get now; None: none."""
    source: str = ""


@dataclass(frozen=True, slots=True)
class Load:
    wish: Wish


@dataclass(frozen=True, slots=True)
class Unload:
    engine_name: str


Step = Load | Unload


@dataclass(slots=True)
class _Held:
    """An adapter that the engine has."""

    adapter: Adapter
    users: int = 0


class Adapters:
    """The state; `on_change` hears whenever there may be something to do or to tell."""

    def __init__(
        self,
        *,
        limit: int = 0,
        reserved: Iterable[str] = (),
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        """`limit`: the most that may be wanted at once (0: adapters are off); `reserved`: the model's own names."""
        self.limit = limit
        self._reserved = frozenset(reserved)
        self._on_change = on_change
        self._wishes: dict[str, Wish] = {}
        self._failures: dict[str, str] = {}
        self._held: dict[str, _Held] = {}
        self._meaning: OrderedDict[str, Adapter] = OrderedDict()
        self._others: frozenset[str] = frozenset()
        self._under_way: set[str] = set()
        self._up = False

    # What is wanted.

    def want(self, wish: Wish) -> AdapterEntry:
        """Want an adapter at a revision; again is harmless, and tries again what failed.  Raises AdapterError."""
        if wish.name in self._reserved:
            raise AdapterError(f"{wish.name} is a name of the model itself; choose another name for the adapter")
        if wish.name not in self._wishes and len(self._wishes) >= self.limit:
            raise AdapterError(self._full())
        self._wishes[wish.name] = wish
        self._failures.pop(wish.name, None)
        self._on_change()
        return self.entry(wish.name)

    def drop(self, name: str) -> bool:
        """Want an adapter no longer; says whether it was wanted."""
        known = self._wishes.pop(name, None) is not None
        self._failures.pop(name, None)
        if known:
            self._on_change()
        return known

    def _full(self) -> str:
        if not self.limit:
            return "this worker was started without adapters"
        return f"this worker holds at most {self.limit} adapters: {', '.join(sorted(self._wishes))}"

    # What is told.

    def entry(self, name: str) -> AdapterEntry:
        wish = self._wishes[name]
        current = self._current(name)
        serving = None if current is None else self._held[current].adapter.revision
        if wish.engine_name in self._held:
            return AdapterEntry(name, wish.revision, AdapterPhase.LOADED, serving=serving, source=wish.source)
        error = self._failures.get(name, "")
        phase = AdapterPhase.FAILED if error else AdapterPhase.LOADING
        return AdapterEntry(name, wish.revision, phase, error, serving, wish.source)

    def entries(self) -> Sequence[AdapterEntry]:
        return [self.entry(name) for name in sorted(self._wishes)]

    def announced(self) -> Sequence[Adapter]:
        """Return what routers may send requests for: of each wanted name the revision that is in force."""
        current = (self._current(name) for name in sorted(self._wishes))
        ours = [self._held[engine_name].adapter for engine_name in current if engine_name is not None]
        return [*ours, *(Adapter(name) for name in sorted(self._others))]

    def meaning(self, engine_name: str) -> Adapter:
        """Return what an engine's name stands for, as block hashes need it; of past ones too."""
        return self._meaning.get(engine_name) or Adapter(engine_name)

    # What is done.

    def next_step(self) -> Step | None:
        """Return what to do now; None while nothing is to be done or no engine has started yet."""
        if not self._up:
            return None
        for name, held in self._held.items():
            if not held.users and not self._needed(name, held):
                return Unload(name)
        for wish in self._wishes.values():
            done = wish.engine_name in self._held or wish.engine_name in self._under_way
            if not done and wish.name not in self._failures:
                return Load(wish)
        return None

    def _needed(self, engine_name: str, held: _Held) -> bool:
        return self._current(held.adapter.name) == engine_name

    def _current(self, name: str) -> str | None:
        """Return the engine's name of what requests for `name` get: the wanted revision, until then the one before."""
        wish = self._wishes.get(name)
        if wish is None:
            return None
        if wish.engine_name in self._held:
            return wish.engine_name
        earlier = [engine_name for engine_name, held in self._held.items() if held.adapter.name == name]
        return earlier[-1] if earlier else None

    def begun(self, wish: Wish) -> None:
        """Note that a load is under way: its blocks may be spoken of before its answer is here."""
        self._under_way.add(wish.engine_name)
        self._remember(wish.engine_name, Adapter(wish.name, wish.revision))

    def loaded(self, wish: Wish) -> None:
        self._under_way.discard(wish.engine_name)
        self._held[wish.engine_name] = _Held(Adapter(wish.name, wish.revision))
        self._remember(wish.engine_name, Adapter(wish.name, wish.revision))
        self._on_change()

    def failed(self, wish: Wish, error: str) -> None:
        self._under_way.discard(wish.engine_name)
        if self._wishes.get(wish.name) == wish:
            self._failures[wish.name] = error
        self._on_change()

    def unloaded(self, engine_name: str) -> None:
        self._held.pop(engine_name, None)
        self._on_change()

    # The engine's life.

    def engine_started(self, found: Iterable[str]) -> None:
        """Take up a start of the engine, which has the adapters `found` (all its names, ours and others')."""
        names = frozenset(found)
        here = {name for name in names if name.startswith(ENGINE_PREFIX)}
        self._others = names - here
        wanted = {wish.engine_name: Adapter(wish.name, wish.revision) for wish in self._wishes.values()}
        known = self._held
        self._held = {name: known.get(name) or _Held(wanted.get(name) or self.meaning(name)) for name in sorted(here)}
        for name, held in self._held.items():
            self._remember(name, held.adapter)
        self._failures.clear()
        self._up = True
        self._on_change()

    # Requests.

    def use(self, name: str, revision: str, *, exactly: bool = False) -> "Use | None":
        """Begin a request under an adapter: the revision named while it is there, else (unless `exactly`) today's."""
        named = next((each for each, held in self._held.items() if held.adapter == Adapter(name, revision)), None)
        engine_name = named if named is not None or exactly else self._current(name)
        if engine_name is None:
            return None
        held = self._held[engine_name]
        held.users += 1
        return Use(held.adapter, engine_name, lambda: self._used(held))

    def offers(self, name: str) -> bool:
        """Whether a request may ask for this name here."""
        return self._current(name) is not None

    def is_engines_own(self, name: str) -> bool:
        """Whether the engine has had an adapter of this very name since its start, without being told by us."""
        return name in self._others

    def _used(self, held: _Held) -> None:
        held.users -= 1
        if not held.users:
            self._on_change()

    # Beyond the life of this process.

    def saved(self) -> bytes:
        return orjson.dumps(
            {
                "wishes": [_plain(wish) for wish in self._wishes.values()],
                "meaning": {name: [each.name, each.revision] for name, each in self._meaning.items()},
            }
        )

    def restore(self, raw: bytes) -> None:
        """Go on where another agent process stopped.  Raises ValueError where `raw` is nothing of ours."""
        try:
            found = orjson.loads(raw)
            wishes = [Wish(**each) for each in found["wishes"]]
            meaning = {str(name): Adapter(str(each[0]), str(each[1])) for name, each in found["meaning"].items()}
        except (orjson.JSONDecodeError, KeyError, TypeError, IndexError) as error:
            raise ValueError(f"saved adapters cannot be read: {error}") from error
        self._wishes = {wish.name: wish for wish in wishes[: self.limit]}
        self._meaning = OrderedDict(meaning)

    def _remember(self, engine_name: str, adapter: Adapter) -> None:
        self._meaning[engine_name] = adapter
        self._meaning.move_to_end(engine_name)
        while len(self._meaning) > _REMEMBERED:
            self._meaning.popitem(last=False)

    def served_names(self) -> Mapping[bytes, bytes]:
        """Return engine's names to served names, for what an engine says to others."""
        return {name.encode(): _json_text(held.adapter.name) for name, held in self._held.items()}


@dataclass(slots=True)
class Use:
    """One request's hold on an adapter; ended once, whatever becomes of the request."""

    adapter: Adapter
    engine_name: str
    _release: Callable[[], None]
    _ended: bool = field(default=False)

    @property
    def table(self) -> Mapping[bytes, bytes]:
        return {self.engine_name.encode(): _json_text(self.adapter.name)}

    def end(self) -> None:
        if not self._ended:
            self._ended = True
            self._release()


def _plain(wish: Wish) -> dict[str, object]:
    return {name: getattr(wish, name) for name in Wish.__dataclass_fields__}


def _json_text(name: str) -> bytes:
    """Return a name as it stands inside a JSON string."""
    return orjson.dumps(name)[1:-1]
