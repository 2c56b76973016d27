"""The API server over HTTP, with lightkube's configuration, TLS and credentials.

Problem.  lightkube's own `watch` knows no bookmarks, asks for whole objects, and waits for ever on a connection that a
network has forgotten.
Idea.  Its configured HTTP client is used directly: metadata-only answers where no more is needed, lists in pages,
bookmarks, and a limit to silence.
Invariant.  Whatever goes wrong is a `KubeError`.
"""

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Final

import httpx2
import orjson
import yaml
from lightkube.config.client_adapter import AsyncClient, ConnectionParams
from lightkube.config.kubeconfig import KubeConfig, SingleConfig
from lightkube.config.models import User
from lightkube.core.exceptions import ConfigError

from inferplane_runtime.kube.errors import (
    AbsentError,
    ConflictError,
    ForbiddenError,
    GoneError,
    KubeError,
    RefusedError,
    UnreachableError,
)
from inferplane_runtime.kube.kinds import WatchedKind
from inferplane_runtime.kube.watching import Page
from inferplane_runtime.settings import SettingsError

_OK: Final = 200
_FORBIDDEN: Final = (401, 403)
_ABSENT: Final = 404
_CONFLICT: Final = 409
_GONE: Final = 410
_MOST_SAID: Final = 300
_LONGEST_LINE: Final = 16 * 1024 * 1024
_LONGEST_WAIT_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class CallSettings:
    """Times in seconds."""

    connect_timeout_s: float = 5.0
    answer_timeout_s: float = 30.0
    """Longest time between two parts of a list."""
    silence_s: float = 90.0
    """A watch that says nothing for so long is begun anew; API servers send bookmarks about every minute."""
    shortest_watch_s: float = 240.0
    longest_watch_s: float = 480.0
    page: int = 100
    """Objects in one part of a list: it is read in one go, in the thread that answers requests."""


@dataclass(frozen=True, slots=True)
class Call:
    """One request for one object."""

    method: str
    path: str
    body: Mapping[str, Any] | None = None
    query: tuple[tuple[str, str], ...] = ()
    content_type: str = "application/json"


def read_cluster(kubeconfig: Path | None, context: str, *, where: str) -> SingleConfig:
    """Find out where the API server is and who we are there.  Raises SettingsError, with the setting's path."""
    try:
        found = KubeConfig.from_env() if kubeconfig is None else KubeConfig.from_file(kubeconfig)
        cluster = found.get(context or None)
    except ConfigError as error:
        raise SettingsError(f"{where}.kubeconfig", f"{error}; run in a Pod or name a kubeconfig") from error
    except (OSError, yaml.YAMLError, KeyError, TypeError, ValueError) as error:
        raise SettingsError(f"{where}.kubeconfig", f"cannot be read: {error!r}") from error
    if cluster is None:
        raise SettingsError(f"{where}.context", "the kubeconfig has no current context: name one")
    return cluster


