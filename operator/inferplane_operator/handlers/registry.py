"""Kopf's registry and settings for what is watched."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import kopf
from lightkube.config.kubeconfig import SingleConfig

from inferplane_operator.cluster.intake import Intake
from inferplane_operator.cluster.kinds import Kind

_PAGE = 25
"""Objects of a first listing that are in memory, parsed, at the same time; a dozen kinds are listed together."""
_IDLE_S = 0.05
"""How long kopf keeps a task, and with it the object, after an event."""
_BACKOFFS_S = (1, 1, *[2] * 10, *[3] * 10)
"""Between attempts to watch: an API server that was away is back for us seconds later, not half a minute."""
_TOKEN_LIFE = timedelta(minutes=10)
"""Tokens of service accounts are renewed on disk long before they expire."""


def registry_of(kinds: Iterable[Kind], intake: Intake, config: SingleConfig) -> kopf.OperatorRegistry:
    """Register one handler a kind, selected by group."""
    registry = kopf.OperatorRegistry()

    @kopf.on.login(registry=registry, id="login")  # pyright: ignore[reportUnknownMemberType] - untyped keywords
    def login(**_: object) -> kopf.ConnectionInfo:  # pyright: ignore[reportUnusedFunction] - kopf calls it
        return connection_info(config)

    for kind in kinds:
        _register(kind, intake, registry)
    return registry


def _register(kind: Kind, intake: Intake, registry: kopf.OperatorRegistry) -> None:
    # A coroutine although it awaits nothing: kopf runs plain functions in threads.
    async def handle(event: kopf.RawEvent, **_: object) -> None:
        raw = cast("dict[str, Any]", event["object"])
        if event["type"] == "DELETED":
            intake.gone(raw)
        else:
            intake.seen(raw, listed=event["type"] is None)

    on_event = cast("Any", kopf.on.event)
    on_event(group=kind.group, version=kind.version, plural=kind.plural, registry=registry, id=kind.plural)(handle)


def kopf_settings(kinds: Iterable[Kind]) -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.peering.standalone = True
    settings.scanning.disabled = True  # needs rights on definitions and namespaces; `api_presence` looks instead
    settings.networking.error_backoffs = _BACKOFFS_S
    settings.watching.chunk_size = _PAGE
    settings.queueing.idle_timeout = _IDLE_S
    settings.process.ultimate_exiting_timeout = None  # the process is ours
    for kind in kinds:
        if kind.selector:
            settings.watching.label_selectors[kind.group, kind.version, kind.plural] = kind.selector
    return settings


def connection_info(config: SingleConfig) -> kopf.ConnectionInfo:
    """Tell kopf what `lightkube` found, so that both talk to the same server as the same user."""
    cluster, user = config.cluster, config.user
    token = user.token if user else None
    expires = None
    if user and user.token_file:
        token = Path(user.token_file).read_text(encoding="utf-8").strip()
        expires = datetime.now(UTC) + _TOKEN_LIFE
    return kopf.ConnectionInfo(
        server=cluster.server,
        ca_path=_path(config, cluster.certificate_auth),
        ca_data=cluster.certificate_auth_data,
        insecure=cluster.insecure,
        username=user.username if user else None,
        password=user.password if user else None,
        token=token,
        certificate_path=_path(config, user.client_cert if user else None),
        certificate_data=user.client_cert_data if user else None,
        private_key_path=_path(config, user.client_key if user else None),
        private_key_data=user.client_key_data if user else None,
        expiration=expires,
    )


def _path(config: SingleConfig, name: str | None) -> str | None:
    return str(config.abs_file(name)) if name else None
