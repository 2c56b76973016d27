"""`render`: what a file stands for, as the operator would make it; nothing is started."""

from pathlib import Path
from typing import Any

import click

from inferplane.errors import InvalidError
from inferplane.manifest import Manifest, read_manifest
from inferplane.options import file_option
from inferplane.output import Format, show_document
from inferplane_api.v1alpha1.lora_adapter import LoRAAdapter
from inferplane_api.v1alpha1.model_route import ModelRoute
from inferplane_operator.render import RenderedPool, RenderedService, RenderError, local_options, render_service


@click.command("render")
@file_option
@click.option("--local", is_flag=True, help="With this machine's programs instead of images' own.")
@click.option(
    "-o",
    "--output",
    type=click.Choice([Format.YAML.value, Format.JSON.value]),
    default=Format.YAML.value,
    show_default=True,
    help="How to show the result.",
)
def command(*, filename: Path, local: bool, output: str) -> None:
    """Print the pools and Pod templates that a file stands for."""
    show_document(_document(_render(read_manifest(filename), local=local)), Format(output))


def _render(manifest: Manifest, *, local: bool) -> RenderedService:
    try:
        return render_service(
            manifest.service,
            adapters=[resource for resource in manifest.resources if isinstance(resource, LoRAAdapter)],
            routes=[resource for resource in manifest.resources if isinstance(resource, ModelRoute)],
            options=local_options(engine_python="python") if local else None,
        )
    except RenderError as error:
        raise InvalidError(str(error)) from error


def _document(rendered: RenderedService) -> dict[str, Any]:
    return {
        "service": rendered.catalogue_service.model_dump(mode="json", by_alias=True),
        "routes": [route.model_dump(mode="json", by_alias=True) for route in rendered.routes],
        "revision": rendered.revision,
        "pools": [_pool(pool) for pool in rendered.pools],
    }


def _pool(pool: RenderedPool) -> dict[str, Any]:
    return {
        "name": pool.name,
        "role": pool.role.value,
        "replicas": pool.replicas,
        "minReplicas": pool.min_replicas,
        "maxReplicas": pool.max_replicas,
        "revision": pool.revision,
        "devices": pool.devices,
        "podTemplate": pool.pod_template,
    }
