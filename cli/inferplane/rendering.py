"""A manifest, rendered: errors of rendering are errors of the file."""

from inferplane.errors import InvalidError
from inferplane.manifest import Manifest
from inferplane_api.v1alpha1.lora_adapter import LoRAAdapter
from inferplane_api.v1alpha1.model_route import ModelRoute
from inferplane_operator.render import RenderedService, RenderError, RenderOptions, render_service


def unresolved(manifest: Manifest) -> str:
    """Return the model's revision as the file has it, a hub's usual branch where it has none."""
    model = manifest.service.spec.model
    hub = model.source is not None and model.source.hf is not None
    return model.revision or ("main" if hub else "")


def rendered(manifest: Manifest, options: RenderOptions | None = None, *, model_revision: str = "") -> RenderedService:
    """Render the service of a file.  Raises InvalidError."""
    try:
        return render_service(
            manifest.service,
            adapters=[resource for resource in manifest.resources if isinstance(resource, LoRAAdapter)],
            routes=[resource for resource in manifest.resources if isinstance(resource, ModelRoute)],
            options=options,
            model_revision=model_revision,
            store=manifest.store,
        )
    except RenderError as error:
        raise InvalidError(str(error)) from error
