"""A KVStore's status: who uses it, which is what an admission policy looks at before a store may be deleted."""

from typing import Any

from inferplane_api.v1alpha1 import KVStore
from inferplane_api.v1alpha1.conditions import ConditionStatus, ConditionType, Reason
from inferplane_api.v1alpha1.stored import StoredObjectError, read_stored
from inferplane_operator.reconcile.reading import section, text
from inferplane_operator.reconcile.statuses import Said, conditions_of, dated, status_patch, transitions
from inferplane_operator.reconcile.values import ObservedKVStore, Outcome


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
    }
    return Outcome(status=status_patch(store, wanted), events=transitions(store, conditions))


def _ready(observed: ObservedKVStore) -> Said:
    try:
        read_stored(KVStore, observed.store)
    except StoredObjectError as error:
        return Said(ConditionType.READY, ConditionStatus.FALSE, Reason.INVALID_SPEC, str(error))
    return Said(ConditionType.READY, ConditionStatus.UNKNOWN, Reason.PENDING, "nothing observes its tiers yet")


def _users(observed: ObservedKVStore) -> list[str]:
    name, users = observed.store["metadata"]["name"], list[str]()
    for service in observed.services:
        if text(service, "spec", "kvStore", "name") == name and not service["metadata"].get("deletionTimestamp"):
            users.append(str(service["metadata"]["name"]))
    return sorted(users)
