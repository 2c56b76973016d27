"""All targets of one service as arrays, so that a decision touches no object per worker.

A *slot* is the number of a target (worker, data-parallel rank); a worker's ranks have consecutive slots.  Slots of
workers that are gone are used again.  Workers that differ in model revision or block size (a rollout) name their
blocks differently: each such key space has a block index and an overlay of its own, over the same slots.
Invariant: whatever happens to a worker is written here at once; the choice reads arrays only.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from inferplane_engine.identity import Adapter, KeySpace, hash_blocks, prompt_extras, seed
from inferplane_router.core import score_kernels as kernels
from inferplane_router.core.cost import CostSettings, PoolModel, TransferModels
from inferplane_router.core.crowd import Crowd, Standing
from inferplane_router.core.ejection import spared
from inferplane_router.core.index_kernels import DISK, FIRM, HOST, PLANES, REMOTE
from inferplane_router.core.load import LoadTable
from inferplane_router.core.overlay import Overlay
from inferplane_router.core.prefix_kernels import Counts
from inferplane_router.core.score_kernels import (
    BLOCK_SIZE,
    CAN_PREFILL,
    MOST_REQUESTS,
    PREFILL_BASE,
    PREFILL_FACTOR,
    PREFILL_SPREAD,
    PREFILL_TOKEN,
    REVISION,
    SPEEDS,
    STEP_BASE,
    STEP_FACTOR,
    STEP_SPREAD,
    TAGS,
    ZONE,
    Floats,
    Slots,
)
from inferplane_router.core.tables import Index, OwnTables, Tables
from inferplane_router.core.values import Ask, Hashes, Health, TargetRef, Tokens

Mask = NDArray[np.bool_]

_UNLIMITED = 1 << 40
_PRICES: Final = {HOST: kernels.HOST_TOKEN, DISK: kernels.DISK_TOKEN, REMOTE: kernels.REMOTE_TOKEN}
"""Where a plane's price stands in `speeds`."""
_Item = TypeVar("_Item", bound=np.generic)


@dataclass(slots=True)
class Space:
    """One key space: who has which block, and who will."""

    key: KeySpace
    index: Index
    overlay: Overlay = field(default_factory=Overlay)
    trusted: Hashes = field(default_factory=lambda: np.zeros(1, np.uint64))
    """Bits of the targets whose rows in the index count (exact mode)."""
    seeds: dict[Adapter | None, int] = field(default_factory=dict[Adapter | None, int])

    def reserve(self, slots: int) -> None:
        self.index.reserve(slots)
        self.overlay.reserve(self.index.words)
        if self.trusted.shape[0] < self.index.words:
            self.trusted = np.concatenate((self.trusted, np.zeros(self.index.words - self.trusted.shape[0], np.uint64)))

    def trusts(self, slot: int) -> bool:
        return bool(self.trusted.item(slot >> 6) >> (slot & 63) & 1)

    def trust(self, slot: int, *, exact: bool) -> None:
        bit = np.uint64(1 << (slot & 63))
        word = slot >> 6
        self.trusted[word] = self.trusted[word] | bit if exact else self.trusted[word] & ~bit

    def hash(self, ask: Ask, tokens: Tokens) -> Hashes:
        """Return the hashes of the request's blocks, computed where nobody knows them yet."""
        adapter = ask.model.adapter
        start = self.seeds.get(adapter)
        if start is None:
            start = self.seeds[adapter] = seed(self.key, adapter)
        known = ask.hashes.get(start)
        if known is None:
            known = ask.hashes[start] = hash_blocks(tokens, self.key.block_size, start, prompt_extras(ask.salt))
        return known

    def find(self, keys: Hashes, counts: Counts) -> None:
        self.index.find(keys, self.trusted, self.overlay.cells, counts)


@dataclass(frozen=True, slots=True)
class Open:
    """Who may be asked: slots, and whether any two of them, or any decode target alone, could serve a request."""

    prefills: Slots
    decodes: Slots
    both: Slots
    """First those who may only prefill, then the decode targets."""
    paired: bool
    alone: bool

    @classmethod
    def of(cls, fleet: "Fleet", prefill: Mask, decode: Mask) -> "Open":
        """Reduce masks to slots; suspects only where nobody else may decode."""
        sound = ~fleet.suspect
        if (decode & sound).any():
            decode = decode & sound
        prefills, decodes = np.flatnonzero(prefill & sound), np.flatnonzero(decode)
        revisions = fleet.tags[:, REVISION]
        paired = bool(np.isin(revisions[decodes], revisions[prefills]).any())
        both = np.concatenate((prefills, decodes))
        return cls(prefills, decodes, both, paired, bool(fleet.tags[decodes, CAN_PREFILL].any()))


