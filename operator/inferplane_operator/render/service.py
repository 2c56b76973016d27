"""An InferenceService and what belongs to it, as everything that is run for it: pure."""

from collections.abc import Sequence

from inferplane_api.catalogue import WorkerRole
from inferplane_api.catalogue_entries import catalogue_routes, catalogue_service
from inferplane_api.v1alpha1 import InferenceService, LoRAAdapter, ModelRoute
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
) -> RenderedService:
    """Render a service.  Raises RenderError.

    `adapters` may hold those of other services, which are left out; `model_revision` is the commit that the model's
    revision resolved to (default: the revision as written).
    """
    mine = _belonging(service, adapters)
    resolved = model_revision or service.spec.model.revision
    revision = revision_of(service, mine, model_revision=resolved)
    spec = service.spec

    def pool(role: WorkerRole) -> RenderedPool:
        template = spec.prefill if role is WorkerRole.PREFILL and spec.prefill is not None else spec.decode
        return render_pool(
            PoolInput(
                service=service,
                template=template,
                role=role,
                transfers=spec.prefill is not None,
                adapters=mine,
                model_revision=resolved,
                revision=revision,
                options=options or RenderOptions(),
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


def _belonging(service: InferenceService, adapters: Sequence[LoRAAdapter]) -> tuple[LoRAAdapter, ...]:
    found = (
        adapter
        for adapter in adapters
        if adapter.spec.service == service.metadata.name and adapter.metadata.namespace == service.metadata.namespace
    )
    return tuple(sorted(found, key=lambda adapter: adapter.served_name))
