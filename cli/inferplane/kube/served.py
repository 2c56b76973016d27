"""A cluster in memory behind HTTP, for what lies between: a kubeconfig, a client, refusals on the wire."""

import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast
from urllib.parse import parse_qsl, urlsplit

from inferplane.cluster import (
    AbsentKindError,
    ClusterError,
    ConflictError,
    ForbiddenError,
    NotFoundError,
    Question,
    RefusedError,
)
from inferplane.kube.testing import FakeCluster

_STATUS = (
    (NotFoundError, 404, "NotFound"),
    (AbsentKindError, 404, ""),
    (ForbiddenError, 403, "Forbidden"),
    (ConflictError, 409, "Conflict"),
    (RefusedError, 422, "Invalid"),
)
"""In this order: some are kinds of others."""


class _Server(ThreadingHTTPServer):
    def __init__(self, cluster: FakeCluster, token: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.cluster = cluster
        self.token = token


class _Handler(BaseHTTPRequestHandler):
    @property
    def _api(self) -> _Server:
        return cast("_Server", self.server)

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def do_PATCH(self) -> None:
        self._answer()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  the base class's signature
        """Say nothing."""

    def date_time_string(self, timestamp: float | None = None) -> str:
        return formatdate(self._api.cluster.served_at if timestamp is None else timestamp, usegmt=True)

    def _answer(self) -> None:
        if self.headers.get("authorization") != f"Bearer {self._api.token}":
            self._send(401, json.dumps({"kind": "Status", "message": "Unauthorized", "reason": "Unauthorized"}))
            return
        question = self._question()
        try:
            if question.path.endswith("/log"):
                lines = "".join(f"{line}\n" for line in self._api.cluster.lines(question))
                self._send(200, lines, "text/plain")
            else:
                self._send(200, json.dumps(self._api.cluster.ask(question).document))
        except ClusterError as error:
            self._refuse(error, question)

    def _refuse(self, error: ClusterError, question: Question) -> None:
        status, reason = next((it[1], it[2]) for it in _STATUS if isinstance(error, it[0]))
        if not reason:  # a path that no API has
            self._send(404, "404 page not found\n", "text/plain")
            return
        name = question.path.rpartition("/")[2]
        body = {"kind": "Status", "message": error.message, "reason": reason, "details": {"name": name}}
        self._send(status, json.dumps(body))

    def _question(self) -> Question:
        parts = urlsplit(self.path)
        length = int(self.headers.get("content-length") or 0)
        return Question(
            path=parts.path,
            method=self.command,
            query=dict(parse_qsl(parts.query)),
            body=json.loads(self.rfile.read(length)) if length else None,
            content_type=self.headers.get("content-type") or "application/json",
            metadata_only="PartialObjectMetadata" in (self.headers.get("accept") or ""),
        )

    def _send(self, status: int, text: str, content_type: str = "application/json") -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("content-type", content_type)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def serve(cluster: FakeCluster, token: str) -> Generator[str]:
    """Serve on loopback to whoever shows the token; give the URL."""
    server = _Server(cluster, token)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, name="api")
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
