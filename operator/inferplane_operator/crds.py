"""`python -m inferplane_operator.crds` puts this release's custom resource definitions into a cluster.

Problem.  Helm never upgrades definitions that stand in a chart's crds/, and those in its templates/ belong to one
release: a second one cannot be installed, and an uninstall takes every service with it.
Idea.  The definitions are made from the types in this package, so whoever has the image has them.  A Job of the chart
runs this program before each install and upgrade; it applies them server-side and waits until they are served.
Trade-off.  Something beside the release has written cluster-wide objects, and nobody removes them.
Invariant.  A definition never goes back: what a newer release has put there stays, as objects may use its fields.
"""

import asyncio
import logging
import os
import re
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version as installed_version
from typing import Any, Final, cast

import orjson
import structlog
from lightkube.core.exceptions import ConfigError

from inferplane_api.schema.definitions import NAMES, custom_resource_definition
from inferplane_operator.cluster.errors import (
    AbsentError,
    ClusterError,
    ConflictError,
    ForbiddenError,
    ThrottledError,
    UnreachableError,
)
from inferplane_operator.cluster.transport import (
    APPLY_PATCH,
    Answer,
    Call,
    KubeTransport,
    Transport,
    connection,
    raise_for,
)
from inferplane_operator.reconcile.values import Manifest
from inferplane_runtime import logs
from inferplane_runtime.logs import LogFormat, LogLevel
from inferplane_runtime.settings import SettingsError, load, parse_duration, setting

