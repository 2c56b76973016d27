"""An external metric as autoscalers read it: a small API server of our own, made known by an APIService.

It runs in a thread of the test, which is in the cluster's network.  An APIService that nobody answers for keeps every
namespace from going, so it is taken away before the server ends.
"""

import json
import ssl
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

from e2e.cluster.certificates import Certificates
from e2e.cluster.control_plane import ADDRESS
from e2e.support.cluster import Cluster

METRIC: Final = "demand"
_GROUP: Final = "external.metrics.k8s.io"
_VERSION: Final = f"{_GROUP}/v1beta1"
_NAME: Final = "demand"


@dataclass(slots=True)
class Demand:
    """How much is wanted just now."""

    value: int = 0

    def answer(self, path: str) -> Mapping[str, Any]:
        """Return what is asked for: the metric in any namespace, or which resources there are."""
        if path.rstrip("/").endswith(METRIC):
            now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
            item: dict[str, Any] = {
                "metricName": METRIC,
                "metricLabels": {},
                "timestamp": now,
                "value": str(self.value),
            }
            return {"kind": "ExternalMetricValueList", "apiVersion": _VERSION, "metadata": {}, "items": [item]}
        resource = {
            "name": METRIC,
            "singularName": "",
            "namespaced": True,
            "kind": "ExternalMetricValueList",
            "verbs": ["get"],
        }
        return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": _VERSION, "resources": [resource]}


@contextmanager
def served(cluster: Cluster, namespace: str, folder: Path) -> Generator[Demand]:
    """Serve the metric for as long as this lasts."""
    demand = Demand()
    certificates = Certificates(folder / "pki", "")
    certificates.make_authority()
    certificates.make_server(_NAME, [f"DNS:{_NAME}.{namespace}.svc"])
    server = _listening(demand, certificates)
    thread = threading.Thread(target=server.serve_forever, name="demand")
    thread.start()
    try:
        with _known(cluster, namespace, server.server_port, certificates):
            yield demand
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _listening(demand: Demand, certificates: Certificates) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            body = json.dumps(demand.answer(self.path.partition("?")[0])).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *_: object) -> None:  # noqa: A002 - the library's name
            """Say nothing: an aggregator asks every few seconds."""

    server = ThreadingHTTPServer((ADDRESS, 0), Handler)
    server.daemon_threads = True
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.path(f"{_NAME}.crt"), certificates.path(f"{_NAME}.key"))
    server.socket = context.wrap_socket(server.socket, server_side=True)
    return server


@contextmanager
def _known(cluster: Cluster, namespace: str, port: int, certificates: Certificates) -> Generator[None]:
    for manifest in _manifests(namespace, port, certificates.encoded("ca.crt")):
        cluster.apply(manifest, namespace=namespace)
    service = f"apiservices/v1beta1.{_GROUP}"
    try:
        cluster.wait(service, "condition=Available")
        yield
    finally:
        cluster.kubectl("delete", service)


def _manifests(namespace: str, port: int, authority: str) -> tuple[dict[str, Any], ...]:
    ports = [{"name": "https", "port": port}]
    return (
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": _NAME}, "spec": {"ports": ports}},
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {"name": _NAME, "labels": {"kubernetes.io/service-name": _NAME}},
            "addressType": "IPv4",
            "ports": ports,
            "endpoints": [{"addresses": [ADDRESS], "conditions": {"ready": True}}],
        },
        {
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": f"v1beta1.{_GROUP}"},
            "spec": {
                "group": _GROUP,
                "version": "v1beta1",
                "groupPriorityMinimum": 100,
                "versionPriority": 100,
                "service": {"name": _NAME, "namespace": namespace, "port": port},
                "caBundle": authority,
            },
        },
    )