class KubeApi:
    """One cluster, one namespace of it or all; a `ClusterApi`."""

    def __init__(
        self, config: SingleConfig, *, namespace: str, rng: Random, settings: CallSettings | None = None
    ) -> None:
        self._settings = settings or CallSettings()
        self._namespace = namespace
        self._rng = rng
        connect_s = self._settings.connect_timeout_s
        self._listing = httpx2.Timeout(self._settings.answer_timeout_s, connect=connect_s)
        self._watching = httpx2.Timeout(self._settings.silence_s, connect=connect_s)
        self._client = _client(config, self._listing)

    async def list_page(self, kind: WatchedKind, token: str) -> Page:
        query = {"limit": str(self._settings.page)} | ({"continue": token} if token else {})
        async with self._ask(kind, query, form="PartialObjectMetadataList", limits=self._listing) as response:
            body = orjson.loads(await response.aread())
            metadata = body["metadata"]
            items = body["items"] or ()  # an empty list of metadata is written as null
            return Page(tuple(items), metadata["resourceVersion"], metadata.get("continue") or "")

    async def watch(self, kind: WatchedKind, version: str) -> AsyncGenerator[Mapping[str, Any]]:
        wanted_s = self._rng.uniform(self._settings.shortest_watch_s, self._settings.longest_watch_s)
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(round(wanted_s)),
        }
        async with self._ask(kind, query, form="PartialObjectMetadata", limits=self._watching) as response:
            try:
                async for line in _lines(response.aiter_bytes()):
                    yield orjson.loads(line)
            except httpx2.ReadTimeout:
                return

    async def call(self, call: Call) -> Mapping[str, Any]:
        """Read or write one object; return what the API server has then."""
        headers = {"accept": "application/json"} | ({"content-type": call.content_type} if call.body else {})
        try:
            response = await self._client.request(
                call.method,
                call.path,
                params=dict(call.query),
                content=orjson.dumps(call.body) if call.body else None,
                headers=headers,
                timeout=self._listing,
            )
            if not response.is_success:
                raise await _refusal(call.path, response)
            found: Mapping[str, Any] = orjson.loads(response.content)
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ConfigError, ValueError) as error:
            raise UnreachableError(f"{call.path}: {type(error).__name__}: {error}") from error
        return found

    async def close(self) -> None:
        await self._client.aclose()

    @asynccontextmanager
    async def _ask(
        self, kind: WatchedKind, query: dict[str, str], *, form: str, limits: httpx2.Timeout
    ) -> AsyncGenerator[httpx2.Response]:
        """Open an answer; failures while it is read are translated too."""
        selected = {"labelSelector": kind.selector} if kind.selector else {}
        accept = f"application/json;as={form};g=meta.k8s.io;v=v1" if kind.metadata_only else "application/json"
        path = kind.path(self._namespace)
        try:
            async with self._client.stream(
                "GET", path, params=query | selected, headers={"accept": accept}, timeout=limits
            ) as response:
                if response.status_code != _OK:
                    raise await _refusal(path, response)
                yield response
        except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError, OSError, ConfigError) as error:
            raise UnreachableError(f"{path}: {type(error).__name__}: {error}") from error
        except (ValueError, KeyError, TypeError) as error:
            raise UnreachableError(f"{path}: this is not an API server's answer: {error!r}") from error


def _client(config: SingleConfig, timeout: httpx2.Timeout) -> httpx2.AsyncClient:
    logging.getLogger("httpx2").setLevel(logging.WARNING)  # it would log a line for each request
    somebody = config if config.user is not None else config._replace(user=User())  # lightkube insists on one
    try:
        return AsyncClient(somebody, ConnectionParams(timeout=timeout))
    except (ConfigError, OSError) as error:
        message = f"its certificates or credentials cannot be used: {error}"
        raise SettingsError("kubernetes.kubeconfig", message) from error


async def _refusal(path: str, response: httpx2.Response) -> KubeError:
    body = (await response.aread())[:_LONGEST_LINE]
    said = f"{path}: {response.status_code}: {_message(body)}"
    if response.status_code == _GONE:
        return GoneError(said)
    if response.status_code in _FORBIDDEN:
        return ForbiddenError(said)
    if response.status_code == _ABSENT:
        return AbsentError(said)
    if response.status_code == _CONFLICT:
        return ConflictError(said)
    return RefusedError(said, retry_after_s=_seconds(response.headers.get("retry-after", "")))


def _message(body: bytes) -> str:
    try:
        return str(orjson.loads(body)["message"])[:_MOST_SAID]
    except (ValueError, KeyError, TypeError):
        return body[:_MOST_SAID].decode("utf-8", "replace").strip()


def _seconds(text: str) -> float:
    return min(float(text), _LONGEST_WAIT_S) if text.isdecimal() else 0.0


async def _lines(chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes]:
    parts: list[bytes] = []
    async for chunk in chunks:
        head, newline, rest = chunk.partition(b"\n")
        parts.append(head)
        if sum(map(len, parts)) > _LONGEST_LINE:
            raise ValueError(f"a line of more than {_LONGEST_LINE} bytes")
        while newline:
            if line := b"".join(parts):
                yield line
            head, newline, rest = rest.partition(b"\n")
            parts = [head]
