"""Single objects of an API server: what is sent, and what an answer that is an error becomes."""

import asyncio
from collections.abc import Mapping
from random import Random
from typing import Any

import orjson
import pytest
from lightkube.config.kubeconfig import KubeConfig

from inferplane_runtime.http.api import Exchange, Headers, Limits, Request, Response
from inferplane_runtime.http.server import HttpServer
from inferplane_runtime.kube.api import Call, KubeApi
from inferplane_runtime.kube.errors import (
    AbsentError,
    ConflictError,
    ForbiddenError,
    KubeError,
    RefusedError,
    UnreachableError,
)

JSON = Headers(((b"content-type", b"application/json"),))
PATH = "/apis/inferplane.dev/v1alpha1/namespaces/ns/decodepools/chat/scale"


def ask(call: Call, *, status: int = 200, body: bytes = b'{"kind":"Scale"}') -> tuple[Mapping[str, Any], list[Request]]:
    """Make one call of a server that always answers the same."""
    asked = list[Request]()

    def answer(request: Request, exchange: Exchange) -> None:
        asked.append(request)
        exchange.respond(Response(status, JSON, body))

    async def run() -> Mapping[str, Any]:
        server = HttpServer(answer, limits=Limits())
        await server.start("127.0.0.1", 0)
        config = KubeConfig.from_server(f"http://127.0.0.1:{server.port}").get()
        assert config is not None
        api = KubeApi(config, namespace="", rng=Random(1))
        try:
            return await api.call(call)
        finally:
            await api.close()
            server.close()

    return asyncio.run(run()), asked


def test_an_object_is_written_as_its_manager() -> None:
    patch = {"spec": {"replicas": 3}}
    call = Call("PATCH", PATH, patch, (("fieldManager", "inferplane-planner"),), "application/merge-patch+json")
    found, (asked,) = ask(call)

    assert found == {"kind": "Scale"}
    assert (asked.method, asked.path, asked.query) == (b"PATCH", PATH.encode(), b"fieldManager=inferplane-planner")
    assert asked.headers.get(b"content-type") == b"application/merge-patch+json"
    assert orjson.loads(asked.body) == patch


def test_what_is_only_read_has_no_body() -> None:
    _, (asked,) = ask(Call("GET", PATH))

    assert asked.headers.get(b"content-type") is None
    assert asked.body == b""


@pytest.mark.parametrize(
    ("status", "error"),
    [(404, AbsentError), (409, ConflictError), (403, ForbiddenError), (422, RefusedError), (500, RefusedError)],
)
def test_refusals_are_told_apart(status: int, error: type[KubeError]) -> None:
    with pytest.raises(error, match=f"{status}: no such thing"):
        ask(Call("GET", PATH), status=status, body=b'{"message":"no such thing"}')


def test_what_is_no_api_server_is_unreachable() -> None:
    with pytest.raises(UnreachableError):
        ask(Call("GET", PATH), body=b"<html>")
