"""What the Pods of a service need for its adapters, and so the only part of them that a revision knows.

Problem: adapters come and go while engines run, but a volume, a larger rank or more room take a new Pod.  Idea: the
need is made of few coarse things (a folder, not the adapters in it), so that most adapters change nothing; and it never
shrinks by itself.  Trade-off: a Pod may mount a folder whose last adapter is gone, until something else renews it.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from typing import Any, Final

from inferplane_api.v1alpha1 import InferenceService, LoRAAdapter
from inferplane_api.v1alpha1.lora import DEFAULT_MAX_ADAPTERS
from inferplane_api.v1alpha1.source import ModelSource

ANNOTATION: Final = "inferplane.dev/adapters"
"""On a Pod template: the need that it meets, as JSON."""
ADAPTER_MOUNT: Final = "/mnt/adapters"
_LEAST_RANK: Final = 16


class PlaceKind(StrEnum):
    FOLDER = "folder"
    """A folder of the node, with all adapters below it."""
    CLAIM = "claim"
    IMAGE = "image"
    HUB = "hub"
    """The model cache, into which the agent downloads."""
    TOKEN = "token"  # noqa: S105 - a word: the Secret's name stands beside it
    """A Secret with a hub's token, for the agent alone."""


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A volume; `source` is the folder, the claim, the image or the Secret's name."""

    kind: PlaceKind
    source: str = ""
    pull_secret: str = ""

    @property
    def volume(self) -> str:
        return f"adapters-{_digest(self.kind, self.source)}"

    @property
    def mount(self) -> str:
        """Where engines see it (and the agent, for a token)."""
        match self.kind:
            case PlaceKind.FOLDER:
                return self.source
            case PlaceKind.CLAIM:
                return f"{ADAPTER_MOUNT}/{self.source}"
            case PlaceKind.IMAGE:
                return f"{ADAPTER_MOUNT}/image-{_digest(self.source)}"
            case PlaceKind.TOKEN:
                return f"/etc/inferplane/adapter-tokens/{self.source}"
            case PlaceKind.HUB:
                return ""


_EVERYWHERE: Final = frozenset({Place(PlaceKind.FOLDER, "/"), Place(PlaceKind.HUB)})


@dataclass(frozen=True, slots=True)
class AdapterNeed:
    """Room for adapters and the places that they come from, in order."""

    max_adapters: int
    max_rank: int
    places: tuple[Place, ...] = ()

    def covers(self, other: "AdapterNeed") -> bool:
        enough = self.max_adapters >= other.max_adapters and self.max_rank >= other.max_rank
        return enough and set(self.places) >= set(other.places)

    @property
    def from_hub(self) -> bool:
        return any(place.kind is PlaceKind.HUB for place in self.places)

    @property
    def wire(self) -> dict[str, Any]:
        places = [[place.kind.value, place.source, place.pull_secret] for place in self.places]
        return {"maxAdapters": self.max_adapters, "maxRank": self.max_rank, "places": places}

    @property
    def annotation(self) -> str:
        return json.dumps(self.wire, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class Present:
    """What runs now: its revision, and what that offers to adapters."""

    revision: str
    offers: AdapterNeed | None


def need_of(
    service: InferenceService, adapters: Iterable[LoRAAdapter], *, in_cluster: bool = True
) -> AdapterNeed | None:
    """Return what the adapters of this service need together; None where there is no room for any.

    Processes of a machine see all of its folders: there the places are no part of the need.
    """
    mine, room = tuple(adapters), service.spec.engine.lora
    if room is None and not mine:
        return None
    largest = max((adapter.spec.rank for adapter in mine), default=_LEAST_RANK)
    places = {place for adapter in mine for place in places_of(adapter)} if in_cluster else _EVERYWHERE
    return AdapterNeed(
        max_adapters=DEFAULT_MAX_ADAPTERS if room is None else room.max_adapters,
        max_rank=room.max_rank if room is not None and room.max_rank else max(_LEAST_RANK, largest),
        places=tuple(sorted(places)),
    )


def places_of(adapter: LoRAAdapter) -> tuple[Place, ...]:
    source, secret = adapter.spec.source, adapter.spec.secret_ref or ""
    if source.path is not None:
        return (Place(PlaceKind.FOLDER, _folder_above(source.path)),)
    if source.pvc is not None:
        return (Place(PlaceKind.CLAIM, source.pvc.claim_name),)
    if source.oci is not None:
        return (Place(PlaceKind.IMAGE, source.oci, secret),)
    return (Place(PlaceKind.HUB), *((Place(PlaceKind.TOKEN, secret),) if secret else ()))


def path_of(source: ModelSource) -> str:
    """Return where an engine finds the weights; "" for a hub, whose files the agent places."""
    if source.path is not None:
        return source.path
    if source.pvc is not None:
        return f"{Place(PlaceKind.CLAIM, source.pvc.claim_name).mount}/{source.pvc.path}".rstrip("/")
    return Place(PlaceKind.IMAGE, source.oci).mount if source.oci is not None else ""


def token_file(adapter: LoRAAdapter) -> str:
    """Return where the agent finds the token of a hub; "" where there is none."""
    secret = adapter.spec.secret_ref
    return f"{Place(PlaceKind.TOKEN, secret).mount}/token" if secret and adapter.spec.source.hf else ""


def offered_by(annotations: Mapping[str, str] | None) -> AdapterNeed | None:
    """Read what a Pod or a Pod template offers from its annotations; None where it offers nothing (that we know)."""
    try:
        found = json.loads((annotations or {})[ANNOTATION])
        places = tuple(Place(PlaceKind(kind), source, secret) for kind, source, secret in found["places"])
        return AdapterNeed(int(found["maxAdapters"]), int(found["maxRank"]), places)
    except (KeyError, ValueError, TypeError):
        return None


def _folder_above(path: str) -> str:
    above = path.rstrip("/").rpartition("/")[0]
    return above or path  # never the root of the node


def _digest(*parts: str) -> str:
    return sha256("\0".join(parts).encode()).hexdigest()[:10]
