"""How many workers of each revision each pool has next: pure, one step at a time, from what is there now.

Problem.  Prefill and decode workers hand over to peers of their own revision only, so pools that change one after the
other leave a revision with one half; and accelerators are dear, so there is often no spare one to begin with.
Idea.  The share of a revision that counts is the least one over all pools: where a quarter of the decode workers and
half of the prefill workers are new and ready, a quarter is.  Old workers may go as far as that share is replaced, in
every pool alike; new ones come as surge and budget allow.  The first new worker of each pool is the canary: until they
are ready and judged, no old worker goes.  Only where nothing is spare (no surge, no budget, no room on the nodes) an
old worker makes way first.
Trade-off.  A pool of one keeps its old worker until the other pool is done, which costs a device for a while.
Invariants.  Ready workers never fall below wanted less what may be missing while there were enough; workers never
exceed wanted plus surge; devices never exceed the budget, those of draining workers counted.  While no worker dies, new
ones only become more and old ones only fewer, so a rollout ends when its workers become ready.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import ceil

from inferplane_operator.reconcile.values import CanaryVerdict, Judgement


@dataclass(frozen=True, slots=True)
class RevisionState:
    """The workers of one revision in one pool; `replicas` is what its Deployment was told."""

    revision: str
    replicas: int = 0
    ready: int = 0


@dataclass(frozen=True, slots=True)
class PoolState:
    """One pool; `devices` is what one worker takes, `pods` counts all that hold devices, draining ones too."""

    name: str
    wanted: int
    max_surge: int = 1
    max_unavailable: int = 0
    devices: int = 0
    revisions: tuple[RevisionState, ...] = ()
    pods: int = 0
    short_of_room: bool = False
    """A new worker waits because no node has room for it."""
    retiring: bool = False
    """The target has no such pool; `wanted` is what the others had beside them."""

    def of(self, revision: str) -> RevisionState:
        return next((state for state in self.revisions if state.revision == revision), RevisionState(revision))

    def old(self, target: str) -> tuple[RevisionState, ...]:
        return tuple(state for state in self.revisions if state.revision != target)

    @property
    def total(self) -> int:
        return sum(state.replicas for state in self.revisions)

    @property
    def devices_held(self) -> int:
        return self.devices * max(self.total, self.pods)


@dataclass(frozen=True, slots=True)
class Rollout:
    """Where the pools of one service are, and where they shall be."""

    pools: tuple[PoolState, ...]
    target: str
    stable: str = ""
    """Last revision that was wholly ready; going back to it needs no canary."""
    max_devices: int | None = None
    canary: CanaryVerdict | None = None
    frozen: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """Replicas by pool and revision; `waiting` says what the next step waits for, "" when nothing is left to do."""

    replicas: Mapping[tuple[str, str], int]
    complete: bool
    waiting: str = ""
    awaits_verdict: bool = False
    refused: Mapping[str, int] = field(default_factory=dict[str, int])
    """Workers wanted by pool that the budget does not allow."""


def plan(given: Rollout) -> Plan:
    """Return the next step; carried out and looked at again, it leads to the target."""
    allowed = _within_budget(given)
    refused = {
        pool.name: pool.wanted - kept.wanted
        for pool, kept in zip(given.pools, allowed, strict=True)
        if kept.wanted < pool.wanted
    }
    rollout = replace(given, pools=allowed)
    if given.frozen:
        return Plan(_held(rollout), complete=_complete(rollout), waiting="frozen", refused=refused)
    replicas = _step(rollout) if _rolling(rollout) else _sized(rollout)
    return Plan(
        replicas,
        complete=_complete(rollout),
        waiting=_waiting(rollout),
        awaits_verdict=_awaits_verdict(rollout),
        refused=refused,
    )


def peak_devices(replicas: Mapping[tuple[str, str], int], pools: Sequence[PoolState]) -> int:
    """Return the devices that a plan's workers take."""
    devices = {pool.name: pool.devices for pool in pools}
    return sum(count * devices[name] for (name, _), count in replicas.items())


# ---- the whole


def _rolling(given: Rollout) -> bool:
    return any(state.replicas for pool in given.pools for state in pool.old(given.target))


def _active(given: Rollout) -> tuple[PoolState, ...]:
    return tuple(pool for pool in given.pools if pool.wanted and not pool.retiring)