MANAGER: Final = "inferplane-operator"
VERSION_LABEL: Final = "app.kubernetes.io/version"
_ROOT: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_PAUSE_S: Final = 0.25
_FAILED, _WRONG_USAGE, _NOT_IN_TIME = 1, 2, 3
_log = structlog.get_logger("inferplane.crds")
Pause = Callable[[float], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class CrdSettings:
    """Puts this release's custom resource definitions into a cluster."""

    kubeconfig: str = setting(help="file; none: the Pod's service account, else ~/.kube/config", default="")
    context: str = setting(help="context of the kubeconfig; none: its current one", default="")
    timeout: float = setting(help="longest time until all are served", default=120.0, parse=parse_duration, minimum=1)
    log_format: LogFormat = setting(help="logfmt, json or console", default=LogFormat.LOGFMT)
    log_level: LogLevel = setting(help="debug, info, warning or error", default=LogLevel.INFO)


class NotYetError(Exception):
    """The cluster is not where it has to be; it may get there."""


_PASSING: Final = (NotYetError, UnreachableError, ThrottledError, ConflictError, ForbiddenError)
"""Forbidden too: the Job's permissions are made a moment before it runs, and API servers learn of them one by one."""


def definitions(version: str) -> tuple[Manifest, ...]:
    """Return every definition, labelled with the release that it is from."""
    return tuple(_labelled(custom_resource_definition(kind), version) for kind in NAMES)


def _labelled(definition: dict[str, Any], version: str) -> Manifest:
    metadata = definition["metadata"]
    labels = {**metadata["labels"], VERSION_LABEL: version.replace("+", "_")}
    return {**definition, "metadata": {**metadata, "labels": labels}}


def is_newer(there: Manifest, version: str) -> bool:
    """Whether a definition that is there comes from a later release; one without a version does not."""
    labels: dict[str, Any] = there["metadata"].get("labels") or {}
    return _numbers(str(labels.get(VERSION_LABEL, ""))) > _numbers(version)


def _numbers(version: str) -> tuple[int, ...]:
    """Return major, minor and patch; pre-releases count as what they lead to."""
    match = re.match(r"(\d+)\.(\d+)\.(\d+)", version)
    return tuple(int(part) for part in match.groups()) if match else ()


def check_served(there: Manifest) -> None:
    """Raise NotYetError, with the server's own words, unless objects of this definition can be made."""
    name, status = there["metadata"]["name"], cast("dict[str, Any]", there.get("status") or {})
    if "deletionTimestamp" in there["metadata"]:
        raise NotYetError(f"{name} is being deleted, until its last object is gone")
    by_type: dict[str, dict[str, Any]] = {each["type"]: each for each in status.get("conditions") or ()}
    for wanted in ("NamesAccepted", "Established"):
        condition = by_type.get(wanted, {"status": "Unknown"})
        if condition["status"] != "True":
            raise NotYetError(f"{name}: {wanted} is {condition['status']}: {condition.get('message', 'no word yet')}")


class Installer:
    """Takes the definitions into a cluster, one after the other, and waits for all of them."""

    def __init__(self, transport: Transport, *, version: str, pause: Pause = asyncio.sleep) -> None:
        self._transport = transport
        self._version = version
        self._pause = pause
        self.problem = ""
        """What stood in the way last."""

    async def install(self) -> None:
        """Return when all are served.  Raises ClusterError where trying again would not help."""
        wanted = definitions(self._version)
        for definition in wanted:
            await self._until_done(partial(self._put, definition))
        for definition in wanted:
            await self._until_done(partial(self._look, definition))

    async def _until_done(self, attempt: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                return await attempt()
            except _PASSING as error:
                self._note(str(error))
            await self._pause(_PAUSE_S)

    def _note(self, problem: str) -> None:
        if problem != self.problem:
            _log.info("waiting", problem=problem)
        self.problem = problem

    async def _put(self, definition: Manifest) -> None:
        name = definition["metadata"]["name"]
        there = await self._read(name)
        if there is not None and "deletionTimestamp" in there["metadata"]:
            check_served(there)
        if there is not None and is_newer(there, self._version):
            _log.warning("kept", definition=name, reason="a newer release has put it there")
            return
        query = (("fieldManager", MANAGER), ("force", "true"))
        await self._send(Call("PATCH", f"{_ROOT}/{name}", query, orjson.dumps(definition), APPLY_PATCH))
        _log.info("applied", definition=name)

    async def _look(self, definition: Manifest) -> None:
        name = definition["metadata"]["name"]
        there = await self._read(name)
        if there is None:
            raise NotYetError(f"{name} has gone again: somebody deleted it")
        check_served(there)

    async def _read(self, name: str) -> Manifest | None:
        try:
            answer = await self._send(Call("GET", f"{_ROOT}/{name}"))
        except AbsentError:
            return None
        return cast("Manifest", orjson.loads(answer.body))

    async def _send(self, call: Call) -> Answer:
        answer = await self._transport.send(call)
        raise_for(call, answer)
        return answer


async def run(transport: Transport, settings: CrdSettings, *, version: str) -> int:
    """Install within the time that is given, and return the exit code."""
    installer = Installer(transport, version=version)
    try:
        async with asyncio.timeout(settings.timeout):
            await installer.install()
    except TimeoutError:
        _log.error("not in time", timeout_s=settings.timeout, problem=installer.problem)
        return _NOT_IN_TIME
    except ClusterError as error:
        _log.error("refused", problem=str(error))
        return _FAILED
    _log.info("served", definitions=len(NAMES), version=version)
    return 0


async def _connected(settings: CrdSettings) -> int:
    transport = KubeTransport(connection(settings.kubeconfig, settings.context))
    try:
        return await run(transport, settings, version=installed_version("inferplane"))
    finally:
        await transport.close()


def main(argv: list[str], environ: dict[str, str]) -> int:
    try:
        settings = load(CrdSettings, argv, environ, program="python -m inferplane_operator.crds")
    except SettingsError as error:
        sys.stderr.write(f"error: {error}\n")
        return _WRONG_USAGE
    logs.configure(form=settings.log_format, level=settings.log_level, component="crds")
    logging.getLogger("httpx2").setLevel(logging.WARNING)  # a line a request would bury the rest
    try:
        return asyncio.run(_connected(settings))
    except ConfigError as error:
        sys.stderr.write(f"error: --kubeconfig: {error}\n")
        return _WRONG_USAGE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], dict(os.environ)))
