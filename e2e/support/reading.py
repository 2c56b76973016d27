"""Reads objects over one connection, since tests wait by looking again and again.

A kubectl is a process that asks first what kinds there are: a tenth of a second of CPU for each look, on a machine
whose Pods need every bit of it to start.  Writes stay with kubectl, which is what users have.
"""

import importlib
import json
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

_KINDS: Final = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_LIMIT_S: Final = 30


class UnreadableError(AssertionError):
    """The API server gave no object; the text holds what it said."""


@dataclass(frozen=True, slots=True)
class Resource:
    """Where objects of a kind are."""

    prefix: str
    """Of the API's version, such as /apis/apps/v1."""
    plural: str
    namespaced: bool

    def path(self, namespace: str, name: str) -> str:
        inside = f"/namespaces/{namespace}" if self.namespaced else ""
        return f"{self.prefix}{inside}/{self.plural}" + (f"/{name}" if name else "")


@dataclass(slots=True)
class Reader:
    """Knows an API server by a kubeconfig; for one thread."""

    kubeconfig: Path
    _resources: dict[str, Resource] = field(default_factory=dict[str, Resource])
    _client: Any = None

    def get(self, kind: str, name: str, *, namespace: str, selector: str) -> dict[str, Any]:
        """Return an object, or a list where there is no name; a kind is called by any name but a short one."""
        path = self._resource(kind).path(namespace, name)
        return self._ask(f"{path}?{urlencode({'labelSelector': selector})}" if selector else path)

    def _resource(self, kind: str) -> Resource:
        if kind not in self._resources:
            self._resources = {**self._discovered("/apis"), **self._discovered("/api")}
        try:
            return self._resources[kind]
        except KeyError:
            raise UnreadableError(f"the server has no kind {kind}") from None

    def _discovered(self, path: str) -> dict[str, Resource]:
        found: dict[str, Resource] = {}
        for group in reversed(self._ask(path, _KINDS)["items"]):
            name = group["metadata"].get("name", "")
            version = group["versions"][0]
            prefix = f"/apis/{name}/{version['version']}" if name else f"/api/{version['version']}"
            for each in version["resources"]:
                resource = Resource(prefix, each["resource"], each["scope"] == "Namespaced")
                for called in (each["resource"], each["singularResource"]):
                    found[called] = found[f"{called}.{name}"] = resource
        return found

    def _ask(self, path: str, accept: str = "application/json") -> dict[str, Any]:
        if self._client is None:
            kubernetes: Any = importlib.import_module("kubernetes")  # it has no types
            self._client = kubernetes.config.new_client_from_config(str(self.kubeconfig))
        configuration, pool = self._client.configuration, self._client.rest_client.pool_manager
        headers = {"Accept": accept}
        if token := configuration.get_api_key_with_prefix("BearerToken", "authorization"):
            headers["Authorization"] = token
        answer = pool.request("GET", configuration.host + path, headers=headers, timeout=_LIMIT_S)
        if answer.status != HTTPStatus.OK:
            raise UnreadableError(f"GET {path}: {answer.status}: {answer.data.decode()[:500]}")
        read: dict[str, Any] = json.loads(answer.data)
        return read