def _complete(given: Rollout) -> bool:
    ready = all(pool.of(given.target).ready >= pool.wanted for pool in _active(given))
    return ready and not _rolling(given)


def _waiting(given: Rollout) -> str:
    if _complete(given):
        return ""
    missing = [pool.name for pool in _active(given) if _share(pool, given.target) < 1]
    if _rolling(given) and not missing:
        missing = [pool.name for pool in given.pools if any(state.replicas for state in pool.old(given.target))]
        return f"old workers of {', '.join(missing)} to go"
    if _awaits_verdict(given) and given.canary is not None:
        return f"the canary's verdict: {given.canary.message}" if given.canary.message else "the canary's verdict"
    return f"ready workers of {', '.join(missing)}" if missing else ""


def _awaits_verdict(given: Rollout) -> bool:
    return _rolling(given) and _paired(given) and not _unlocked(given)


def _paired(given: Rollout) -> bool:
    return all(pool.of(given.target).ready for pool in _active(given))


def _unlocked(given: Rollout) -> bool:
    """Whether more than a canary may be new; once more than one is, it was judged before."""
    if given.target == given.stable or not given.stable:
        return True
    if any(pool.of(given.target).replicas > 1 for pool in given.pools):
        return True
    verdict = given.canary
    passed = verdict is None or (verdict.judgement is Judgement.PASS and verdict.revision == given.target)
    return passed and _paired(given)


def _share(pool: PoolState, target: str) -> Fraction:
    state = pool.of(target)
    return Fraction(min(state.ready, state.replicas, pool.wanted), pool.wanted)


def _within_budget(given: Rollout) -> tuple[PoolState, ...]:
    """Lower what is wanted, and the surge, to what the budget allows; shares of all pools stay alike."""
    if given.max_devices is None:
        return given.pools
    going = sum(pool.devices_held for pool in given.pools if pool.retiring)
    kept = tuple(pool for pool in given.pools if not pool.retiring)
    wanted, left = _granted(kept, {pool.name: pool.wanted for pool in kept}, given.max_devices - going)
    surge, _ = _granted(kept, {pool.name: pool.max_surge for pool in kept}, left)
    return tuple(
        pool if pool.retiring else replace(pool, wanted=wanted[pool.name], max_surge=surge[pool.name])
        for pool in given.pools
    )


def _granted(pools: Sequence[PoolState], asked: Mapping[str, int], limit: int) -> tuple[dict[str, int], int]:
    """Share `limit` devices out, one worker at a time to the pool with the least share; return what is left too."""
    if (needed := sum(asked[pool.name] * pool.devices for pool in pools)) <= limit:
        return dict(asked), limit - needed
    granted = {pool.name: 0 if pool.devices else asked[pool.name] for pool in pools}
    while waiting := [pool for pool in pools if granted[pool.name] < asked[pool.name] and pool.devices <= limit]:
        poorest = min(waiting, key=lambda pool: Fraction(granted[pool.name], asked[pool.name]))
        granted[poorest.name] += 1
        limit -= poorest.devices
    return granted, limit


# ---- no rollout


def _sized(given: Rollout) -> dict[tuple[str, str], int]:
    """One revision only: what is wanted, as far as devices are free."""
    replicas, spare = _as_is(given), _spare(given)
    for pool in given.pools:
        if pool.retiring:
            continue
        now = pool.of(given.target).replicas
        more, spare = _affordable(pool, pool.wanted - now, spare)
        replicas[pool.name, given.target] = min(now, pool.wanted) + more
    return replicas


def _held(given: Rollout) -> dict[tuple[str, str], int]:
    """Frozen: every revision stays; scaling goes to the best one, or away from the worst."""
    replicas, spare = _as_is(given), _spare(given)
    for pool in given.pools:
        if pool.retiring:
            continue
        kept = sorted(pool.revisions, key=lambda state: _merit(state, given), reverse=True)
        holder = kept[0].revision if kept else given.target
        surge = pool.max_surge if sum(1 for state in kept if state.replicas) > 1 else 0
        more, spare = _affordable(pool, pool.wanted - pool.total, spare)
        replicas[pool.name, holder] = pool.of(holder).replicas + more
        if (over := pool.total - pool.wanted - surge) > 0:
            replicas |= _cut(pool, kept, over)
    return replicas


def _as_is(given: Rollout) -> dict[tuple[str, str], int]:
    now = {(pool.name, state.revision): state.replicas for pool in given.pools for state in pool.revisions}
    return {(pool.name, given.target): 0 for pool in given.pools if not pool.retiring} | now


