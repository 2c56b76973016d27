"""Namespaces that tests work in: one name for one test, and nobody waits for their end.

A deleted namespace drains its workers for seconds; the next test has another one and need not wait for that.
"""

import hashlib
import re
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from e2e.support.cluster import Cluster

_LONGEST: Final = 40


@contextmanager
def namespace_of(cluster: Cluster, name: str) -> Generator[str]:
    """Make a namespace for the context."""
    cluster.kubectl("create", "namespace", name)
    try:
        yield name
    finally:
        # where the cluster is somebody's, nothing may be left when the tests end
        cluster.kubectl("delete", "namespace", name, f"--wait={str(cluster.own is None).lower()}", "--timeout=120s")


def name_for(test: str) -> str:
    """Return a namespace's name that reads like a test's, and is this test's alone where it had to be cut."""
    whole = re.sub(r"[^a-z0-9]+", "-", test.lower().removeprefix("test_")).strip("-")
    if len(whole) <= _LONGEST:
        return whole
    digest = hashlib.sha256(test.encode()).hexdigest()[:6]
    return f"{whole[: _LONGEST - 7].strip('-')}-{digest}"
