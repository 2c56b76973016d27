"""The archive of `dump`: one file that tells a stranger what is wrong with a service.

Objects are redacted, Secrets are never read.  Logs are what programs wrote: they go in as they are, which the manifest
of the archive says.
"""

import json
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final

from inferplane.archive import Archive
from inferplane.cluster import ClusterError, Connection, Object
from inferplane.kube import kinds
from inferplane.kube.fields import container_states, containers, name_of, number, part, parts, text
from inferplane.kube.objects import readable_items
from inferplane.kube.picture import Picture
from inferplane.kube.pod_logs import Source, read
from inferplane.redaction import redacted

_LOG_LINES: Final = 5_000
_NOTE: Final = """\
{count} files about InferenceService {namespace}/{name}, gathered {when}.
Values of environment variables, secret arguments and log-in data in addresses are left out; Secrets were not read.
Logs are as they were written: look into logs/ before you give this to somebody.
"""


def build(connection: Connection, found: Picture, *, write: Callable[[object], str], when: str) -> Archive:
    """Gather what the picture does not hold, and lay everything out."""
    archive = Archive()
    archive.put_objects("objects", found.objects, write)
    cluster, namespace = connection.cluster, connection.namespace
    archive.put_objects("objects", readable_items(cluster, kinds.ROUTES, namespace), write)
    archive.put_objects("objects", readable_items(cluster, kinds.KV_STORES, namespace), write)
    archive.put_objects("nodes", [_node(it) for it in readable_items(cluster, kinds.NODES)], write)
    archive.files["events.json"] = _json([redacted(it) for it in found.events])
    archive.files["conditions.json"] = _json(dict(_conditions(found)))
    for name, content in _logs(connection, found):
        archive.files[f"logs/{name}"] = content
    note = _NOTE.format(count=len(archive.files), namespace=found.namespace, name=found.name, when=when)
    hidden = f"Not readable with these rights: {', '.join(found.hidden)}.\n" if found.hidden else ""
    archive.files["README"] = f"{note}{hidden}".encode()
    return archive


def _node(node: Object) -> Object:
    """Keep what scheduling looks at; a node's list of images is long and of no use."""
    status = part(node, "status")
    kept = {key: status[key] for key in ("allocatable", "capacity", "conditions", "nodeInfo") if key in status}
    return {**node, "status": kept}


def _conditions(found: Picture) -> Iterator[tuple[str, object]]:
    for it in found.objects:
        if conditions := parts(it, "status", "conditions"):
            yield f"{text(it, 'kind')}/{name_of(it)}", conditions


def _logs(connection: Connection, found: Picture) -> Iterator[tuple[str, bytes]]:
    for pod in found.pods:
        name = name_of(pod)
        for container in containers(part(pod, "spec")):
            source = Source(connection.namespace, name, text(container, "name"))
            yield f"{name}.{source.container}.log", _log(connection, source, previous=False)
            if _restarted(pod, source.container):
                yield f"{name}.{source.container}.previous.log", _log(connection, source, previous=True)


def _log(connection: Connection, source: Source, *, previous: bool) -> bytes:
    try:
        lines = read(connection.cluster, source, follow=False, tail=_LOG_LINES, previous=previous)
        return "".join(f"{line}\n" for line in islice(lines, _LOG_LINES)).encode()
    except ClusterError as error:
        return f"({error.message})\n".encode()


def _restarted(pod: Object, container: str) -> bool:
    return any(number(it, "restartCount") > 0 for it in container_states(pod) if text(it, "name") == container)


def _json(value: object) -> bytes:
    return json.dumps(value, indent=2, ensure_ascii=False).encode()
