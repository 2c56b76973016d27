"""What to tell the agents of one service, so that each worker has the adapters that it shall have: pure.

Problem: adapters, workers and agents' memories change at any time and nobody may block a deletion.  Idea: compare what
is wanted with what each worker reports, and call for the difference; what a worker has and no LoRAAdapter names is
unloaded, whoever wanted it once.  Trade-off: the workers are asked again and again while something is under way.
Invariant: equal inputs give equal calls, and calls that have taken effect are not made again.

It knows nothing of Kubernetes, so that local mode decides by the same rules.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256

from inferplane_api.v1alpha1 import LoRAAdapter
from inferplane_operator.render.adapter_need import AdapterNeed, Place, path_of, places_of, token_file

_DIGEST = 8


@dataclass(frozen=True, slots=True)
class WantedAdapter:
    """One adapter as a worker is told of it."""

    key: str
    """Name of the LoRAAdapter."""
    name: str
    """Its served name."""
    revision: str
    rank: int
    path: str = ""
    hf: str = ""
    token_file: str = ""
    pinned: bool = False
    created: str = ""
    places: tuple[Place, ...] = ()

    @property
    def source(self) -> str:
        return self.path or self.hf


class Reported(StrEnum):
    """States, as agents say them."""

    LOADED = "loaded"
    LOADING = "loading"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class ReportedAdapter:
    """What an agent says of one adapter that it was told of."""

    name: str
    revision: str = ""
    source: str = ""
    state: Reported = Reported.LOADING
    error: str = ""
    serving: str | None = None

    def is_of(self, wanted: WantedAdapter) -> bool:
        return (self.revision, self.source) == (wanted.revision, wanted.source)


@dataclass(frozen=True, slots=True)
class AdapterWorker:
    """One ready worker; `address` is its agent's control port."""

    name: str
    address: str
    offers: AdapterNeed | None = None
    """Room that it was started with; None: it has none."""
    adapters: tuple[ReportedAdapter, ...] = ()
    problem: str = ""
    """Why its agent did not answer; then `adapters` says nothing."""

    def report(self, name: str) -> ReportedAdapter | None:
        return next((each for each in self.adapters if each.name == name), None)


@dataclass(frozen=True, slots=True)
class LoadAdapter:
    worker: AdapterWorker
    adapter: WantedAdapter


@dataclass(frozen=True, slots=True)
class UnloadAdapter:
    worker: AdapterWorker
    name: str


AdapterCall = LoadAdapter | UnloadAdapter
Attempt = tuple[str, str, str]
"""(worker, served name, revision)."""


def wanted_of(adapter: LoRAAdapter, *, commit: str = "") -> WantedAdapter:
    """Reduce a LoRAAdapter to what workers are told; `commit` is what a hub's revision resolved to."""
    spec = adapter.spec
    return WantedAdapter(
        key=adapter.metadata.name,
        name=adapter.served_name,
        revision=revision_of(adapter, commit=commit),
        rank=spec.rank,
        path=path_of(spec.source),
        hf=spec.source.hf or "",
        token_file=token_file(adapter),
        pinned=spec.pinned,
        created=adapter.metadata.creation_timestamp or "",
        places=places_of(adapter),
    )


def revision_of(adapter: LoRAAdapter, *, commit: str = "") -> str:
    """Name the weights: a hub's commit, else a word that changes with the place and with the revision written."""
    spec = adapter.spec
    if spec.source.hf is not None:
        return commit or spec.revision
    source = spec.source.model_dump_json(by_alias=True, exclude_none=True)
    digest = sha256(source.encode()).hexdigest()[:_DIGEST]
    return f"{spec.revision}-{digest}" if spec.revision else digest


def in_order(wanted: Iterable[WantedAdapter]) -> list[WantedAdapter]:
    """Return who comes first where not all fit: pinned ones, then the older."""
    return sorted(wanted, key=lambda each: (not each.pinned, each.created or "~", each.key))


def fitting(wanted: Iterable[WantedAdapter], limit: int) -> list[WantedAdapter]:
    return in_order(wanted)[:limit]


def missing(wanted: WantedAdapter, offers: AdapterNeed | None) -> str:
    """Say what a worker lacks for an adapter, in words; "" where it can have it."""
    if offers is None:
        return "it was started without room for adapters"
    if wanted.rank > offers.max_rank:
        return f"it was started for ranks up to {offers.max_rank}"
    lacking = [place for place in wanted.places if place not in offers.places]
    named = ", ".join(f"{place.kind.value} {place.source}".strip() for place in lacking)
    return f"it was started without {named}" if lacking else ""


def calls_for(
    wanted: Sequence[WantedAdapter], workers: Iterable[AdapterWorker], *, resting: Collection[Attempt] = ()
) -> list[AdapterCall]:
    """Return what to tell the workers; loads that are `resting` were tried and are not tried again yet."""
    return [call for worker in workers if not worker.problem for call in _calls(wanted, worker, resting)]


def _calls(
    wanted: Sequence[WantedAdapter], worker: AdapterWorker, resting: Collection[Attempt]
) -> Iterable[AdapterCall]:
    limit = worker.offers.max_adapters if worker.offers is not None else 0
    chosen = [each for each in fitting(wanted, limit) if not missing(each, worker.offers)]
    names = {each.name for each in chosen}
    yield from (UnloadAdapter(worker, each.name) for each in worker.adapters if each.name not in names)
    for each in chosen:
        report = worker.report(each.name)
        under_way = report is not None and report.is_of(each) and report.state is not Reported.FAILED
        if not under_way and (worker.name, each.name, each.revision) not in resting:
            yield LoadAdapter(worker, each)
