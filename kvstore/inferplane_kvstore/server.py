"""The socket that engines of this node connect to: a thread a connection, messages in, messages out.

Threads and not an event loop, because every answer may wait for a disk or for Redis, and there are as many connections
as engines have workers.
"""

import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

import structlog

from inferplane_kv_connector.wire import Message, WireError, receive, send
from inferplane_kvstore.session import BadRequestError, Session

BACKLOG: Final = 64
_log = structlog.get_logger()


class Server:
    def __init__(self, path: Path, arena: int, make_session: Callable[[], Session]) -> None:
        """`arena`: the descriptor that whoever says hello is given."""
        self._path = path
        self._arena = arena
        self._make_session = make_session
        self._listener = _listen(path)
        self._lock = threading.Lock()
        self._open: dict[socket.socket, threading.Thread] = {}
        self._thread = threading.Thread(target=self._accept, name="accept")

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Close everything and wait for the threads."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()
        with self._lock:
            threads = list(self._open.values())
            for connection in self._open:
                connection.shutdown(socket.SHUT_RDWR)
        for thread in threads:
            thread.join()
        self._path.unlink(missing_ok=True)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:  # stopped
                return
            thread = threading.Thread(target=self._serve, args=(connection,), name="engine")
            with self._lock:
                self._open[connection] = thread
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        session = self._make_session()
        try:
            while True:
                message = receive(connection)
                self._reply(connection, message, session)
        except WireError as gone:
            _log.debug("an engine has gone", why=str(gone))
        except OSError as error:
            _log.warning("a connection broke", error=str(error))
        finally:
            session.end()
            with self._lock:
                del self._open[connection]
            connection.close()

    def _reply(self, connection: socket.socket, message: Message, session: Session) -> None:
        try:
            reply = session.answer(message)
        except BadRequestError as error:
            send(connection, {"error": str(error)})
            return
        send(connection, reply, descriptor=self._arena if message.get("op") == "hello" else None)


def _listen(path: Path) -> socket.socket:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)  # of a store that was killed
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)  # the arena is prompt data: this user alone
    try:
        listener.bind(str(path))
    finally:
        os.umask(before)
    listener.listen(BACKLOG)
    return listener
