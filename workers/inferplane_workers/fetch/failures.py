"""What went wrong with a download, in words that name the field to change.

The last line that the program writes becomes the container's message, so it is what a person sees first.
"""

import errno
import ssl
from collections.abc import Iterator
from typing import Final

import httpx2
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    LocalEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from inferplane_workers.fetch.config import FetchConfig

_SECRET: Final = "spec.model.secretRef"  # noqa: S105 - a field's name
_DENIED: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_UNAUTHORISED, _FORBIDDEN, _TOO_MANY = 401, 403, 429


class FetchError(Exception):
    """The files are not there; the message says why and what to do."""


def explain(error: Exception, config: FetchConfig, *, token: bool) -> str | None:
    """Return what went wrong, or None for what is our own fault."""
    for cause in _causes(error):
        if isinstance(cause, FetchError):
            return str(cause)
        if isinstance(cause, HfHubHTTPError):
            return _refused(cause, config, token=token)
        if isinstance(cause, ssl.SSLError):
            return (
                f"{_hub(config)} shows a certificate that nobody vouches for; give its issuer's in spec.model.caBundle"
            )
    return _unreachable(error, config) or _disk(error, config)


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        seen = seen.__cause__ or seen.__context__


def _hub(config: FetchConfig) -> str:
    return config.endpoint or "the hub"


def _refused(error: HfHubHTTPError, config: FetchConfig, *, token: bool) -> str:
    status = error.response.status_code
    if isinstance(error, GatedRepoError):
        return f"{config.repository} is gated; {_gate(token=token)}"
    if isinstance(error, RevisionNotFoundError):
        return f"{config.repository} has no revision {config.revision!r}; correct spec.model.revision"
    if isinstance(error, RepositoryNotFoundError) or status == _UNAUTHORISED:
        return _unseen(config, status, token=token)
    if status == _FORBIDDEN:
        return f"{_hub(config)} forbids {config.repository} (403); give a token that may read it in {_SECRET}"
    if status == _TOO_MANY:
        return (
            f"{_hub(config)} has had too many requests (429); it is tried again, a mirror in spec.model.endpoint helps"
        )
    return f"{_hub(config)} answers {status}; it is tried again"


def _unseen(config: FetchConfig, status: int, *, token: bool) -> str:
    if status == _UNAUTHORISED and token:
        return f"{_hub(config)} does not know the token (401); renew the key `token` of {_SECRET}"
    fix = "or let the token's account read it" if token else f"or, if it is private, give a token in {_SECRET}"
    return f"{_hub(config)} shows no {config.repository} ({status}); correct spec.model.source.hf, {fix}"


def _gate(*, token: bool) -> str:
    if token:
        return f"accept its terms with the account of the token in {_SECRET}"
    return f"accept its terms, and give that account's token in {_SECRET}"


def _unreachable(error: Exception, config: FetchConfig) -> str | None:
    found = next((cause for cause in _causes(error) if isinstance(cause, httpx2.TransportError)), None)
    if found is not None:
        what = str(found) or type(found).__name__
        return f"cannot reach {_hub(config)}: {what}; it is tried again, spec.model.endpoint names a mirror"
    if isinstance(error, LocalEntryNotFoundError):
        return f"{_hub(config)} gives no files of {config.repository}: {str(error).splitlines()[0]}"
    return None


def _disk(error: Exception, config: FetchConfig) -> str | None:
    codes = {cause.errno for cause in _causes(error) if isinstance(cause, OSError)}
    if codes & _FULL:
        return f"{config.cache} is full; make the volume of spec.model.cache (or the node's disk) larger"
    if codes & _DENIED:
        return f"{config.cache} cannot be written; let group 65532 write to the volume of spec.model.cache"
    return None
