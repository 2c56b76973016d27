"""A cluster as the command line sees it: questions in, JSON out; the seam between commands and an API server.

Objects stay mappings as they are served: the pure functions that read them (`inferplane_operator.reconcile`) take them
so, and a server that is newer than this program loses nothing on the way.
Errors are commands' errors with the fix in them, so that no command has to translate.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, cast

from inferplane.errors import CommandError, InvalidError

Object = Mapping[str, Any]
"""A Kubernetes object, or another JSON document of an API server."""

MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"


@dataclass(frozen=True, slots=True)
class Question:
    """One request to an API server."""

    path: str
    method: str = "GET"
    query: Mapping[str, str] = field(default_factory=dict[str, str])
    body: object = None
    content_type: str = "application/json"
    metadata_only: bool = False
    """Ask for an object's metadata alone: a Secret's contents then never leave the server."""


@dataclass(frozen=True, slots=True)
class Reply:
    document: Any
    served_at: float | None = None
    """The server's wall clock, in seconds since 1970; it is exact to a second."""


class Cluster(Protocol):
    """An API server, with somebody's rights."""

    def ask(self, question: Question) -> Reply:
        """Put a question and return the answer.  Raises ClusterError."""
        ...

    def lines(self, question: Question) -> Iterator[str]:
        """Give an endless or long answer line by line.  Raises ClusterError."""
        ...


@dataclass(frozen=True, slots=True)
class Choice:
    """What the options say about the cluster meant; empty: as the kubeconfig says."""

    context: str = ""
    namespace: str = ""
    kubeconfig: Path | None = None

    @property
    def named(self) -> bool:
        return bool(self.context or self.namespace or self.kubeconfig)


@dataclass(frozen=True, slots=True)
class Connection:
    """A cluster, and where in it one looks."""

    cluster: Cluster
    namespace: str = "default"
    context: str = ""
    server: str = ""

    def within(self, namespace: str) -> "Connection":
        return replace(self, namespace=namespace)


Connect = Callable[[Choice], Connection | None]
"""Connects; None where no kubeconfig exists and none was asked for."""


class ClusterError(CommandError):
    """The cluster was asked and did not do it (exit 1).

    UnreachableError      nobody answers
    CredentialsError      it does not know us
    ForbiddenError        it knows us, and we may not
    AbsentKindError       it has no such kind of object: something is not installed
    RefusedError          it found the object invalid, or a policy does
    ConflictError         somebody was faster
    """


class UnreachableError(ClusterError):
    pass


class CredentialsError(ClusterError):
    pass


class ForbiddenError(ClusterError):
    pass


class AbsentKindError(ClusterError):
    pass


class RefusedError(ClusterError):
    exit_code = 2


class ConflictError(ClusterError):
    pass


class NotFoundError(ClusterError, InvalidError):
    """There is no object of that name (exit 2)."""

    exit_code = 2


_NOT_INSTALLED = (
    "install the chart into this cluster: `helm install inferplane helm/inferplane`; see `inferplane preflight`"
)


def refusal(status: int, document: object, question: Question) -> ClusterError:
    """Make an error of an API server's answer: `document` is its Status, or text where it is none."""
    body: Mapping[str, Any] = cast("Mapping[str, Any]", document) if isinstance(document, Mapping) else {}
    said = document if isinstance(document, str) else str(body.get("message") or "")
    message = said.strip() or f"status {status}"
    if status == 401:  # noqa: PLR2004  HTTP's own numbers
        return CredentialsError(
            f"the cluster does not accept these credentials ({message}); log in again, or choose another --context"
        )
    if status == 403:  # noqa: PLR2004
        return ForbiddenError(
            f"{message}; ask whoever runs the cluster for this right, or choose another --context or namespace (-n)"
        )
    if status == 404:  # noqa: PLR2004
        return _absent(message, body, question)
    if status == 409:  # noqa: PLR2004
        return ConflictError(f"{message}; somebody changed it at the same time: try again")
    if status in (400, 422):
        return RefusedError(f"the cluster refuses it: {message}")
    return ClusterError(f"the cluster answers {status}: {message}")


def _absent(message: str, body: Mapping[str, Any], question: Question) -> ClusterError:
    """Tell an object that is not there from a kind that the server does not know, for which it has no Status."""
    if body.get("reason") == "NotFound" and body.get("details", {}).get("name"):
        return NotFoundError(f"{message}; see `kubectl get` for what there is, and -n for another namespace")
    group = question.path.removeprefix("/apis/").split("/")[0]
    if group == "inferplane.dev":
        return AbsentKindError(f"the cluster knows no inferplane.dev resources; {_NOT_INSTALLED}")
    return AbsentKindError(f"the cluster has no {question.path}")
