"""A ModelRoute's status: whether its targets exist and its aliases are its own.

A name that somebody serves is nobody's alias, and of two routes with one alias the older holds it; the function that
decides is the routers' own.
"""

from inferplane_api.claims import Claim, Key, alias_holders
from inferplane_api.v1alpha1 import ModelRoute
from inferplane_api.v1alpha1.conditions import ConditionStatus, ConditionType, Reason
from inferplane_api.v1alpha1.stored import StoredObjectError, read_stored
from inferplane_operator.reconcile.reading import section
from inferplane_operator.reconcile.statuses import Said, conditions_of, dated, status_patch, transitions
from inferplane_operator.reconcile.values import Manifest, ObservedRoute, Outcome


def route(observed: ObservedRoute) -> Outcome:
    found = observed.route
    if found["metadata"].get("deletionTimestamp"):
        return Outcome()
    generation = int(found["metadata"].get("generation", 0))
    conditions = dated([_ready(observed)], conditions_of(found), generation=generation, now=observed.now)
    status = {**section(found, "status"), "observedGeneration": generation, "conditions": conditions}
    return Outcome(status=status_patch(found, status), events=transitions(found, conditions))


def _ready(observed: ObservedRoute) -> Said:
    try:
        parsed = read_stored(ModelRoute, observed.route)
    except StoredObjectError as error:
        return Said(ConditionType.READY, ConditionStatus.FALSE, Reason.INVALID_SPEC, str(error))
    if taken := _taken(parsed, observed):
        message = f"{'; '.join(taken)}; choose another alias"
        return Said(ConditionType.READY, ConditionStatus.FALSE, Reason.ALIAS_TAKEN, message)
    if unknown := _unknown(parsed, observed):
        message = f"nobody serves {', '.join(unknown)}; correct the name, or create its service or adapter"
        return Said(ConditionType.READY, ConditionStatus.FALSE, Reason.UNKNOWN_TARGET, message)
    return Said(ConditionType.READY, ConditionStatus.TRUE, Reason.ACCEPTED)


def _taken(parsed: ModelRoute, observed: ObservedRoute) -> list[str]:
    me = Key(parsed.metadata.namespace, parsed.metadata.name)
    aliases = [claim for found in (observed.route, *observed.others) for claim in _claims(found)]
    held = alias_holders(aliases, observed.holders)
    found: list[str] = []
    for alias in parsed.aliases:
        if (service := observed.holders.get(alias)) is not None:
            found.append(f"{alias} is served by {service.namespace}/{service.name}")
        elif (other := held.get(alias, me)) != me:
            found.append(f"{alias} belongs to the older route {other.namespace}/{other.name}")
    return found


def _unknown(parsed: ModelRoute, observed: ObservedRoute) -> list[str]:
    canary = [parsed.spec.canary.served_name] if parsed.spec.canary is not None else []
    targets = [target.served_name for target in parsed.spec.targets if target.weight]
    return [name for name in (*targets, *canary) if name not in observed.holders]


def _claims(found: Manifest) -> list[Claim]:
    metadata = found["metadata"]
    try:
        aliases = read_stored(ModelRoute, found).aliases
    except StoredObjectError:
        return []
    key = Key(str(metadata.get("namespace", "default")), str(metadata["name"]))
    return [Claim(alias, key, str(metadata.get("creationTimestamp") or "")) for alias in aliases]
