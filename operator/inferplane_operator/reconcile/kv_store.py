"""A KVStore's status: who uses it, and what its stores say of themselves; and the key of its checksums, made once.

An admission policy looks at the users before a store may be deleted.
Whether the key's Secret is there only the status says, since the operator may make Secrets and read none.  So the two
are written in this order, and the status of a store whose Secret was refused does not name it.  The Secret's name has
part of the store's uid: one that is made anew does not find the Secret of the one before, which is about to go.
"""

from collections.abc import Callable
from typing import Any, Final

from inferplane_api.v1alpha1 import KVStore
from inferplane_api.v1alpha1.conditions import ConditionStatus, ConditionType, Reason
from inferplane_api.v1alpha1.engine import EngineType
from inferplane_api.v1alpha1.kv_store import TierMedium
from inferplane_api.v1alpha1.stored import StoredObjectError, read_stored
from inferplane_operator.reconcile.reading import section, text
from inferplane_operator.reconcile.statuses import Said, conditions_of, dated, reference_to, status_patch, transitions
from inferplane_operator.reconcile.values import Create, Manifest, Merge, ObservedKVStore, Outcome, StoreReading, Write
from inferplane_operator.render.kv_pods import SECRET_KEY

_UID_SHOWN: Final = 8
_OURS: Final = frozenset({TierMedium.DRAM, TierMedium.SSD, TierMedium.REDIS})


def kv_store(observed: ObservedKVStore, draw_key: Callable[[], str]) -> Outcome:
    """`draw_key` gives a new random key as text."""
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
    return Outcome(
        writes=_integrity(store, draw_key), status=status_patch(store, wanted), events=transitions(store, conditions)
    )


def _integrity(store: Manifest, draw_key: Callable[[], str]) -> tuple[Write, ...]:
    """Make the Secret that keys the checksums, where nobody named one and none was made."""
    if not _lacks_secret(store):
        return ()
    reference = reference_to(store)
    name = f"{reference.name}-integrity-{reference.uid[:_UID_SHOWN]}"
    owner = {"apiVersion": reference.api_version, "kind": reference.kind, "name": reference.name, "uid": reference.uid}
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": name,
            "namespace": reference.namespace,
            "labels": {"app.kubernetes.io/managed-by": "inferplane-operator"},
            "ownerReferences": [owner],
        },
        "immutable": True,
        "stringData": {SECRET_KEY: draw_key()},
    }
    return (Create(secret, secret=True), Merge(reference, {"status": {"integritySecret": name}}, "status"))


def _lacks_secret(store: Manifest) -> bool:
    return not text(store, "spec", "integritySecretRef") and not text(store, "status", "integritySecret")


def _ready(observed: ObservedKVStore) -> Said:
    try:
        read_stored(KVStore, observed.store)
    except StoredObjectError as error:
        return Said(ConditionType.READY, ConditionStatus.FALSE, Reason.INVALID_SPEC, str(error))
    if _lacks_secret(observed.store) and not observed.reading.asked:
        words = "the Secret that keys its checksums is being made"
        return Said(ConditionType.READY, ConditionStatus.UNKNOWN, Reason.PENDING, words)
    if not _runs_beside_engines(observed):
        words = "engines reach its tiers by themselves; nothing of it is measured here"
        return Said(ConditionType.READY, ConditionStatus.UNKNOWN, Reason.PENDING, words)
    return _answering(observed.reading)


def _runs_beside_engines(observed: ObservedKVStore) -> bool:
    """Whether a user of it has a store of ours; true where there is no user yet."""
    users = _using(observed)
    tiers: list[dict[str, Any]] = observed.store["spec"].get("tiers", [])
    own = any(tier.get("medium") in _OURS for tier in tiers)
    return not users or (own and any(text(each, "spec", "engine", "type") in ("", EngineType.VLLM) for each in users))


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
    return sorted(str(service["metadata"]["name"]) for service in _using(observed))


def _using(observed: ObservedKVStore) -> list[Manifest]:
    name = observed.store["metadata"]["name"]
    named = [each for each in observed.services if text(each, "spec", "kvStore", "name") == name]
    return [each for each in named if not each["metadata"].get("deletionTimestamp")]
