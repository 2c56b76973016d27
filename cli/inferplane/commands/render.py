"""`render`: what a file stands for, as the operator would make it; nothing is started or asked."""

from pathlib import Path
from typing import Any

import click

from inferplane.manifest import Manifest, read_manifest
from inferplane.options import file_option
from inferplane.output import Format, show_document, yaml_text
from inferplane.rendering import rendered, unresolved
from inferplane_operator.render import RenderedPool, RenderedService, RenderOptions, local_options


@click.command("render")
@file_option
@click.option("--pools", is_flag=True, help="Print the pool objects that the operator keeps, not what they become.")
@click.option("--local", is_flag=True, help="Print what runs on this machine: Pod templates with its own programs.")
@click.option("-n", "--namespace", default="", help="Namespace of what names none.")
@click.option("--agent-image", default="", help="Image of the worker's agent.  [default: this release's]")
@click.option(
    "--model-revision", default="", help="Commit of the model; the operator looks it up.  [default: as written]"
)
@click.option(
    "-o",
    "--output",
    type=click.Choice([Format.YAML.value, Format.JSON.value]),
    default=Format.YAML.value,
    show_default=True,
    help="How to show the result.",
)
def command(
    *,
    filename: Path,
    pools: bool,
    local: bool,
    namespace: str,
    agent_image: str,
    model_revision: str,
    output: str,
) -> None:
    """Print what a file stands for: objects that `kubectl apply -f -` takes, also where no operator runs."""
    if local and pools:
        raise click.UsageError(
            "--local prints what runs on this machine, --pools what the operator keeps; leave one out"
        )
    manifest = read_manifest(filename, for_cluster=not local).within(namespace)
    if local:
        show_document(_templates(rendered(manifest, local_options(engine_python="python"))), Format(output))
        return
    options = RenderOptions(agent_image=agent_image) if agent_image else RenderOptions()
    _show(_objects(manifest, options, model_revision or unresolved(manifest), pools=pools), Format(output))


def _objects(manifest: Manifest, options: RenderOptions, model_revision: str, *, pools: bool) -> list[dict[str, Any]]:
    from inferplane.kube.standalone import plain_objects, pool_objects  # noqa: PLC0415  not for --local

    make = pool_objects if pools else plain_objects
    return make(manifest, options, model_revision=model_revision)


def _show(objects: list[dict[str, Any]], form: Format) -> None:
    if form is Format.JSON:
        show_document({"apiVersion": "v1", "kind": "List", "items": objects}, form)
        return
    click.echo("---\n".join(yaml_text(it) for it in objects), nl=False)


def _templates(found: RenderedService) -> dict[str, Any]:
    return {
        "service": found.catalogue_service.model_dump(mode="json", by_alias=True),
        "routes": [route.model_dump(mode="json", by_alias=True) for route in found.routes],
        "revision": found.revision,
        "pools": [_pool(pool) for pool in found.pools],
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
