"""A model hub as the operator asks it: which commit a revision is, and what the model weighs.

Problem.  A branch moves, so what a service runs has to be a commit; the hub is far away, may be slow, refuse or know
nothing, and is asked for every service.
Idea.  One small question without a token, kept with its tag, so that the next time costs the hub nothing; refusals are
kept for a while too.  The operator reads no Secrets: what only a token shows is named by its commit in the spec.
Trade-off.  Models behind a token have to be written with their commit.
Invariant.  Three things are told apart: the hub does not know it, does not show it, cannot be reached.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast
from urllib.parse import quote

import httpx

from inferplane_engine.memory import ModelFacts, facts_of
from inferplane_operator.cluster.model_revisions import Resolution
from inferplane_operator.reconcile.values import Manifest

_COMMIT: Final = re.compile(r"[0-9a-f]{40}")
_DEADLINE_S: Final = 10.0
_REFUSED_FOR_S: Final = 60.0
_UNREACHABLE_FOR_S: Final = 10.0
_MOST_KEPT: Final = 4096
_OK, _NOT_MODIFIED, _UNAUTHORISED, _FORBIDDEN, _NOT_FOUND = 200, 304, 401, 403, 404
_LARGEST_CONFIG: Final = 1024 * 1024


def public_hub() -> str:
    """Return the public hub's address, which its own library knows."""
    from huggingface_hub.constants import ENDPOINT  # noqa: PLC0415 - only where no other hub is named

    return ENDPOINT


@dataclass(frozen=True, slots=True)
class _Answer:
    resolution: Resolution
    etag: str = ""
    until: float = 0.0
    """Until when it is not asked again; answers with a tag always are, at no cost."""


@dataclass(frozen=True, slots=True)
class _Wanted:
    endpoint: str
    repository: str
    revision: str

    @property
    def about(self) -> str:
        return f"{self.endpoint}/api/models/{self.repository}/revision/{quote(self.revision, safe='')}"

    def file(self, commit: str, name: str) -> str:
        return f"{self.endpoint}/{self.repository}/resolve/{commit}/{name}"


class Hub:
    """Resolves models; `client` is the caller's to close."""

    def __init__(self, client: httpx.AsyncClient, *, endpoint: str = "", now: Callable[[], float]) -> None:
        self._client = client
        self._endpoint = endpoint
        self._now = now
        self._answers: dict[_Wanted, _Answer] = {}

    async def resolve(self, model: Manifest, /) -> Resolution:
        """Resolve `spec.model`; errors are part of the answer."""
        source: Mapping[str, Any] = model.get("source") or {}
        repository = str(source.get("hf") or "")
        if not repository:
            return Resolution()
        revision = str(model.get("revision") or "main")
        endpoint = str(model.get("endpoint") or "") or self._endpoint or public_hub()
        wanted = _Wanted(endpoint.rstrip("/"), repository, revision)
        known = self._answers.get(wanted)
        if known is not None and self._now() < known.until:
            return known.resolution
        answer = await self._ask(wanted, known)
        self._keep(wanted, answer)
        return answer.resolution

    def _keep(self, wanted: _Wanted, answer: _Answer) -> None:
        self._answers.pop(wanted, None)
        self._answers[wanted] = answer
        while len(self._answers) > _MOST_KEPT:
            del self._answers[next(iter(self._answers))]

    async def _ask(self, wanted: _Wanted, known: _Answer | None) -> _Answer:
        headers = {"if-none-match": known.etag} if known and known.etag else {}
        try:
            response = await self._get(wanted.about, headers)
            if response.status_code == _NOT_MODIFIED and known is not None:
                return known
            if response.status_code == _OK:
                return await self._found(wanted, response)
        except httpx.HTTPError as error:
            return self._unreachable(wanted, str(error) or type(error).__name__)
        return self._refused(wanted, response)

    async def _get(self, url: str, headers: Mapping[str, str] | None = None) -> httpx.Response:
        return await self._client.get(url, headers=headers, timeout=_DEADLINE_S, follow_redirects=True)

    async def _found(self, wanted: _Wanted, response: httpx.Response) -> _Answer:
        about = _object(response)
        commit = str(about.get("sha") or "")
        if not _COMMIT.fullmatch(commit):
            return self._unreachable(wanted, "it answers without a commit")
        facts = await self._facts(wanted, commit, about)
        return _Answer(Resolution(commit, facts=facts), response.headers.get("etag", ""))

    async def _facts(self, wanted: _Wanted, commit: str, about: Mapping[str, Any]) -> ModelFacts | None:
        """Ask for the model's shape; a model that does not tell it is not weighed."""
        weights: object = about.get("safetensors")
        if not isinstance(weights, dict):
            return None
        try:
            response = await self._get(wanted.file(commit, "config.json"))
        except httpx.HTTPError:
            return None
        if response.status_code != _OK or len(response.content) > _LARGEST_CONFIG:
            return None
        return facts_of(_object(response), cast("dict[str, Any]", weights).get("parameters"))

    def _unreachable(self, wanted: _Wanted, why: str) -> _Answer:
        if _COMMIT.fullmatch(wanted.revision):
            return _Answer(Resolution(wanted.revision), until=self._now() + _UNREACHABLE_FOR_S)
        problem = f"the hub cannot be reached at {wanted.endpoint}: {why}; it is asked again, or write a commit"
        return _Answer(Resolution(problem=f"{problem} in spec.model.revision"), until=self._now() + _UNREACHABLE_FOR_S)

    def _refused(self, wanted: _Wanted, response: httpx.Response) -> _Answer:
        status, code = response.status_code, response.headers.get("x-error-code", "")
        if code == "RevisionNotFound" or (status == _NOT_FOUND and code != "RepoNotFound"):
            problem = f"{wanted.repository} has no revision {wanted.revision!r}; correct spec.model.revision"
        elif status == _NOT_FOUND:
            problem = f"the hub has no {wanted.repository}; correct spec.model.source.hf"
        elif status in (_UNAUTHORISED, _FORBIDDEN):
            return self._hidden(wanted, status)
        else:
            return self._unreachable(wanted, f"it answers {status}")
        return _Answer(Resolution(problem=problem), until=self._now() + _REFUSED_FOR_S)

    def _hidden(self, wanted: _Wanted, status: int) -> _Answer:
        """Take a commit as it is: whoever downloads brings a token and finds out."""
        until = self._now() + _REFUSED_FOR_S
        if _COMMIT.fullmatch(wanted.revision):
            return _Answer(Resolution(wanted.revision), until=until)
        problem = (
            f"the hub does not show {wanted.repository} without a token ({status}), and the operator has none;"
            " write the commit in spec.model.revision, or correct spec.model.source.hf"
        )
        return _Answer(Resolution(problem=problem), until=until)


def _object(response: httpx.Response) -> Mapping[str, Any]:
    try:
        value: object = response.json()
    except ValueError:
        return {}
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
