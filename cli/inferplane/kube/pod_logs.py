"""Logs of a service's Pods: which, and how several are followed at once."""

import queue
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from inferplane.cluster import Cluster, ClusterError, Connection, NotFoundError, Object, Question, RefusedError
from inferplane.errors import InvalidError
from inferplane.kube import kinds
from inferplane.kube.fields import containers, label, name_of, part, text
from inferplane.kube.objects import items
from inferplane_operator.render.names import LABEL_COMPONENT, LABEL_SERVICE

_CONTAINERS: Final = ("agent", "engine")
_WAITING: Final = 10_000
"""Lines held for a slow reader."""


@dataclass(frozen=True, slots=True)
class Source:
    """The log of one container."""

    namespace: str
    pod: str
    container: str

    @property
    def label(self) -> str:
        return f"{self.pod}/{self.container}"


def find_sources(connection: Connection, called: str, service: str, container: str) -> list[Source]:
    """Find logs by a Pod, SERVICE, SERVICE/POOL, POOL, or `router`.  Raises InvalidError."""
    pods = items(connection.cluster, kinds.PODS, connection.namespace)
    ours = [pod for pod in pods if label(pod, LABEL_SERVICE) or label(pod, LABEL_COMPONENT)]
    chosen = [pod for pod in ours if _meant(pod, called, service)]
    if not chosen:
        names = ", ".join(sorted(name_of(pod) for pod in ours)) or "none"
        raise InvalidError(f"namespace {connection.namespace} has no Pod for {called or service!r}; there are: {names}")
    found = [Source(connection.namespace, name_of(pod), it) for pod in chosen for it in _containers(pod)]
    return [it for it in found if container in ("", it.container)]


def _meant(pod: Object, called: str, service: str) -> bool:
    name, of = name_of(pod), label(pod, LABEL_SERVICE)
    if not called:
        return service in ("", of) and bool(of)
    if called == "router":
        return label(pod, LABEL_COMPONENT) == "gateway"
    pool = called.replace("/", "-")
    return called in (name, of) or (name.startswith(f"{pool}-") and bool(of)) or name.startswith(f"{service}-{pool}-")


def _containers(pod: Object) -> Iterator[str]:
    names = [text(it, "name") for it in containers(part(pod, "spec"))]
    yield from (name for name in names if name in _CONTAINERS or not label(pod, LABEL_SERVICE))


def read(cluster: Cluster, source: Source, *, follow: bool, tail: int | None, previous: bool) -> Iterator[str]:
    """Give a log's lines; nothing where the container has not started yet.  Raises ClusterError."""
    query = {"container": source.container}
    if follow:
        query["follow"] = "true"
    if previous:
        query["previous"] = "true"
    if tail is not None:
        query["tailLines"] = str(tail)
    path = f"{kinds.PODS.path(source.namespace, source.pod)}/log"
    try:
        yield from cluster.lines(Question(path, query=query))
    except RefusedError as error:
        yield f"({error.message.removeprefix('the cluster refuses it: ')})"
    except NotFoundError:
        return  # the Pod went away meanwhile


def follow_all(cluster: Cluster, sources: Sequence[Source], *, tail: int | None) -> Iterator[tuple[Source, str]]:
    """Follow several logs; the end comes when the last of them ends.  Raises ClusterError."""
    lines: queue.Queue[tuple[Source, str | ClusterError | None]] = queue.Queue(_WAITING)

    def pump(source: Source) -> None:
        try:
            for line in read(cluster, source, follow=True, tail=tail, previous=False):
                lines.put((source, line))
        except ClusterError as error:
            lines.put((source, error))
        else:
            lines.put((source, None))

    for source in sources:
        threading.Thread(target=pump, args=(source,), name=source.label, daemon=True).start()
    open_ends = len(sources)
    while open_ends:
        source, line = lines.get()
        if isinstance(line, ClusterError):
            raise line
        if line is None:
            open_ends -= 1
        else:
            yield source, line


def ordered(sources: Iterable[Source]) -> list[Source]:
    return sorted(sources, key=lambda it: (it.pod, it.container))
