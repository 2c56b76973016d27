"""Which discovery a configuration asks for.

What watches a cluster (HTTP client, TLS, the custom resources' types) is imported only where it is asked for: it would
double the start of a router that reads a file.
"""

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from random import Random

from inferplane_api.catalogue import Catalogue
from inferplane_router.config import Discovery as Settings
from inferplane_router.discovery.api import Discovery
from inferplane_router.discovery.file import CatalogueFile


@asynccontextmanager
async def open_discovery(
    settings: Settings,
    *,
    apply: Callable[[Catalogue], None],
    failed: Callable[[], None],
    ignored: Callable[[Mapping[str, int]], None],
    rng: Random,
) -> AsyncGenerator[Discovery]:
    """Return the source; what can be known without waiting is applied at once.

    A router that reads a file so knows its models before the first request.
    """
    if settings.file is not None:
        file = CatalogueFile(settings.file, apply=apply, failed=failed)
        file.look()
        yield file
    elif settings.kubernetes is not None:
        from inferplane_router.discovery.kubernetes import ClusterCatalogue, Heard  # noqa: PLC0415
        from inferplane_runtime.kube.api import KubeApi, read_cluster  # noqa: PLC0415 - only where it is asked for

        wanted = settings.kubernetes
        cluster = read_cluster(wanted.kubeconfig, wanted.context, where="discovery.kubernetes")
        api = KubeApi(cluster, namespace=wanted.namespace, rng=rng)
        try:
            yield ClusterCatalogue(api, Heard(apply, failed, ignored), rng=rng)
        finally:
            await api.close()
