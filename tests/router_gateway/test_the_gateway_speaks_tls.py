"""A router with a certificate answers those who trust it, and one whose certificate is none says which file."""

import asyncio
import json
import ssl
import subprocess
import sys
from pathlib import Path

import pytest
import uvloop

from inferplane_router.app import running_router
from inferplane_router.config import Discovery, Listen, RouterConfig, Tls, read_config
from inferplane_runtime.settings import SettingsError
from self_signed import self_signed

NOWHERE = "127.0.0.1:0"


def written(folder: Path, tls: dict[str, str]) -> Path:
    """Write the configuration of a router of two processes."""
    config = {"discovery": {"file": "none.json"}, "cacheDir": str(folder), "tls": tls, "processes": 2}
    file = folder / "router.json"
    file.write_text(json.dumps({"listen": dict.fromkeys(("http", "grpc", "metrics"), NOWHERE), **config}))
    return file


def test_who_trusts_its_certificate_is_answered(tmp_path: Path) -> None:
    files = self_signed(tmp_path / "tls", "gateway")
    config = RouterConfig(
        discovery=Discovery(file=tmp_path / "catalogue.json"),
        cache_dir=tmp_path,
        listen=Listen(http=NOWHERE, grpc=NOWHERE, metrics=NOWHERE),
        tls=Tls(files.chain, files.key),
    )

    async def main() -> bytes:
        async with running_router(config) as router:
            trusting = ssl.create_default_context(cafile=files.chain)
            reader, writer = await asyncio.open_connection("127.0.0.1", router.http.port, ssl=trusting)
            writer.write(b"GET /health HTTP/1.1\r\nhost: gateway\r\nconnection: close\r\n\r\n")
            answer = await reader.read(-1)
            writer.close()
            return answer

    assert uvloop.run(main()).startswith(b"HTTP/1.1 200 ")


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_files_that_are_no_certificate_are_named_once_however_many_processes(tmp_path: Path) -> None:
    files = self_signed(tmp_path / "tls", "gateway")
    files.chain.write_text("no certificate")
    file = written(tmp_path, {"certificate": str(files.chain), "key": str(files.key)})
    command = [sys.executable, "-m", "inferplane_router", "--config", str(file)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)

    assert ended.returncode == 1
    assert ended.stderr.count(f"{files.chain} and {files.key} are not a certificate and its key") == 1


def test_half_a_pair_is_refused_by_its_field(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"^tls\.key"):
        read_config(written(tmp_path, {"certificate": "/etc/tls.crt"}))