def _spare(given: Rollout) -> int | None:
    limit = given.max_devices
    return None if limit is None else limit - sum(pool.devices_held for pool in given.pools)


def _affordable(pool: PoolState, more: int, spare: int | None) -> tuple[int, int | None]:
    """Return how many of `more` workers the spare devices allow, and what is then spare."""
    if more <= 0 or spare is None or not pool.devices:
        return max(0, more), spare
    count = max(0, min(more, spare // pool.devices))
    return count, spare - count * pool.devices


# ---- a rollout's step


def _step(given: Rollout) -> dict[tuple[str, str], int]:
    unlocked, replicas, spare = _unlocked(given), _as_is(given), _spare(given)
    share = (
        min((_share(pool, given.target) for pool in _active(given)), default=Fraction(1)) if unlocked else Fraction(0)
    )
    for pool in given.pools:
        room = _Room.of(pool, given, unlocked=unlocked, share=share)
        new, old = room.settle()
        now = pool.of(given.target).replicas
        more, spare = _affordable(pool, new - now, spare)
        new = min(now, new) + more
        if not pool.retiring:
            replicas[pool.name, given.target] = new
        states = pool.old(given.target)
        kept = sorted(states, key=lambda state: _merit(state, given), reverse=True)
        replicas |= _cut(pool, kept, room.old - old)
        if not unlocked and kept and not pool.retiring:
            raised, spare = _affordable(pool, pool.wanted - old - new, spare)
            replicas[pool.name, kept[0].revision] += raised
    return replicas


@dataclass(frozen=True, slots=True)
class _Room:
    """What one pool may do in this step."""

    new: int
    new_ready: int
    old: int
    old_ready: int
    most_new: int
    most_old: int
    ceiling: int
    floor: int

    @classmethod
    def of(cls, pool: PoolState, given: Rollout, *, unlocked: bool, share: Fraction) -> "_Room":
        state, states = pool.of(given.target), pool.old(given.target)
        wanted = 0 if pool.retiring else pool.wanted
        most_new = wanted if unlocked else min(wanted, 1)
        new = min(state.replicas, wanted)
        way = _making_way(pool, unlocked=unlocked, share=share)
        crowded = any(each.short_of_room for each in given.pools)
        old = sum(each.replicas for each in states)
        return cls(
            new=new,
            new_ready=min(new, state.ready),
            old=old,
            old_ready=sum(min(each.ready, each.replicas) for each in states),
            most_new=most_new,
            most_old=min(old, max(0, ceil(pool.wanted * (1 - share)) - way)),
            ceiling=pool.wanted + (0 if crowded else pool.max_surge),
            floor=max(0, wanted - max(way, pool.max_unavailable)),
        )

    def settle(self) -> tuple[int, int]:
        """Return new and old workers."""
        least_old = min(self.old_ready, max(0, self.floor - self.new_ready))
        old = max(self.most_old, least_old)
        # Old workers that do not serve leave for new ones.
        if (lacking := self.most_new - max(self.new, self.ceiling - old)) > 0:
            old -= min(lacking, max(0, old - max(self.old_ready, least_old)))
        over = max(0, old + self.new - self.ceiling)
        old -= min(over, old - least_old)
        return max(0, min(self.most_new, self.ceiling - old)), old


def _making_way(pool: PoolState, *, unlocked: bool, share: Fraction) -> int:
    """Return how many old workers may go before a new one is ready."""
    if not pool.retiring and (pool.max_surge == 0 or pool.short_of_room):
        return max(1, pool.max_unavailable) if unlocked else 1
    return pool.max_unavailable if share > 0 else 0


def _merit(state: RevisionState, given: Rollout) -> tuple[bool, int, int, str]:
    return (state.revision == given.stable, state.ready, state.replicas, state.revision)


def _cut(pool: PoolState, best_first: Sequence[RevisionState], count: int) -> dict[tuple[str, str], int]:
    """Take `count` workers away: those that do not serve first, then those of the least good revision."""
    left = {state.revision: state.replicas for state in best_first}
    for serving in (False, True):
        for state in reversed(best_first):
            spared = 0 if serving else min(state.ready, state.replicas)
            taken = min(count, max(0, left[state.revision] - spared))
            left[state.revision] -= taken
            count -= taken
    return {(pool.name, revision): replicas for revision, replicas in left.items()}
