"""Names that a shell completes: local instances and a cluster's services.

Invariant: completion never prints an error and never waits long; where nothing can be found out, nothing is offered.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from inferplane.cluster import Choice, Question

if TYPE_CHECKING:
    from inferplane.context import Context

_MOST: Final = "200"
_POOLS: Final = ("prefill", "decode")


def complete_instance(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Offer local instances, and the services of the cluster meant."""
    return _fitting([*_local(ctx), *_services(ctx)], incomplete)


def complete_service(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    return _fitting(_services(ctx), incomplete)


def complete_pool(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Offer pools: as a local instance calls them, and as SERVICE/POOL."""
    local = _POOLS if list(_local(ctx)) else ()
    return _fitting([*local, *(f"{name}/{pool}" for name in _services(ctx) for pool in _POOLS)], incomplete)


def _fitting(names: list[str] | Iterator[str], incomplete: str) -> list[str]:
    return sorted({name for name in names if name.startswith(incomplete)})


def _local(ctx: click.Context) -> Iterator[str]:
    from inferplane.instances import all_instances  # noqa: PLC0415  only while a name is completed

    if _explicit(ctx).named:
        return
    yield from (instance.name for instance in all_instances(ctx.obj))


def _explicit(ctx: click.Context) -> Choice:
    given: dict[str, Any] = ctx.params
    return Choice(given.get("kube_context") or "", given.get("namespace") or "", _path(given.get("kubeconfig")))


def _path(value: object) -> Path | None:
    return Path(str(value)) if value else None


def _services(ctx: click.Context) -> Iterator[str]:
    from inferplane.kube.fields import name_of, parts  # noqa: PLC0415
    from inferplane.kube.kinds import SERVICES  # noqa: PLC0415

    context: Context = ctx.obj
    if ctx.params.get("local"):
        return
    try:
        connection = context.connect(_explicit(ctx))
        if connection is None:
            return
        query = {"limit": _MOST, "timeoutSeconds": "2"}
        listed = connection.cluster.ask(Question(SERVICES.collection(connection.namespace), query=query)).document
    except click.ClickException:  # no cluster, no rights, no such kind: nothing to offer
        return
    yield from (name_of(it) for it in parts(listed, "items"))
