"""An InferenceService and what belongs to it, as everything that is run for it: pure."""

from collections.abc import Sequence

from inferplane_api.catalogue import WorkerRole
from inferplane_api.catalogue_entries import catalogue_routes, catalogue_service
from inferplane_api.v1alpha1 import InferenceService, KVStore, LoRAAdapter, ModelRoute
from inferplane_operator.render.adapter_need import AdapterNeed, Present, need_of
from inferplane_operator.render.kv_pods import served_by_store
from inferplane_operator.render.options import RenderOptions
from inferplane_operator.render.pool import PoolInput, render_pool
from inferplane_operator.render.revision import revision_of
from inferplane_operator.render.values import RenderedPool, RenderedService


def render_service(
    service: InferenceService,
    *,
    adapters: Sequence[LoRAAdapter] = (),
    routes: Sequence[ModelRoute] = (),
    model_revision: str = "",
    options: RenderOptions | None = None,
    present: Present | None = None,
    store: KVStore | None = None,
) -> RenderedService:
    """Render a service.  Raises RenderError.

    `adapters` may hold those of other services, which are left out; `model_revision` is the commit that the model's
    revision resolved to (default: the revision as written).  `present` is what runs now: what it offers to adapters is
    kept while it is enough and nothing else changes.  `store` is the KVStore that the service names, if there is one.
    """
    mine = _belonging(service, adapters)
    resolved = model_revision or service.spec.model.revision
    made_with = options or RenderOptions()
    need = need_of(service, mine, in_cluster=made_with.in_cluster)
    used = store if served_by_store(service) else None
    need = _kept(service, need, present, model_revision=resolved, store=used)
    revision = revision_of(service, need, model_revision=resolved, store=used)
    spec = service.spec

    def pool(role: WorkerRole) -> RenderedPool:
        template = spec.prefill if role is WorkerRole.PREFILL and spec.prefill is not None else spec.decode
        return render_pool(
            PoolInput(
                service=service,
                template=template,
                role=role,
                transfers=spec.prefill is not None,
                adapters=need,
                model_revision=resolved,
                revision=revision,
                options=made_with,
                store=used,
            )
        )

    roles = (WorkerRole.PREFILL, WorkerRole.DECODE) if spec.prefill is not None else (WorkerRole.DECODE,)
    return RenderedService(
        namespace=service.metadata.namespace,
        name=service.metadata.name,
        revision=revision,
        pools=tuple(pool(role) for role in roles),
        catalogue_service=catalogue_service(service, mine),
        routes=catalogue_routes(routes),
    )


def _kept(
    service: InferenceService,
    need: AdapterNeed | None,
    present: Present | None,
    *,
    model_revision: str,
    store: KVStore | None,
) -> AdapterNeed | None:
    """Return what runs now offers, where that meets the need and is all that would change."""
    offers = present.offers if present is not None else None
    if present is None or offers is None or (need is not None and not offers.covers(need)):
        return need
    same = revision_of(service, offers, model_revision=model_revision, store=store) == present.revision
    return offers if same else need


def _belonging(service: InferenceService, adapters: Sequence[LoRAAdapter]) -> tuple[LoRAAdapter, ...]:
    found = (
        adapter
        for adapter in adapters
        if adapter.spec.service == service.metadata.name and adapter.metadata.namespace == service.metadata.namespace
    )
    return tuple(sorted(found, key=lambda adapter: adapter.served_name))
