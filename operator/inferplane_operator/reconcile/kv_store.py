"""A KVStore's status: who uses it, and what its stores say of themselves.

An admission policy looks at the users before a store may be deleted.
"""

from typing import Any

from inferplane_api.v1alpha1 import KVStore
from inferplane_api.v1alpha1.conditions import ConditionStatus, ConditionType, Reason
from inferplane_api.v1alpha1.stored import StoredObjectError, read_stored
from inferplane_operator.reconcile.reading import section, text
from inferplane_operator.reconcile.statuses import Said, conditions_of, dated, status_patch, transitions
from inferplane_operator.reconcile.values import ObservedKVStore, Outcome, StoreReading


def kv_store(observed: ObservedKVStore) -> Outcome:
    store = observed.store
    if store["metadata"].get("deletionTimestamp"):
        return Outcome()
    generation = int(store["metadata"].get("generation", 0))
    conditions = dated([_ready(observed)], conditions_of(store), generation=generation, now=observed.now)
    wanted: dict[str, Any] = {
        **section(store, "status"),
        "observedGeneration": generation,
        "conditions": conditions,
        "usedBy": _users(observed),
        "tiers": _tiers(observed),
    }
    return Outcome(status=status_patch(store, wanted), events=transitions(store, conditions))


def _ready(observed: ObservedKVStore) -> Said:
    try:
        read_stored(KVStore, observed.store)
    except StoredObjectError as error:
        return Said(ConditionType.READY, ConditionStatus.FALSE, Reason.INVALID_SPEC, str(error))
    return _answering(observed.reading)


def _answering(reading: StoreReading) -> Said:
    if not reading.asked:
        return Said(ConditionType.READY, ConditionStatus.UNKNOWN, Reason.PENDING, "no worker that is ready uses it")
    if not reading.answering:
        words = f"none of {reading.asked} workers hears of its store: see the log of the container kv-store"
        return Said(ConditionType.READY, ConditionStatus.FALSE, Reason.KV_STORE_UNAVAILABLE, words)
    down = [medium for medium, tier in reading.tiers.items() if tier.down]
    if down:
        words = f"{', '.join(down)} does not answer; blocks that only it has are computed"
        return Said(ConditionType.READY, ConditionStatus.FALSE, Reason.KV_STORE_UNAVAILABLE, words)
    return Said(ConditionType.READY, ConditionStatus.TRUE, Reason.SERVING, _words(reading))


def _words(reading: StoreReading) -> str:
    """Say what it is worth, in whole percents: a status is not written for less."""
    if not reading.lookups:
        return "its stores answer; nobody has asked for a block yet"
    found = 100 * (reading.lookups - reading.misses) // reading.lookups
    wanted = reading.fetched + reading.declined
    words = f"its stores answer; {found} % of the blocks that engines asked for were there"
    if wanted:
        words += f", and {100 * reading.fetched // wanted} % of those were worth fetching"
    return words


def _tiers(observed: ObservedKVStore) -> list[dict[str, Any]]:
    """Return the tiers that were measured, by the names that the spec gives them."""
    reading, said = observed.reading, list[dict[str, Any]]()
    for tier in observed.store["spec"].get("tiers", []):
        measured = reading.tiers.get(str(tier.get("medium")))
        if measured is None:
            continue
        entry: dict[str, Any] = {"name": tier["name"], "used": str(measured.used_bytes), "blocks": measured.blocks}
        if reading.lookups:
            entry["hitRatio"] = round(min(1.0, measured.hits / reading.lookups), 2)
        said.append({**entry, "corruptBlocks": measured.corrupt})
    return said


def _users(observed: ObservedKVStore) -> list[str]:
    name, users = observed.store["metadata"]["name"], list[str]()
    for service in observed.services:
        if text(service, "spec", "kvStore", "name") == name and not service["metadata"].get("deletionTimestamp"):
            users.append(str(service["metadata"]["name"]))
    return sorted(users)
