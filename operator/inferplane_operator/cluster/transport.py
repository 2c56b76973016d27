"""The seam to an API server: one call with one method, so that a fake is a function.

`lightkube` knows kubeconfigs, service accounts, certificates and rotating tokens; requests and answers stay bytes here,
since objects are only ever compared, merged and stored.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, cast

import httpx2
import orjson
from lightkube.config.client_adapter import AsyncClient, ConnectionParams
from lightkube.config.kubeconfig import KubeConfig, SingleConfig
from lightkube.config.models import User

from inferplane_operator.cluster.errors import (
    AbsentError,
    ConflictError,
    ForbiddenError,
    InvalidError,
    RefusedError,
    TerminatingError,
    ThrottledError,
    UnreachableError,
)

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
METADATA_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
_TIMEOUT_S = 10.0
_CONNECTIONS = 16
_UNTYPED = "failed to create typed patch object"
"""An apply with a field that the kind does not have; the server calls that an error of its own, 500."""


@dataclass(frozen=True, slots=True)
class Call:
    """One request."""

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    content_type: str = JSON
    accept: str = JSON


@dataclass(frozen=True, slots=True)
class Answer:
    """Whatever came back, errors included."""

    status: int
    body: bytes
    retry_after_s: float = 0.0


class Transport(Protocol):
    async def send(self, call: Call, /) -> Answer:
        """Raise UnreachableError where there is no answer."""
        ...


class KubeTransport:
    """Over HTTPS, as a kubeconfig or a service account says."""

    def __init__(self, config: SingleConfig) -> None:
        timeout = httpx2.Timeout(_TIMEOUT_S)
        self._client = AsyncClient(config, ConnectionParams(timeout=timeout, trust_env=False))
        self.failures = 0
        """Requests without an answer, or with one of 5xx."""

    async def send(self, call: Call) -> Answer:
        headers = {"accept": call.accept}
        if call.body:
            headers["content-type"] = call.content_type
        try:
            answer = await self._client.request(
                call.method, call.path, params=dict(call.query), content=call.body or None, headers=headers
            )
        except httpx2.HTTPError as error:
            self.failures += 1
            raise UnreachableError(f"{call.method} {call.path}: {type(error).__name__}: {error}") from error
        self.failures += answer.status_code >= 500  # noqa: PLR2004
        return Answer(answer.status_code, answer.content, _seconds(answer.headers.get("retry-after", "")))

    async def close(self) -> None:
        await self._client.aclose()


def connection(kubeconfig: str, context: str) -> SingleConfig:
    """Find out how to reach the cluster.  Raises lightkube's ConfigError."""
    found = KubeConfig.from_file(kubeconfig) if kubeconfig else KubeConfig.from_env()
    config = found.get(context or None)
    if config is None:  # for the type checkers: only with a default of None
        raise ValueError("the kubeconfig names no context")
    return config if config.user else config._replace(user=User())  # its client insists on one


def raise_for(call: Call, answer: Answer) -> None:
    """Turn an answer that is an error into an exception."""
    if answer.status < 400:  # noqa: PLR2004 - where errors begin
        return
    message, reasons = _status(answer.body)
    words = f"{call.method} {call.path}: {answer.status}: {message}"
    if answer.status == 429:  # noqa: PLR2004
        raise ThrottledError(words, retry_after_s=answer.retry_after_s or 1.0)
    if answer.status >= 500 and not message.startswith(_UNTYPED):  # noqa: PLR2004
        raise UnreachableError(words)
    if "NamespaceTerminating" in reasons:
        raise TerminatingError(answer.status, words)
    raise _REFUSALS.get(answer.status, RefusedError)(answer.status, words)


_REFUSALS: dict[int, Callable[[int, str], RefusedError]] = {
    400: InvalidError,
    401: ForbiddenError,
    403: ForbiddenError,
    404: AbsentError,
    409: ConflictError,
    422: InvalidError,
    500: InvalidError,
}


def _status(body: bytes) -> tuple[str, set[str]]:
    """Read a `Status` object: its message, its reason and the reasons of its causes."""
    try:
        status = orjson.loads(body)
    except orjson.JSONDecodeError:
        return body[:200].decode("utf-8", "replace"), set()
    if not isinstance(status, dict):
        return "", set()
    fields = cast("dict[str, object]", status)
    details = fields.get("details")
    causes = cast("dict[str, object]", details).get("causes") if isinstance(details, dict) else None
    reasons = {str(fields.get("reason", ""))}
    for cause in cast("list[dict[str, object]]", causes) if isinstance(causes, list) else []:
        reasons.add(str(cause.get("reason", "")))
    return str(fields.get("message", "")), reasons


def _seconds(text: str) -> float:
    return float(text) if text.isdecimal() else 0.0
