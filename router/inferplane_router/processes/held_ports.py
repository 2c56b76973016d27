"""The ports of a router of several processes: taken once, before anybody listens, and shared.

Problem: every gateway listens on the same ports, which may be any free ones, and must not mix with another router's.
Idea: the supervisor binds each port alone, which fails where somebody else listens, and then for sharing; it never
listens, so no connection goes there, and the number stays taken while processes come and go.
Trade-off: between the two binds somebody else could come.
"""

import socket
from dataclasses import replace

from inferplane_router.config import Listen
from inferplane_runtime.http.client import split_address


def hold(listen: Listen) -> tuple[Listen, list[socket.socket]]:
    """Return the addresses with the ports that were got, and what holds them; OSError names the field."""
    holders: list[socket.socket] = []
    try:
        return _held(listen, holders), holders
    except OSError:
        for holder in holders:
            holder.close()
        raise


def _held(listen: Listen, holders: list[socket.socket]) -> Listen:
    ext_proc = None if listen.ext_proc is None else _hold("extProc", listen.ext_proc, holders)
    return replace(
        listen,
        http=_hold("http", listen.http, holders),
        grpc=_hold("grpc", listen.grpc, holders),
        metrics=_hold("metrics", listen.metrics, holders),
        ext_proc=ext_proc,
    )


def _hold(field: str, address: str, holders: list[socket.socket]) -> str:
    host, port = split_address(address)
    try:
        found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, place = found[0]
        if port:
            with _bound(family, place, shared=False):
                pass
        holder = _bound(family, place, shared=True)
    except OSError as error:
        raise OSError(error.errno, f"listen.{field}: {address} cannot be used: {error.strerror}") from error
    holders.append(holder)
    return f"{address.rpartition(':')[0]}:{holder.getsockname()[1]}"


def _bound(family: int, place: tuple[object, ...], *, shared: bool) -> socket.socket:
    holder = socket.socket(family, socket.SOCK_STREAM)
    try:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        holder.bind(place)
    except OSError:
        holder.close()
        raise
    return holder
