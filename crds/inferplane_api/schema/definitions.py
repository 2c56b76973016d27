"""The CustomResourceDefinition of each kind: names, columns, scale, and the schema of its type.

Short names leave `isvc` to KServe, which has a kind of the same name.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from inferplane_api.schema.structural import Schema, structural_schema, without_marks
from inferplane_api.v1alpha1.conditions import ConditionType
from inferplane_api.v1alpha1.kinds import KINDS
from inferplane_api.v1alpha1.metadata import API_VERSION, GROUP

CATEGORY: Final = "inferplane"
_VERSION: Final = API_VERSION.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class Column:
    """One column of `kubectl get`; those of priority 1 are shown with `-o wide`."""

    name: str
    path: str
    description: str
    type: str = "string"
    priority: int = 0


@dataclass(frozen=True, slots=True)
class Names:
    plural: str
    short: tuple[str, ...]
    columns: tuple[Column, ...]
    scales: bool = False
    categories: tuple[str, ...] = (CATEGORY,)


def _condition(name: str, condition: ConditionType, description: str, *, priority: int = 0) -> Column:
    return Column(name, f'.status.conditions[?(@.type=="{condition}")].status', description, priority=priority)


_READY: Final = _condition("Ready", ConditionType.READY, "Whether it serves with the current spec.")
_AGE: Final = Column("Age", ".metadata.creationTimestamp", "Time since it was created.", "date")
_POOL_COLUMNS: Final = (
    Column("Service", ".spec.service", "InferenceService that it belongs to."),
    Column("Ready", ".status.readyReplicas", "Workers that serve.", "integer"),
    Column("Desired", ".spec.replicas", "Workers wanted.", "integer"),
    Column("Updated", ".status.updatedReplicas", "Workers of the current revision.", "integer"),
    Column("Revision", ".spec.revision", "Revision of the Pod template."),
    Column("Draining", ".status.drainingReplicas", "Workers that finish what they have.", "integer", priority=1),
    Column("Failed", ".status.failedReplicas", "Workers that failed.", "integer", priority=1),
    Column("Scaled By", ".status.scaledBy", "Who set replicas last.", priority=1),
    _AGE,
)

NAMES: Final[Mapping[str, Names]] = MappingProxyType(
    {
        "InferenceService": Names(
            plural="inferenceservices",
            short=("infsvc",),
            categories=(CATEGORY, "all"),
            columns=(
                Column("Model", ".spec.model.name", "The model's own name."),
                Column("Workers", ".status.columns.workers", "Workers that serve and that are wanted."),
                Column("P:D", ".status.columns.ratio", "Prefill and decode workers that serve."),
                Column("TTFT", ".status.columns.ttft", "Time to first token at the percentile, and its limit."),
                Column("TPOT", ".status.columns.tpot", "Time per output token at the percentile, and its limit."),
                _condition("SLOMet", ConditionType.SLO_MET, "Whether the objectives held; Unknown until observed."),
                _READY,
                _condition("Progressing", ConditionType.PROGRESSING, "Whether a change is rolled out.", priority=1),
                _condition("Degraded", ConditionType.DEGRADED, "Whether it serves with less than asked.", priority=1),
                _condition("Unverified", ConditionType.UNVERIFIED, "Whether it uses what nobody has run.", priority=1),
                Column("URL", ".status.url", "Where clients connect.", priority=1),
                _AGE,
            ),
        ),
        "PrefillPool": Names(plural="prefillpools", short=("ppool",), columns=_POOL_COLUMNS, scales=True),
        "DecodePool": Names(plural="decodepools", short=("dpool",), columns=_POOL_COLUMNS, scales=True),
        "KVStore": Names(
            plural="kvstores",
            short=("kvs",),
            columns=(Column("Tiers", ".spec.tiers[*].medium", "Fastest tier."), _READY, _AGE),
        ),
        "LoRAAdapter": Names(
            plural="loraadapters",
            short=("lora",),
            columns=(
                Column("Service", ".spec.service", "InferenceService that offers it."),
                Column("Rank", ".spec.rank", "Rank of its matrices.", "integer"),
                Column("Loaded", ".status.loadedOn", "Workers that have it loaded.", "integer"),
                Column("Wanted", ".status.wantedOn", "Workers that shall have it.", "integer"),
                _READY,
                _AGE,
            ),
        ),
        "ModelRoute": Names(
            plural="modelroutes",
            short=("mroute",),
            columns=(
                Column("Target", ".spec.targets[0].servedName", "First served name behind it."),
                Column("Canary", ".spec.canary.servedName", "Served name that is tried."),
                Column("Percent", ".spec.canary.percent", "Percent of requests that go to it.", "integer"),
                _READY,
                _AGE,
            ),
        ),
    }
)


def custom_resource_definition(kind: str) -> Schema:
    """Return the definition of a kind, as a manifest."""
    names = NAMES[kind]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{names.plural}.{GROUP}", "labels": {"app.kubernetes.io/part-of": "inferplane"}},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": names.plural,
                "singular": kind.lower(),
                "shortNames": list(names.short),
                "categories": list(names.categories),
            },
            "versions": [_version(kind, names)],
        },
    }


def _version(kind: str, names: Names) -> Schema:
    schema: Schema = without_marks(structural_schema(KINDS[kind]))
    return {
        "name": _VERSION,
        "served": True,
        "storage": True,
        "additionalPrinterColumns": [_column(column) for column in names.columns],
        "subresources": {"status": {}, **({"scale": _SCALE} if names.scales else {})},
        "schema": {"openAPIV3Schema": {"description": summary_of(kind), **schema}},
    }


_SCALE: Final = {
    "specReplicasPath": ".spec.replicas",
    "statusReplicasPath": ".status.replicas",
    "labelSelectorPath": ".status.selector",
}


def summary_of(kind: str) -> str:
    """Return what a kind is, in a sentence: the first line of its module."""
    return str(sys.modules[KINDS[kind].__module__].__doc__).strip().splitlines()[0]


def _column(column: Column) -> Schema:
    shown: Schema = {
        "name": column.name,
        "type": column.type,
        "jsonPath": column.path,
        "description": column.description,
    }
    return {**shown, "priority": column.priority} if column.priority else shown
