"""Builds statuses: conditions whose transition times only move when they turn, and patches that say nothing twice."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from inferplane_api.v1alpha1.conditions import ConditionStatus, ConditionType, Reason
from inferplane_operator.reconcile.reading import listed, section
from inferplane_operator.reconcile.values import Event, EventType, Manifest, Merge, Reference

_MESSAGE = 4096
_GOOD_WHEN_FALSE = frozenset({ConditionType.DEGRADED, ConditionType.UNVERIFIED, ConditionType.PROGRESSING})
_TOLD = (ConditionType.READY, ConditionType.PROGRESSING, ConditionType.DEGRADED)
"""Conditions whose changes people are told as Events."""


@dataclass(frozen=True, slots=True)
class Said:
    """One condition before it is dated."""

    type: ConditionType
    status: ConditionStatus
    reason: Reason
    message: str = ""


def reference_to(found: Manifest) -> Reference:
    metadata = found["metadata"]
    return Reference(
        str(found["apiVersion"]),
        str(found["kind"]),
        str(metadata.get("namespace", "default")),
        str(metadata["name"]),
        str(metadata.get("uid", "")),
    )


def truth(value: bool) -> ConditionStatus:  # noqa: FBT001 - its only argument
    return ConditionStatus.TRUE if value else ConditionStatus.FALSE


def dated(said: Sequence[Said], before: Iterable[Manifest], *, generation: int, now: str) -> list[dict[str, Any]]:
    """Give each condition its transition time: that of before, unless its status changed."""
    known = {condition.get("type"): condition for condition in before}
    return [_dated(each, known.get(each.type.value), generation, now) for each in said]


def _dated(said: Said, before: Manifest | None, generation: int, now: str) -> dict[str, Any]:
    kept = before is not None and before.get("status") == said.status.value
    turned = (before or {}).get("lastTransitionTime") if kept else now
    return {
        "type": said.type.value,
        "status": said.status.value,
        "reason": said.reason.value,
        "message": said.message[:_MESSAGE],
        **({"lastTransitionTime": turned} if turned else {}),
        "observedGeneration": generation,
    }


def conditions_of(found: Manifest) -> Sequence[Manifest]:
    return listed(found, "status", "conditions")


def status_patch(
    found: Manifest, wanted: Mapping[str, Any], *, others: frozenset[str] = frozenset()
) -> tuple[Merge, ...]:
    """Patch to the whole status `wanted`; nothing when that is what is there.  None values are left out.

    Fields of `others` are somebody else's: they are neither written nor taken away.
    """
    status = {key: value for key, value in section(found, "status").items() if key not in others}
    kept = {key: value for key, value in wanted.items() if value is not None and key not in others}
    if kept == status:
        return ()
    patch = {
        **{key: None for key in status if key not in kept},
        **{key: _whole(kept[key], status.get(key)) for key in kept},
    }
    return (Merge(reference_to(found), {"status": patch}, "status"),)


def _whole(wanted: Any, before: Any) -> Any:
    """Name what is gone as null, since a merge patch keeps what it does not name."""
    if not isinstance(wanted, Mapping):
        return wanted
    new = cast("Mapping[str, Any]", wanted)
    if not isinstance(before, Mapping):
        return new
    old = cast("Mapping[str, Any]", before)
    return {**dict.fromkeys(old.keys() - new.keys()), **new}


def transitions(found: Manifest, conditions: Sequence[Mapping[str, Any]]) -> list[Event]:
    """Tell what turned, or turned for another reason."""
    before = {each.get("type"): (each.get("status"), each.get("reason")) for each in conditions_of(found)}
    return [
        Event(reference_to(found), _severity(each), str(each["reason"]), str(each.get("message") or each["reason"]))
        for each in conditions
        if each["type"] in _TOLD
        and before.get(each["type"]) != (each["status"], each["reason"])
        and _worth(each, before)
    ]


def _worth(condition: Mapping[str, Any], before: Mapping[Any, Any]) -> bool:
    """Leave out a first "nothing is wrong"."""
    fine = condition["type"] in _GOOD_WHEN_FALSE and condition["status"] == ConditionStatus.FALSE.value
    return condition["type"] in before or not fine


def _severity(condition: Mapping[str, Any]) -> EventType:
    if condition["type"] == ConditionType.DEGRADED.value:
        return EventType.WARNING if condition["status"] == ConditionStatus.TRUE.value else EventType.NORMAL
    warns = condition["reason"] in _WARNS
    return EventType.WARNING if warns else EventType.NORMAL


_WARNS = frozenset(
    reason.value
    for reason in (
        Reason.INVALID_SPEC,
        Reason.MODEL_NOT_FOUND,
        Reason.ROLLED_BACK,
        Reason.DEADLINE_EXCEEDED,
        Reason.SERVED_NAME_CONFLICT,
        Reason.NO_ROOM,
        Reason.UNSCHEDULABLE,
        Reason.QUOTA_EXCEEDED,
        Reason.WORKER_REFUSED,
        Reason.VOLUME_UNBOUND,
        Reason.IMAGE_UNAVAILABLE,
        Reason.CONFIGURATION_MISSING,
        Reason.CRASH_LOOP,
        Reason.WORKER_EVICTED,
        Reason.UNKNOWN_TARGET,
        Reason.ALIAS_TAKEN,
        Reason.ADAPTER_FAILED,
        Reason.ADAPTERS_FULL,
        Reason.SERVICE_NOT_FOUND,
    )
)
