"""The server over TLS: whole answers, streams to their end, a new certificate without a restart."""

import asyncio
import shutil
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import uvloop

from inferplane_runtime.certificates import CertificateFiles, ServedCertificate
from inferplane_runtime.http.api import Exchange, Headers, Limits, Request, Response, ResponseHead
from inferplane_runtime.http.server import HttpServer
from self_signed import self_signed

EVENTS = [b"data: %d\n\n" % number for number in range(2000)]


def answer(request: Request, exchange: Exchange) -> None:
    if request.path == b"/stream":
        exchange.start(ResponseHead(200, Headers(((b"content-type", b"text/event-stream"),))))
        for event in EVENTS:
            exchange.write(event)
        exchange.end()
    else:
        exchange.respond(Response(200, Headers(()), request.body))


@asynccontextmanager
async def serving(files: CertificateFiles) -> AsyncGenerator[HttpServer]:
    certificate = ServedCertificate(files, protocols=["http/1.1"])
    server = HttpServer(answer, limits=Limits(max_body_bytes=1 << 22), certificate=certificate)
    await server.start("127.0.0.1", 0)
    try:
        yield server
    finally:
        server.close()


async def asked(server: HttpServer, request: bytes, trusted: Path) -> bytes:
    """Send requests, the last of which closes; return all that comes."""
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", server.port, ssl=ssl.create_default_context(cafile=trusted)
    )
    writer.write(request)
    found = await reader.read(-1)
    writer.close()
    return found


def test_bodies_and_streams_are_whole(tmp_path: Path) -> None:
    body = bytes(range(256)) * 4096
    upload = b"POST /echo HTTP/1.1\r\nhost: a\r\ncontent-length: %d\r\n\r\n" % len(body) + body
    stream = b"GET /stream HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n"
    files = self_signed(tmp_path / "tls", "gateway")

    async def main() -> bytes:
        async with serving(files) as server:
            return await asked(server, upload + stream, files.chain)

    found = uvloop.run(main())

    assert found.count(b"HTTP/1.1 200") == 2
    assert body in found
    assert [found.count(event) for event in EVENTS] == [1] * len(EVENTS)
    assert found.endswith(b"0\r\n\r\n")


def test_a_new_certificate_is_shown_to_the_next_client(tmp_path: Path) -> None:
    old, new = (self_signed(tmp_path / name, name) for name in ("old", "new"))
    trusted = tmp_path / "old.crt"
    shutil.copy(old.chain, trusted)
    request = b"GET /echo HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n"

    async def main() -> None:
        async with serving(old) as server:
            assert b"200" in await asked(server, request, trusted)
            new.key.replace(old.key)
            new.chain.replace(old.chain)

            assert b"200" in await asked(server, request, old.chain)
            with pytest.raises(ssl.SSLCertVerificationError):
                await asked(server, request, trusted)

    uvloop.run(main())


def test_a_client_that_speaks_no_tls_is_let_go_and_others_are_served(tmp_path: Path) -> None:
    files = self_signed(tmp_path / "tls", "gateway")
    request = b"GET /echo HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n"

    async def main() -> None:
        async with serving(files) as server:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(request)

            assert b"200" not in await reader.read(-1)
            assert b"200" in await asked(server, request, files.chain)
            assert await server.drain(5.0) == 0
            assert not server.connections
            writer.close()

    uvloop.run(main())
