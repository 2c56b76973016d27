"""A release whose operator rests, so that another one can be watched at work."""

from collections.abc import Generator
from contextlib import contextmanager

from e2e.support.release import Release
from e2e.support.waiting import until


@contextmanager
def no_operator(release: Release) -> Generator[None]:
    """Have no operator run, in the context."""
    deployment = ("-n", release.namespace, f"deployment/{release.deployment('operator')}")
    release.cluster.kubectl("scale", *deployment, "--replicas=0")
    until(lambda: not release.pods("operator"), 60, what="no operator")
    try:
        yield
    finally:
        release.cluster.kubectl("scale", *deployment, "--replicas=1")
        release.cluster.kubectl("rollout", "status", *deployment, "--timeout=60s")
