"""Which cluster, by kubectl's rules, and a client for it.

Rules: `--kubeconfig`, KUBECONFIG, ~/.kube/config, a Pod's own account.
lightkube reads contexts, certificates and log-in programs.  What it leaves out is done here: several files in
KUBECONFIG, the current version of log-in programs, and words for what is wrong.
"""

import json
import os
import weakref
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, Final

import httpx2 as httpx
from lightkube.config.client_adapter import Client, ConnectionParams
from lightkube.config.kubeconfig import SERVICE_ACCOUNT, KubeConfig, SingleConfig
from lightkube.core.exceptions import ConfigError

from inferplane.cluster import Choice, ClusterError, Connection, Question, Reply, UnreachableError, refusal
from inferplane.errors import InvalidError

_TIMEOUT: Final = httpx.Timeout(30.0, connect=5.0)
_FILES: Final = ("certificate-authority", "client-certificate", "client-key", "tokenFile")
_LOG_IN_VERSION: Final = "client.authentication.k8s.io/v1beta1"
_METADATA: Final = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
_FIX: Final = "pass --kubeconfig FILE, set KUBECONFIG, or use --local for an instance on this machine"


def connect(choice: Choice, environment: Mapping[str, str]) -> Connection | None:
    """Connect to the cluster meant; None where there is no kubeconfig and nothing asks for one.

    Raises InvalidError.
    """
    try:
        found = _config(choice, environment)
        if found is None:
            return None
        config = _one(found, choice.context)
        client = Client(config, ConnectionParams(timeout=_TIMEOUT, trust_env=False))
    except (ConfigError, OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        # A kubeconfig is somebody's hand-written file: lightkube meets missing keys and wrong types as they come.
        where = choice.kubeconfig or environment.get("KUBECONFIG") or "~/.kube/config"
        raise InvalidError(f"{where}: cannot be used: {_words(error)}; correct it, or {_FIX}") from error
    return Connection(
        cluster=ApiServer(client),
        namespace=choice.namespace or config.namespace,
        context=config.context_name,
        server=config.cluster.server,
    )


def _config(choice: Choice, environment: Mapping[str, str]) -> KubeConfig | None:
    files = _files(choice, environment)
    if files:
        return _joined(files)
    if Path(SERVICE_ACCOUNT, "token").is_file() and "KUBERNETES_SERVICE_HOST" in environment:
        return KubeConfig.from_service_account()
    if choice.named:
        raise InvalidError(f"there is no kubeconfig; {_FIX}")
    return None


def _files(choice: Choice, environment: Mapping[str, str]) -> list[Path]:
    """Return the files that are meant; one that was named must exist, one of several in KUBECONFIG need not."""
    if choice.kubeconfig is not None:
        return [choice.kubeconfig]
    if listed := environment.get("KUBECONFIG"):
        files = [Path(name) for name in listed.split(os.pathsep) if name]
        return [file for file in files if file.is_file()] or files[:1]
    usual = Path(environment.get("HOME") or "/", ".kube", "config")
    return [usual] if usual.is_file() else []


def _joined(files: list[Path]) -> KubeConfig:
    """Join files as kubectl does: the first one that names something wins."""
    parts = [_absolute(file) for file in files]
    joined: dict[str, Any] = {
        "current-context": next((it["current-context"] for it in parts if it.get("current-context")), None)
    }
    for kind in ("clusters", "contexts", "users"):
        entries: dict[str, Any] = {}
        for entry in (entry for part in parts for entry in part.get(kind) or ()):
            entries.setdefault(entry["name"], entry)
        joined[kind] = list(entries.values())
    return KubeConfig.from_dict(joined, fname=files[0])  # pyright: ignore[reportUnknownMemberType]  its `Dict` is bare


def _absolute(file: Path) -> dict[str, Any]:
    """Read a file, its paths relative to it made absolute, log-in programs in the version that lightkube speaks."""
    import yaml  # noqa: PLC0415  not every command needs it

    try:
        text = file.expanduser().read_text()
        document: dict[str, Any] = yaml.safe_load(text) or {}
    except yaml.YAMLError as error:
        raise ConfigError(f"it is no YAML ({error})") from error
    for kind, part in (("clusters", "cluster"), ("users", "user")):
        for entry in document.get(kind) or ():
            inner = entry[part]
            for key in _FILES:
                if key in inner:
                    inner[key] = str(file.expanduser().absolute().parent / inner[key])
            if "exec" in inner:
                inner["exec"] = _log_in(inner["exec"])
    return document


def _log_in(program: dict[str, Any]) -> dict[str, Any]:
    """Ask for the version before v1, which prints the same token; the program learns of it as kubectl says it."""
    told = {"apiVersion": _LOG_IN_VERSION, "kind": "ExecCredential", "spec": {"interactive": False}}
    variable = {"name": "KUBERNETES_EXEC_INFO", "value": json.dumps(told)}
    known = {key: program[key] for key in ("command", "args") if program.get(key) is not None}
    return {**known, "apiVersion": _LOG_IN_VERSION, "env": [*(program.get("env") or ()), variable]}


def _one(config: KubeConfig, context: str) -> SingleConfig:
    name = context or config.current_context
    if not name:
        raise InvalidError(
            f"the kubeconfig has no current context; choose one with --context: {_listed(config.contexts)}"
        )
    if name not in config.contexts:
        raise InvalidError(f"--context: the kubeconfig has no context {name!r}; there are: {_listed(config.contexts)}")
    found = config.get(name)
    if found is None or found.user is None:
        raise InvalidError(f"context {name!r} names no user; add one to the kubeconfig, or choose another --context")
    return found


def _listed(names: Mapping[str, object]) -> str:
    return ", ".join(sorted(names)) or "none"


def _words(error: Exception) -> str:
    return f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else str(error)


class ApiServer:
    """A real cluster."""

    def __init__(self, client: httpx.Client) -> None:
        self._client = client
        weakref.finalize(self, client.close)  # commands have no common end at which to close it

    def ask(self, question: Question) -> Reply:
        with _named_errors(self._client):
            answer = self._client.send(self._request(question))
            _check(answer, question)
        return Reply(answer.json() if answer.content else None, _served_at(answer))

    def lines(self, question: Question) -> Iterator[str]:
        with _named_errors(self._client):
            # What is followed may be silent for as long as it likes.
            request = self._request(question, timeout=httpx.Timeout(_TIMEOUT.connect, read=None))
            answer = self._client.send(request, stream=True)
            try:
                if answer.is_error:
                    answer.read()
                _check(answer, question)
                yield from answer.iter_lines()
            finally:
                answer.close()

    def _request(self, question: Question, timeout: httpx.Timeout = _TIMEOUT) -> httpx.Request:
        body = None if question.body is None else json.dumps(question.body).encode()
        return self._client.build_request(
            question.method,
            question.path,
            params=dict(question.query),
            content=body,
            headers={
                "accept": _METADATA if question.metadata_only else "application/json",
                **({"content-type": question.content_type} if body is not None else {}),
            },
            timeout=timeout,
        )


@contextmanager
def _named_errors(client: httpx.Client) -> Generator[None]:
    try:
        yield
    except httpx.TransportError as error:
        reason, server = str(error) or type(error).__name__, str(client.base_url).rstrip("/")
        raise UnreachableError(
            f"the cluster at {server} does not answer ({reason}); is it up, and the network (VPN) right?  "
            "`kubectl cluster-info` asks the same; --context chooses another cluster, --local this machine"
        ) from error
    except ConfigError as error:  # credentials that are made when they are needed
        raise ClusterError(f"logging in failed: {error}; see the user's entry in the kubeconfig") from error


def _check(answer: httpx.Response, question: Question) -> None:
    if not answer.is_error:
        return
    try:
        document: Any = answer.json()
    except ValueError:
        document = answer.text[:500]
    raise refusal(answer.status_code, document, question)


def _served_at(answer: httpx.Response) -> float | None:
    try:
        return parsedate_to_datetime(answer.headers.get("date", "")).timestamp()
    except ValueError:
        return None