class Fleet:
    """Targets, speeds and loads of one service."""

    def __init__(self, *, epoch: int, settings: CostSettings, tables: Tables | None = None) -> None:
        self.settings = settings
        self._tables = tables or OwnTables()
        self.question: Floats = _settings_row(settings)
        """Template of every request's question: what the settings say is filled in."""
        self.size = 64
        self.speeds: Floats = np.zeros((self.size, SPEEDS))
        self.tags: Slots = np.zeros((self.size, TAGS), np.int64)
        self.identities: Hashes = np.zeros(self.size, np.uint64)
        self.ready_prefill: Mask = np.zeros(self.size, np.bool_)
        self.ready_decode: Mask = np.zeros(self.size, np.bool_)
        self.suspect: Mask = np.zeros(self.size, np.bool_)
        self.declared: Slots = np.zeros(self.size, np.int64)
        """Most requests at once, as the engine says; what is allowed now stands in `tags` (see `room`)."""
        self.kv_blocks: Slots = np.zeros(self.size, np.int64)
        """How many blocks the engine holds; 0 when it did not say."""
        self.space_of: Slots = np.full(self.size, -1, np.int64)
        self.zones: Slots = self.tags[:, ZONE].copy()
        """Replaced as a whole, like `refs`."""
        self.open = Open.of(self, self.ready_prefill, self.ready_decode)
        """Who may be asked when a request sets no conditions."""
        self.version = 0
        """Rises whenever a worker says something new of itself."""
        self.load = LoadTable(epoch=epoch)
        self.spaces: list[Space] = []
        self.pools: dict[str, PoolModel] = {}
        self.transfers = TransferModels(settings)
        self.pool_of: dict[int, str] = {}
        self._slots_of: dict[str, Slots] = {}
        """The slots of a pool, as far as they have been looked up since its workers changed."""
        self._revisions: dict[str, int] = {}
        self._zones: dict[str, int] = {}
        self.counts: Counts = np.zeros((self.size, PLANES), np.int32)
        self.adapters: dict[Adapter, Mask] = {}
        self.refs: tuple[TargetRef | None, ...] = (None,) * self.size
        """Replaced as a whole, so that a decision record may keep the one it was made with."""
        self._standings: dict[int, Standing] = {}
        self._doubted: dict[int, int] = {}
        """Suspect targets that can be heard, and the version with which they became so."""
        self.crowd = self._who_is_there()
        """Replaced as a whole, like `refs`."""
        if self._tables.least_size > self.size:
            self._reach(self._tables.least_size)
            self.refresh()

    def refresh(self) -> None:
        """Follow a change of who is ready, of revisions or of abilities."""
        self.version += 1
        self.zones = self.tags[:, ZONE].copy()
        self._suspect()
        self.open = Open.of(self, self.ready_prefill, self.ready_decode)
        self.crowd = self._who_is_there()

    def _suspect(self) -> None:
        """Say who is avoided: suspects, but of those that can be heard no more than `ejection` allows."""
        suspects = [slot for slot, standing in self._standings.items() if standing.health is Health.SUSPECT]
        self.suspect[:] = False
        self.suspect[suspects] = True
        for ready in (self.ready_decode, self.ready_prefill):
            doubted = {slot: since for slot, since in self._doubted.items() if ready[slot]}
            if doubted:
                heard = int((ready & ~self.suspect).sum()) + len(doubted)
                self.suspect[list(spared(doubted, heard))] = False

    def stand(self, slots: range, standing: Standing) -> None:
        """Write down what a worker is to its service and how it fares; who may be asked follows from it."""
        usable = standing.health in {Health.READY, Health.SUSPECT}
        for slot in slots:
            self.ready_decode[slot] = usable and standing.decodes
            self.ready_prefill[slot] = usable and not standing.decodes
            self._standings[slot] = standing
            if standing.health is not Health.SUSPECT or not standing.heard:
                self._doubted.pop(slot, None)
            else:
                self._doubted.setdefault(slot, self.version)
        self.refresh()

    def seat(self, worker_id: str, ranks: int, held: range) -> range:
        """Return consecutive slots for a worker's ranks: those that it holds, where they are still right."""
        if held and self._tables.keeps(worker_id, held, ranks):
            return held
        if held:
            self.release(held)
        slots = self._tables.allot(worker_id, ranks)
        self._reach(slots.stop)
        return slots

    def release(self, slots: range) -> None:
        """Forget everything about these slots."""
        for slot in slots:
            self.ready_prefill[slot] = self.ready_decode[slot] = self.suspect[slot] = False
            self.load.drop(slot)
            self.speeds[slot] = 0
            self.declared[slot] = self.tags[slot, MOST_REQUESTS] = 0
            if self.space_of[slot] >= 0:
                space = self.spaces[int(self.space_of[slot])]
                space.index.drop(slot)
                space.overlay.drop_target(slot)
                space.trust(slot, exact=False)
            self.space_of[slot] = -1
            self._slots_of.pop(self.pool_of.pop(slot, ""), None)
            self._standings.pop(slot, None)
            self._doubted.pop(slot, None)
            for mask in self.adapters.values():
                mask[slot] = False
        self._tables.release(slots)
        self.refs = tuple(None if slot in slots else ref for slot, ref in enumerate(self.refs))
        self.refresh()

    def describe(
        self,
        slot: int,
        *,
        ref: TargetRef,
        key_space: KeySpace,
        revision: str,
        zone: str,
        pool: str,
        can_prefill: bool,
        most_requests: int,
        kv_blocks: int,
        hybrid: bool,
        drop_blocks: int,
    ) -> Space:
        """Write down what a worker says of itself; the slot's blocks are forgotten if it changed its key space."""
        number = self._space_number(key_space)
        if self.space_of[slot] >= 0 and self.space_of[slot] != number:
            before = self.spaces[int(self.space_of[slot])]
            before.index.drop(slot)
            before.overlay.drop_target(slot)
            before.trust(slot, exact=False)
        self.space_of[slot] = number
        space = self.spaces[number]
        space.index.describe(slot, hybrid=hybrid, drop_blocks=drop_blocks)
        row = self.tags[slot]
        row[REVISION] = self._revisions.setdefault(revision, len(self._revisions))
        row[ZONE] = self._zones.setdefault(zone, len(self._zones))
        self.transfers.reserve(len(self._zones))
        row[BLOCK_SIZE] = key_space.block_size
        row[CAN_PREFILL] = can_prefill
        if self.declared[slot] != (most_requests or _UNLIMITED):
            self.declared[slot] = row[MOST_REQUESTS] = most_requests or _UNLIMITED
        self.kv_blocks[slot] = min(kv_blocks, _UNLIMITED)
        self.identities[slot] = _identity(ref)
        self.refs = (*self.refs[:slot], ref, *self.refs[slot + 1 :])
        self._slots_of.pop(self.pool_of.get(slot, ""), None)
        self._slots_of.pop(pool, None)
        self.pool_of[slot] = pool
        if pool not in self.pools:
            self.pools[pool] = PoolModel(self.settings)
        if self.speeds[slot, PREFILL_FACTOR] == 0:
            self.speeds[slot, PREFILL_FACTOR] = self.speeds[slot, STEP_FACTOR] = 1.0
            self.price(range(slot, slot + 1), {})
        self.write_speeds(slot, self.pools[pool])
        return space

    def set_adapters(self, slots: range, adapters: Iterable[Adapter]) -> None:
        """Say which adapters a worker has loaded."""
        for mask in self.adapters.values():
            mask[slots.start : slots.stop] = False
        for adapter in adapters:
            mask = self.adapters.setdefault(adapter, np.zeros(self.size, np.bool_))
            mask[slots.start : slots.stop] = True
        self.adapters = {adapter: mask for adapter, mask in self.adapters.items() if mask.any()}

    def adapters_by_spread(self) -> list[Adapter]:
        """Return the loaded adapters, those that most workers have first, the newer before the older of two alike.

        While a revision replaces another worker by worker, requests so move over when half of the workers have it.
        """
        newest_first = reversed(self.adapters.items())
        return [adapter for adapter, _ in sorted(newest_first, key=lambda item: -int(item[1].sum()))]

    def publish(self, pool: str) -> None:
        """Write a pool's learned speeds into the rows of its targets."""
        slots = self._slots_of.get(pool)
        if slots is None:
            found = [slot for slot, name in self.pool_of.items() if name == pool]
            slots = self._slots_of[pool] = np.array(found, np.int64)
        self.write_speeds(slots, self.pools[pool])

    def write_speeds(self, slots: int | Slots, model: PoolModel) -> None:
        """Write into the rows of these targets; a worker of many ranks describes each of them."""
        self.speeds[slots, PREFILL_BASE : PREFILL_BASE + 3] = model.prefill.coefficients
        self.speeds[slots, PREFILL_SPREAD] = model.prefill.spread
        self.speeds[slots, STEP_BASE : STEP_BASE + 3] = model.step.coefficients
        self.speeds[slots, STEP_SPREAD] = model.step.spread

    def price(self, slots: range, measured: Mapping[int, float]) -> None:
        """Say what loading a token's KV takes these targets, in seconds by plane; the settings' for the others."""
        settings = self.settings
        assumed = {HOST: settings.host_token_s, DISK: settings.disk_token_s, REMOTE: settings.remote_token_s}
        for plane, column in _PRICES.items():
            self.speeds[slots.start : slots.stop, column] = measured.get(plane, assumed[plane])

    def find(self, ask: Ask) -> list[Hashes]:
        """Fill `counts` with every target's reusable prefix; return the prompt's block hashes in each key space."""
        tokens = ask.tokens
        if tokens is None or len(self.spaces) != 1:
            self.counts[:] = 0
        if tokens is None:
            return []
        hashes: list[Hashes] = []
        for number, space in enumerate(self.spaces):
            keys = space.hash(ask, tokens)
            hashes.append(keys)
            reusable = keys[: max(0, (tokens.shape[0] - 1) // space.key.block_size)]  # the last token is recomputed
            if len(self.spaces) == 1:
                space.find(reusable, self.counts)
                continue
            counts = np.zeros_like(self.counts)
            space.find(reusable, counts)
            here = self.space_of == number
            self.counts[here] = counts[here]
        return hashes

    def least_uncached(self, ask: Ask) -> int:
        """Return how many tokens of a prompt have to be computed where most of it is cached."""
        if ask.tokens is None:
            return 0
        self.find(ask)
        may = self.open.prefills if self.open.prefills.shape[0] else self.open.decodes
        hits = self.counts[may, :FIRM].sum(axis=1) * self.tags[may, BLOCK_SIZE]
        return max(0, int(ask.tokens.shape[0]) - int(hits.max(initial=0)))

    def prefill_token_s(self) -> float:
        """Return what a token of a prompt takes to compute, on the first target that may be asked."""
        may = self.open.prefills if self.open.prefills.shape[0] else self.open.decodes
        return float(self.speeds[may[0], PREFILL_TOKEN]) if may.shape[0] else 0.0

    @property
    def limits(self) -> Slots:
        """How many requests each target takes now."""
        return self.tags[:, MOST_REQUESTS]

    def limit(self, limits: Slots) -> None:
        """Say how many requests each target takes now."""
        self.tags[:, MOST_REQUESTS] = limits
        self.crowd = self._who_is_there()

    def space_at(self, slot: int) -> Space | None:
        """Return the key space of a slot, None before its worker has identified itself."""
        number = self.space_of.item(slot)
        return self.spaces[number] if number >= 0 else None

    def _who_is_there(self) -> Crowd:
        limits, revisions = self.tags[:, MOST_REQUESTS].copy(), self.tags[:, REVISION].copy()
        return Crowd(self.refs, dict(self._standings), limits, revisions)

    def _space_number(self, key: KeySpace) -> int:
        for number, space in enumerate(self.spaces):
            if space.key == key:
                return number
        space = Space(key, self._tables.open(key))
        space.reserve(self.size)
        for number in range(len(self.spaces)):
            if not (self.space_of == number).any():  # the last worker of an older revision is gone
                self._tables.close(self.spaces[number].key)
                self.spaces[number] = space
                return number
        self.spaces.append(space)
        return len(self.spaces) - 1

    def close(self) -> None:
        """Give the tables of all key spaces back: the service is gone."""
        for space in self.spaces:
            self._tables.close(space.key)

    def _reach(self, slots: int) -> None:
        """Have room for slots 0..slots-1."""
        if slots > self.size:
            self._grow(-(-slots // 64) * 64)

    def _grow(self, size: int) -> None:
        self.speeds, self.tags = _grown(self.speeds, size), _grown(self.tags, size)
        self.identities, self.counts = _grown(self.identities, size), _grown(self.counts, size)
        self.ready_prefill, self.ready_decode = _grown(self.ready_prefill, size), _grown(self.ready_decode, size)
        self.suspect = _grown(self.suspect, size)
        self.declared = _grown(self.declared, size)
        self.kv_blocks = _grown(self.kv_blocks, size)
        self.space_of = _grown(self.space_of, size, -1)
        self.adapters = {adapter: _grown(mask, size) for adapter, mask in self.adapters.items()}
        self.refs += (None,) * (size - self.size)
        self.load.reserve(size)
        for space in self.spaces:
            space.reserve(size)
        self.size = size


def _settings_row(settings: CostSettings) -> Floats:
    row = np.zeros(kernels.QUESTION)
    row[kernels.OWN_LATENCY] = settings.own_latency
    row[kernels.OTHERS_FLOOR] = settings.others_floor
    row[kernels.SPREAD_FLOOR] = settings.spread_floor_s
    row[kernels.NEAR] = settings.near_s
    row[kernels.NEAR_SHARE] = settings.near_share
    return row


def _identity(ref: TargetRef) -> int:
    name = f"{ref.worker_id}#{ref.rank}".encode()
    return int.from_bytes(blake2b(name, digest_size=8).digest(), "little")


def _grown(values: NDArray[_Item], size: int, fill: int = 0) -> NDArray[_Item]:
    grown = np.full((size, *values.shape[1:]), fill, values.dtype)
    grown[: values.shape[0]] = values
    return grown
