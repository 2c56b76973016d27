"""A hub on loopback that speaks as much of the protocol as the hub's own library uses for downloads.

It counts what it is asked for, and can refuse, be private or gated, or break off in the middle of a file.
"""

import hashlib
import json
import ssl
import threading
from collections import Counter
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import unquote, urlsplit

COMMIT: Final = "a1b2c3d4e5f60718293a4b5c6d7e8f9001122334"


@dataclass(slots=True)
class Repository:
    """One model on the hub."""

    files: Mapping[str, bytes]
    commit: str = COMMIT
    branches: tuple[str, ...] = ("main",)
    token: str = ""
    """Who does not bring it sees nothing; empty: public."""
    gated: bool = False
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """More of what the hub says about the model."""


@dataclass(slots=True)
class Hub:
    """What it has, what it was asked, and what goes wrong."""

    repositories: dict[str, Repository] = field(default_factory=dict[str, Repository])
    asked: Counter[str] = field(default_factory=Counter[str])
    """`METHOD /path` of every request."""
    sent: int = 0
    """Bytes of files."""
    breaks: dict[str, int] = field(default_factory=dict[str, int])
    """File to the number of bytes after which its connection is cut, once."""
    status: int = 0
    """Answered to everything, if set."""
    etag_matches: int = 0
    """Questions that were answered with 304."""
    before: Callable[[str], None] = lambda _path: None
    """Called before each answer, with the path."""
    url: str = ""


@contextmanager
def running(hub: Hub, *, tls: ssl.SSLContext | None = None) -> Generator[Hub]:
    """Serve `hub` until the block ends; its `url` is set."""

    class Handler(_Handler):
        served = hub

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    hub.url = f"{'https' if tls else 'http'}://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    served: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Say nothing: tests read what was asked."""

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def _answer(self) -> None:
        parts = [unquote(part) for part in urlsplit(self.path).path.strip("/").split("/")]
        path = f"/{'/'.join(parts)}"
        self.served.asked[f"{self.command} {path}"] += 1
        self.served.before(path)
        if self.served.status:
            self._refuse(self.served.status, "")
            return
        if parts[:2] == ["api", "models"]:
            self._about("/".join(parts[2:4]), parts[4:])
        elif parts[:1] == ["api"]:
            self._refuse(404, "")
        else:
            self._file("/".join(parts[:2]), parts[3], "/".join(parts[4:]))

    def _about(self, name: str, rest: list[str]) -> None:
        found = self._visible(name, rest[1] if len(rest) > 1 else "main")
        if found is None:
            return
        if rest[:1] == ["tree"]:
            self._json([_entry(path, content) for path, content in found.files.items()])
        else:
            self._json({"id": name, "modelId": name, "sha": found.commit, **found.extra})

    def _visible(self, name: str, revision: str) -> Repository | None:
        """Return the repository if the caller may see this revision of it; otherwise refuse as the hub does."""
        found = self.served.repositories.get(name)
        brought = (self.headers.get("authorization") or "").removeprefix("Bearer ")
        if found is None or (found.token and not brought):
            self._refuse(404 if brought else 401, "RepoNotFound")
        elif found.token and brought != found.token:
            self._refuse(401, "")
        elif found.gated:
            self._refuse(403, "GatedRepo")
        elif revision not in (found.commit, *found.branches):
            self._refuse(404, "RevisionNotFound")
        else:
            return found
        return None

    def _file(self, name: str, revision: str, path: str) -> None:
        found = self._visible(name, revision)
        if found is None:
            return
        content = found.files.get(path)
        if content is None:
            self._refuse(404, "EntryNotFound")
            return
        start = int((self.headers.get("range") or "bytes=0-").removeprefix("bytes=").split("-")[0])
        self.send_response(206 if start else 200)
        self.send_header("etag", f'"{_oid(content)}"')
        self.send_header("x-repo-commit", found.commit)
        self.send_header("x-linked-size", str(len(content)))
        self.send_header("accept-ranges", "bytes")
        if start:
            self.send_header("content-range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        self.send_header("content-length", str(len(content) - start))
        self.end_headers()
        if self.command == "GET":
            self._send(path, content[start:])

    def _send(self, path: str, content: bytes) -> None:
        upto = self.served.breaks.pop(path, None)
        piece = content if upto is None else content[:upto]
        self.wfile.write(piece)
        self.served.sent += len(piece)
        if upto is not None:
            self.wfile.flush()
            self.close_connection = True

    def _json(self, value: object) -> None:
        raw = json.dumps(value).encode()
        etag = f'"{_oid(raw)}"'
        if self.headers.get("if-none-match") == etag:
            self.served.etag_matches += 1
            self.send_response(304)
            self.send_header("etag", etag)
            self.end_headers()
            return
        self.send_response(200)
        self.send_header("etag", etag)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def _refuse(self, status: int, code: str) -> None:
        self.send_response(status)
        if code:
            self.send_header("x-error-code", code)
        self.send_header("content-length", "0")
        self.end_headers()


def _entry(path: str, content: bytes) -> dict[str, Any]:
    entry: dict[str, Any] = {"type": "file", "path": path, "size": len(content), "oid": _oid(content)}
    if path.endswith(".safetensors"):
        entry["lfs"] = {"oid": hashlib.sha256(content).hexdigest(), "size": len(content), "pointerSize": 134}
    return entry


def _oid(content: bytes) -> str:
    return hashlib.sha1(content, usedforsecurity=False).hexdigest()
